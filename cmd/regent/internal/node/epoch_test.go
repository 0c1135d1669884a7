package node_test

import (
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// TestEpochAfterRollback has a store lose writes: no node shows a lower epoch than it has seen.
func TestEpochAfterRollback(t *testing.T) {
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

		// The store comes back with epoch 1. Until a member has claimed a higher epoch, no node shows less than 5.
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
			t.Error("no node has reported that the store is behind")
		}
		for _, n := range []*node.Node{a, b} {
			sent := len(eventsOf(t, n, regent.EventStoreRegressed))
			if got := n.Counts().Regressed; got == 0 || got != uint64(sent) {
				t.Errorf("%s: counted %d losses of writes, and sent %d events", n.Member.ID, got, sent)
			}
		}
		if h := a.Health(); h.Epoch <= 5 || h.Store.Behind || h.Checks["epoch"] != "ok" {
			t.Errorf("after: %+v", h)
		}
		stopA()
		stopB()
	})
}
