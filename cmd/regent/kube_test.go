package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/internal/kubetest"
)

// startKube starts an API server for one test, or skips the test.
func startKube(t *testing.T) *kubetest.Server {
	t.Helper()
	if !kubetest.Available() {
		t.Skip(kubetest.Missing)
	}
	s, err := kubetest.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// kubeAddress returns the address of the store in namespace default.
func kubeAddress(t *testing.T, s *kubetest.Server) string {
	t.Helper()
	file, err := s.Kubeconfig(kubetest.Admin, "")
	if err != nil {
		t.Fatal(err)
	}
	return "kube://default?prefix=app&kubeconfig=" + file
}

// TestKube runs nodes on a real API server, with a lease that outlasts the test.
func TestKube(t *testing.T) {
	t.Parallel()
	s := startKube(t)
	address := kubeAddress(t, s)
	testNodesOn(t, address, s.Kill, s.Restart)

	t.Run("commands_ask_the_store_itself", func(t *testing.T) {
		for _, args := range [][]string{{"status"}, {"members"}, {"elections"}, {"doctor"}} {
			code, out := ends(t, command(t, nil, append(args, "--store", address)...))
			if code != 0 || !strings.Contains(out, "coordinator") && args[0] != "members" && args[0] != "doctor" {
				t.Errorf("regent %s: exit code %d\n%s", args[0], code, out)
			}
		}
	})
}

// TestKubeRefused starts nodes with addresses that cannot be right.
func TestKubeRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"kube://u:s3cret@ns":             "credentials come from a kubeconfig",
		"kube://ns?token=s3cret":         "token is not known",
		"kube://Bad_Namespace":           "must be the name of a namespace",
		"kube://ns?kubeconfig=no/such":   "no/such",
		"kube://ns?prefix=Bad&context=a": "prefix must be at most 63",
	} {
		for way, args := range everyStart(t, address) {
			code, out := ends(t, command(t, nil, args...))
			if code != exitConfig || !strings.Contains(out, want) || strings.Contains(out, "s3cret") {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
	}
}

// TestKubePodLabel runs nodes in pods: the label of the leader is on one pod at most, whatever happens to its node.
func TestKubePodLabel(t *testing.T) {
	t.Parallel()
	s := startKube(t)
	address := kubeAddress(t, s)
	nodes := map[string]*daemon{}
	begin := func(name string) {
		pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\n" +
			"spec: {containers: [{name: a, image: none}]}\n"
		if _, err := s.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/default/pods", "", pod); err != nil {
			t.Fatal(err)
		}
		nodes[name] = start(t, name, address, nil, "--pod-label", name, "--lease-duration", "1m")
	}
	labelled := func() (names []string) {
		t.Helper()
		text, err := s.Do(t.Context(), http.MethodGet,
			"/api/v1/namespaces/default/pods?labelSelector=regent.dev/role%3Dleader", "", "")
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Items {
			names = append(names, p.Metadata.Name)
		}
		if len(names) > 1 {
			t.Fatalf("%q have the label of the leader", names)
		}
		return names
	}
	leads := func(not string) (name string) {
		t.Helper()
		waitFor(t, "the label is on the pod of the leader", func() bool {
			names := labelled()
			if len(names) == 0 || names[0] == not {
				return false
			}
			name = names[0]
			code, _ := nodes[name].get("/leader")
			return code == http.StatusOK
		})
		return name
	}

	begin("pod-a")
	first := leads("")
	begin("pod-b")
	nodes[first].signal(syscall.SIGKILL)
	second := leads(first)
	begin("pod-c")
	if code := nodes[second].stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	leads(second)
}
