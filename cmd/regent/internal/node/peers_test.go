package node_test

import (
	"context"
	"strings"
	"testing"

	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// facts are those of a node with a token.
func facts(t *testing.T, token, profile, version string, lease time.Duration) func(*node.Options) {
	t.Helper()
	f, err := node.Facts("seat", token, profile, version, lease)
	if err != nil {
		t.Fatal(err)
	}
	return func(o *node.Options) { o.Facts = f }
}

// happened returns the events of a kind that a node has sent.
func happened(t *testing.T, n *node.Node, kind string) []regent.Event {
	t.Helper()
	s, err := n.Hub.Subscribe("")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	var found []regent.Event
	for _, e := range s.Past {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// clients returns what opens a store for a node.
func clients(store *memstore.Store) func(id string) func(context.Context) (driver.Store, error) {
	return func(id string) func(context.Context) (driver.Store, error) {
		client := store.Client(id, memstore.Faults{})
		return func(context.Context) (driver.Store, error) { return client, nil }
	}
}

func TestPeers(t *testing.T) {
	t.Run("nodes_that_are_configured_differently_warn_on_both_sides", func(t *testing.T) {
		alike := facts(t, "secret", "cluster", "v1", 6*time.Second)
		for _, tt := range []struct {
			key, own, theirs string
			check            bool // it is a fault
			other            func(*node.Options)
		}{
			{"token", "set", "another one", true, facts(t, "Secret", "cluster", "v1", 6*time.Second)},
			{"token", "set", "none", true, facts(t, "", "cluster", "v1", 6*time.Second)},
			{"leaseDuration", "6s", "9s", true, facts(t, "secret", "cluster", "v1", 9*time.Second)},
			{"profile", "cluster", "fleet", true, facts(t, "secret", "fleet", "v1", 6*time.Second)},
			{"version", "v1", "v2", false, facts(t, "secret", "cluster", "v2", 6*time.Second)},
		} {
			virtual.Test(t, func(t *testing.T) {
				open := clients(memstore.New())
				a, stopA := start(t, "a", open("a"), alike)
				time.Sleep(2 * time.Second)
				same, stopSame := start(t, "same", open("same"), alike)
				odd, stopOdd := start(t, "odd", open("odd"), tt.other)
				time.Sleep(40 * time.Second)

				for n, member := range map[*node.Node]string{a: "odd", odd: "a"} {
					said := happened(t, n, node.EventConfigDiffers)
					h := n.Health()
					if len(said) != 1 || said[0].Metadata["member"] != member || said[0].Metadata["key"] != tt.key ||
						said[0].Metadata["addr"] != member+":1" || said[0].Metadata["error"] == "" {
						t.Errorf("%s: %s said %v", tt.key, n.Member.ID, said)
					}
					if len(h.Differs) != 1 || h.Differs[0].Key != tt.key || (h.Checks["config"] != "ok") != tt.check {
						t.Errorf("%s: %s has %+v, %v", tt.key, n.Member.ID, h.Differs, h.Checks)
					}
				}
				if said := happened(t, a, node.EventConfigDiffers); len(said) == 1 && (said[0].Metadata["own"] != tt.own || said[0].Metadata["theirs"] != tt.theirs) {
					t.Errorf("%s: %v", tt.key, said[0].Metadata)
				}
				if said, h := happened(t, same, node.EventConfigDiffers), same.Health(); len(said) != 0 || len(h.Differs) != 0 {
					t.Errorf("%s: one that is like the leader said %v", tt.key, said)
				}

				// What has gone is not held against anybody.
				stopOdd()
				time.Sleep(40 * time.Second)
				if h := a.Health(); len(h.Differs) != 0 || h.Checks["config"] != "ok" {
					t.Errorf("%s: %+v", tt.key, h.Differs)
				}
				stopSame()
				stopA()
			})
		}
	})

	t.Run("what_is_published_of_a_token_neither_shows_nor_confirms_it", func(t *testing.T) {
		published := func(token, election string) string {
			f, err := node.Facts(election, token, "cluster", "v1", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return f["token"]
		}
		one := published("secret", "seat")
		if one != published("secret", "seat") || one == published("Secret", "seat") || one == published("secret", "other") {
			t.Error("the digest is not one of token and election")
		}
		if len(one) != 4 { // 16 bits: a guess that fits may still be wrong
			t.Errorf("%q tells too much, or too little", one)
		}
		began := time.Now()
		for range 2 {
			published("secret", "seat")
		}
		if took := time.Since(began) / 2; took < time.Millisecond {
			t.Errorf("a guess costs no more than %v", took)
		}
		if published("", "seat") != "none" {
			t.Error("no token is not told apart")
		}
	})

	t.Run("a_node_whose_ID_is_taken_says_by_whom_and_where", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			open := clients(memstore.New())
			mine := facts(t, "", "cluster", "v1", 6*time.Second)
			_, stopA := start(t, "twin", open("a"), mine, func(o *node.Options) { o.Addr = "10.0.0.1:7468" })
			time.Sleep(5 * time.Second)
			b, stopB := start(t, "twin", open("b"), mine, func(o *node.Options) { o.Addr = "10.0.0.2:7468" })
			time.Sleep(10 * time.Second)
			said := happened(t, b, regent.EventMemberWaiting)
			if len(said) != 2 || said[0].Metadata["alive"] != "unknown" || said[1].Metadata["alive"] != "true" {
				t.Fatalf("said %v", said)
			}
			for _, part := range []string{`"twin"`, "10.0.0.1:7468", "host ", "pid ", "is alive", "stop it", "another ID"} {
				if !strings.Contains(said[1].Metadata["error"], part) {
					t.Errorf("%q does not say %q", said[1].Metadata["error"], part)
				}
			}
			if said[1].Metadata["addr"] != "10.0.0.1:7468" || said[1].Metadata["pid"] == "" || said[1].Metadata["host"] == "" {
				t.Errorf("%v", said[1].Metadata)
			}
			if h := b.Health(); h.Checks["member"] != said[1].Metadata["error"] {
				t.Errorf("checks %v", h.Checks)
			}

			stopA()
			time.Sleep(10 * time.Second)
			if h := b.Health(); h.Checks["member"] != "ok" || h.Role != node.Leader {
				t.Errorf("%+v", h)
			}
			stopB()
		})
	})
}

func TestEpochAfterARollback(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		open := clients(store)
		a, stopA := start(t, "a", open("a"))
		time.Sleep(2 * time.Second)
		early := store.Snapshot()
		b, stopB := start(t, "b", open("b"))
		time.Sleep(2 * time.Second)
		for range 4 { // epochs up to 5
			for _, n := range []*node.Node{a, b} {
				if _, leads := n.Member.Leads("seat"); leads {
					if err := n.Member.StepDown(t.Context(), "seat"); err != nil {
						t.Fatal(err)
					}
					break
				}
			}
			time.Sleep(20 * time.Second)
		}
		if h := a.Health(); h.Epoch != 5 || h.Store.Behind {
			t.Fatalf("before: %+v", h)
		}

		// The store comes back with epoch 1. Until somebody has claimed a higher one, nobody shows less than 5.
		store.Rollback(early)
		behind := false
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			for _, n := range []*node.Node{a, b} {
				h := n.Health()
				if h.Epoch < 5 {
					t.Fatalf("%s shows epoch %d", n.Member.ID, h.Epoch)
				}
				if h.Store.Behind != (h.Store.Epoch < h.Epoch) {
					t.Fatalf("%s: %+v", n.Member.ID, h)
				}
				if h.Store.Behind {
					behind = true
					if h.Store.Epoch >= h.Epoch || !strings.Contains(h.Checks["epoch"], "the store has lost writes") {
						t.Fatalf("%s: %+v", n.Member.ID, h)
					}
				}
			}
		}
		if !behind {
			t.Error("nobody has said that the store is behind")
		}
		for _, n := range []*node.Node{a, b} {
			told := len(happened(t, n, regent.EventStoreRegressed))
			if got := n.Counts().Regressed; got == 0 || got != uint64(told) {
				t.Errorf("%s: counted %d losses of writes, and told of %d", n.Member.ID, got, told)
			}
		}
		if h := a.Health(); h.Epoch <= 5 || h.Store.Behind || h.Checks["epoch"] != "ok" {
			t.Errorf("after: %+v", h)
		}
		stopA()
		stopB()
	})
}
