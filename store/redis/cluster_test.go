package redis

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/storetest"
)

func startCluster(t testing.TB, args ...string) []*server {
	var all []*server
	create := []string{"--cluster", "create"}
	for range 3 {
		srv := startServer(t, append([]string{"--save", "", "--cluster-enabled", "yes", "--cluster-node-timeout",
			"2000"}, args...)...)
		all, create = append(all, srv), append(create, srv.addr())
	}

	out, err := exec.Command("redis-cli", append(create, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %q: %v: %s", create, err, out)
	}

	whole(t, all)
	return all
}

// whole waits until all nodes of a cluster know each other.
func whole(t testing.TB, all []*server) {
	t.Helper()
	for _, srv := range all {
		await(t, "the cluster is whole", 20*time.Second, func() bool {
			info := cli(t, srv, "CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprint("cluster_known_nodes:", len(all)))
		})
	}
}

func TestCluster(t *testing.T) {
	all := startCluster(t, "--cluster-require-full-coverage", "no")
	url := "redis://" + all[0].addr() + "," + all[1].addr() + "?cluster=true"
	flush := func(t testing.TB) {
		for _, srv := range all {
			cli(t, srv, "FLUSHALL")
		}
	}

	suite(t, flush, url)

	t.Run("registers_are_on_all_nodes", func(t *testing.T) {
		flush(t)
		s := open(t, url)
		for i := range 30 {
			storetest.Swap(t, s, held(fmt.Sprint("seat ", i), "a", 1))
		}

		for _, srv := range all {
			if n := cli(t, srv, "DBSIZE"); n == "0" {
				t.Errorf("%s has no keys", srv.addr())
			}
		}

		if w := s.Warnings(); len(w) != 3 || !strings.Contains(w[0], "keeps nothing on disk") {
			t.Errorf("warnings: %q", w)
		}
	})

	t.Run("a_refresh_reaches_all_nodes", func(t *testing.T) {
		flush(t)
		s := open(t, url)
		ls := bulky(t, s, 100)
		changed := ls[7]
		changed.Nonce++
		changed = storetest.Swap(t, s, changed)

		name := ls[9].Name
		cli(t, shard(t, all, name), "SET", "{"+name+"}:regent", "my notes")
		for i, o := range s.Refresh(t.Context(), ls) {
			switch {
			case i == 9:
				if o.Err == nil {
					t.Errorf("an unreadable register is shown as %+v", o.Record)
				}
			case i == 7 && o.Record.Rev == changed.Rev:
			case o.Err != nil || o.Record.Rev != ls[i].Rev:
				t.Errorf("%s: %+v, %v", ls[i].Name, o.Record, o.Err)
			}
		}

		if good, bad := listed(t, s); len(good) != 99 || bad[name] == nil {
			t.Errorf("a list shows %d registers, and the errors %v", len(good), bad)
		}
	})

	t.Run("a_node_of_a_cluster_must_be_named_as_one", func(t *testing.T) {
		if s, err := Open(t.Context(), all[0].url(), Options{}); err == nil ||
			!strings.Contains(err.Error(), "cluster=true") {
			t.Errorf("Open: %v, %v", s, err)
		}
	})

	t.Run("a_fence_is_in_the_slot_of_the_first_key", func(t *testing.T) {
		s := open(t, url)
		for _, key := range []string{"plain", "{tag}:a", "a{b}c"} {
			fenced(t, s.client, 5, key)
			stale(t, s.client, 4, 5, key)
		}
		if _, err := Fence(t.Context(), s.client, regent.Term{Election: "e", Epoch: 1}, "return 1", []string{"a}b"},
			nil); err == nil || !strings.Contains(err.Error(), "hash tag") {
			t.Errorf("a key that has no slot of its own: %v", err)
		}
	})

	t.Run("registers_of_a_lost_node_have_errors_of_their_own", func(t *testing.T) {
		flush(t)
		s := open(t, url)
		ls := bulky(t, s, 100)
		var lost *server
		for _, l := range ls {
			if lost = shard(t, all, l.Name); lost != shard(t, all, "{regent}:index") {
				break
			}
		}

		away := map[string]bool{}
		for _, l := range ls {
			away[l.Name] = shard(t, all, l.Name) == lost
		}

		lost.stop(syscall.SIGKILL)
		good, bad := listed(t, s)
		for i, o := range s.Refresh(t.Context(), ls) {
			name := ls[i].Name
			if _, shown := good[name]; shown == away[name] || (bad[name] != nil) != away[name] ||
				(o.Err != nil) != away[name] {
				t.Errorf("%s on a lost node: %t; List: %t, %v; Refresh: %v", name, away[name], shown, bad[name], o.Err)
			}
		}
	})
}
