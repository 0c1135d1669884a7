package main

import (
	"strings"
	"testing"

	"github.com/regentd/regent/internal/natstest"
)

// startNATS starts a cluster of NATS servers, or a single one, for one test.
func startNATS(t *testing.T, servers int) []*natstest.Server {
	t.Helper()
	lab, err := natstest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)

	all, err := lab.Start("own", servers, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { natstest.Stop(all) })
	return all
}

// TestNATS runs nodes on a real NATS server, with a lease that outlasts the test.
func TestNATS(t *testing.T) {
	t.Parallel()
	all := startNATS(t, 1)
	address := natstest.Address(all, "/LEADERS")

	t.Run("no_node_has_used_it_yet", func(t *testing.T) {
		if code, out := ends(t, command(t, nil, "status", "--store", address)); code != exitConfig ||
			!strings.Contains(out, "no node has used it yet") {
			t.Errorf("regent status: exit code %d\n%s", code, out)
		}
		if code, out := ends(t, command(t, nil, "serve", "--store", address, "--check-config")); code != 0 {
			t.Errorf("regent serve --check-config: exit code %d\n%s", code, out)
		}
	})

	testNodesOn(t, address, func() { natstest.Stop(all) }, all[0].Start)

	t.Run("commands_ask_the_store_itself", func(t *testing.T) {
		for _, name := range []string{"status", "members", "elections", "doctor"} {
			code, out := ends(t, command(t, nil, name, "--store", address))
			if code != 0 || strings.Contains("status elections", name) && !strings.Contains(out, "coordinator") {
				t.Errorf("regent %s: exit code %d\n%s", name, code, out)
			}
			if name == "doctor" && !strings.Contains(out, "has 1 replica") {
				t.Errorf("regent doctor does not warn of a single replica:\n%s", out)
			}
		}
	})
}

// TestNATSRefused starts nodes with addresses that cannot be right.
func TestNATSRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"nats://u:s3cret@127.0.0.1:99999":        `host "127.0.0.1:99999": host must be host or host:port`,
		"nats://s3cret@127.0.0.1:1?color=red":    "color is not known",
		"nats://u:s3cret@127.0.0.1:1/a.b":        "stream must be 1 to 64 letters",
		"nats://u:s3cret@127.0.0.1:1?replicas=2": "replicas must be 1, 3 or 5",
	} {
		for way, args := range everyStart(t, address) {
			code, out := ends(t, command(t, nil, args...))
			if code != exitConfig || !strings.Contains(out, want) || strings.Contains(out, "s3cret") {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
	}
}
