package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestSidecar asks a node for the leader's name as users of the leader-elector sidecar do.
func TestSidecar(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + inMemory(t) + "/regent.db"
	a := start(t, "node-a", store, nil, "--sidecar", "127.0.0.1:0")
	a.until("/leader", http.StatusOK)
	b := start(t, "node-b", store, nil, "--sidecar", "127.0.0.1:0")

	for _, d := range []*daemon{a, b} {
		d.url = "http://" + d.await(`msg="sidecar listens" sidecar=(\S+)`)
		waitFor(t, d.name+" names the leader", func() bool {
			code, body := d.get("/")
			return code == http.StatusOK && len(body) == 1 && body["name"] == "node-a"
		})
		if code, _ := d.get("/v1/status"); code != http.StatusNotFound {
			t.Errorf("the sidecar of %s answers more than /: %d", d.name, code)
		}
	}

	code, out := ends(t, command(t, nil, serveArgs(t, "node-c", store, "--sidecar", "no-port")...))
	if code == 0 || !strings.Contains(out, "no-port") {
		t.Errorf("an address without a port: exit code %d\n%s", code, out)
	}
}

// TestPodLabelRefused starts a node that should label a pod without the API server that has it.
func TestPodLabelRefused(t *testing.T) {
	t.Parallel()
	code, out := ends(t, command(t, nil, serveArgs(t, "node-a", "memory:", "--pod-label", "pod-a")...))
	if code != exitConfig || !strings.Contains(out, "podLabel needs a store kube://") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
