package main

import (
	"strings"
	"testing"

	"github.com/regentd/regent/internal/etcdtest"
)

// startEtcd starts an etcd cluster for one test.
func startEtcd(t *testing.T, members int) []*etcdtest.Member {
	t.Helper()
	lab, err := etcdtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lab.Close)

	all, err := lab.Start("own", members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { etcdtest.Stop(all) })
	return all
}

// TestEtcd runs nodes on a real etcd server, with a lease that outlasts the test.
func TestEtcd(t *testing.T) {
	t.Parallel()
	all := startEtcd(t, 1)
	address := etcdtest.Address(all, "/app/leaders")
	testNodesOn(t, address, func() { etcdtest.Stop(all) }, all[0].Start)

	t.Run("commands_ask_the_store_itself", func(t *testing.T) {
		for _, args := range [][]string{{"status"}, {"members"}, {"elections"}, {"doctor"}} {
			code, out := ends(t, command(t, nil, append(args, "--store", address)...))
			if code != 0 || !strings.Contains(out, "coordinator") && args[0] != "members" && args[0] != "doctor" {
				t.Errorf("regent %s: exit code %d\n%s", args[0], code, out)
			}
		}
	})
}

// TestEtcdRefused starts nodes with addresses that cannot be right.
func TestEtcdRefused(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"etcd://u:s3cret@127.0.0.1:99999":         `host "127.0.0.1:99999": host must be host or host:port`,
		"etcd://u:s3cret@127.0.0.1:1?color=red":   "color is not known",
		"etcd://u:s3cret@127.0.0.1:1?ca=no/such":  "no/such",
		"etcd://u:s3cret@127.0.0.1:1?tls=perhaps": "tls must be true or false",
	} {
		for way, args := range everyStart(t, address) {
			code, out := ends(t, command(t, nil, args...))
			if code != exitConfig || !strings.Contains(out, want) || strings.Contains(out, "s3cret") {
				t.Errorf("%s: exit code %d\n%s", way, code, out)
			}
		}
	}
}
