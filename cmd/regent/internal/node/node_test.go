package node_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// start runs a node in a bubble until the returned function stops it.
func start(t *testing.T, id string, open func(context.Context) (driver.Store, error), change ...func(*node.Options)) (*node.Node, func()) {
	t.Helper()
	opts := node.Options{Config: regent.Cluster(), Election: "seat", ID: id, Addr: id + ":1", Log: slog.New(slog.DiscardHandler), Open: open, Store: "memory:"}
	for _, f := range change {
		f(&opts)
	}
	n, err := node.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	return n, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestNode(t *testing.T) {
	t.Run("health_tells_role_leader_and_lease", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			clients := map[string]*memstore.Client{}
			open := func(id string) func(context.Context) (driver.Store, error) {
				client := store.Client(id, memstore.Faults{})
				clients[id] = client
				return func(context.Context) (driver.Store, error) { return client, nil }
			}
			a, stopA := start(t, "a", open("a"))
			time.Sleep(2 * time.Second)
			b, stopB := start(t, "b", open("b"))
			o, stopO := start(t, "o", open("o"), func(o *node.Options) { o.Config.Eligible = false })
			time.Sleep(2 * time.Second)
			if h := a.Health(); h.Role != node.Leader || h.Leader != "a" || h.LeaderAddr != "a:1" || h.Epoch != 1 || h.LeaseRemainingMs <= 0 || !h.Store.Reachable {
				t.Errorf("a: %+v", h)
			}
			if h := b.Health(); h.Role != node.Standby || h.Leader != "a" || h.LeaderAddr != "a:1" || h.Epoch != 1 || h.LeaseRemainingMs != 0 {
				t.Errorf("b: %+v", h)
			}
			if h := o.Health(); h.Role != node.Observer || h.Leader != "a" {
				t.Errorf("o: %+v", h)
			}
			clients["a"].SetFaults(memstore.Faults{Outage: true})
			time.Sleep(10 * time.Second)
			if h := a.Health(); h.Role != node.Unknown || h.Store.Reachable || !strings.Contains(h.Store.Error, "out of order") || h.Leader != "" {
				t.Errorf("a, cut off: %+v", h)
			}
			if err := a.Live(); err != nil {
				t.Errorf("a node without its store is alive: %v", err)
			}
			if h := b.Health(); h.Role != node.Leader || h.Epoch != 2 {
				t.Errorf("b: %+v", h)
			}
			if n := a.Counts().Ended["partition"]; n != 1 {
				t.Errorf("a counted %v", a.Counts())
			}
			clients["a"].SetFaults(memstore.Faults{})
			time.Sleep(10 * time.Second)
			if h := a.Health(); h.Role != node.Standby || h.Leader != "b" {
				t.Errorf("a, back again: %+v", h)
			}
			stopO()
			stopB()
			stopA()
		})
	})

	t.Run("a_store_that_is_not_there_yet_is_waited_for", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			var there atomic.Bool
			store := memstore.New()
			a, stop := start(t, "a", func(context.Context) (driver.Store, error) {
				if !there.Load() {
					return nil, errors.New("connection refused")
				}
				return store, nil
			})
			time.Sleep(time.Minute)
			if h := a.Health(); h.Role != node.Starting || h.Store.Reachable || h.Store.AnsweredMs != -1 || !strings.Contains(h.Store.Error, "refused") {
				t.Errorf("without its store: %+v", h)
			}
			if a.Live() != nil {
				t.Error("it is not alive")
			}
			there.Store(true)
			time.Sleep(5 * time.Second)
			if h := a.Health(); h.Role != node.Leader {
				t.Errorf("with it: %+v", h)
			}
			if d := a.Counts().Leaderless; d < time.Minute || d > 66*time.Second {
				t.Errorf("leaderless for %v", d)
			}
			stop()
		})
	})

	t.Run("a_node_that_is_stopped_before_its_store_is_there_stops", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			_, stop := start(t, "a", func(context.Context) (driver.Store, error) { return nil, errors.New("no") })
			time.Sleep(10 * time.Second)
			stop()
		})
	})
}

// TestFence looks at the fence of a node's worker.
func TestFence(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := memstore.New()
		write := func(l driver.Record) driver.Record {
			t.Helper()
			got, err := store.Swap(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		held := write(driver.Record{Name: "seat", Holder: driver.Identity{ID: "x", Incarnation: "X"}, Epoch: 6, Nonce: 1, Duration: time.Hour, Since: time.Now()})
		n, stop := start(t, "w", func(context.Context) (driver.Store, error) { return store.Client("w", memstore.Faults{}), nil }, func(o *node.Options) {
			o.Config.Eligible = false
			o.Coordination.Worker, o.Coordination.DataDir = true, t.TempDir()
		})
		defer stop()
		time.Sleep(2 * time.Second)

		// It is what tasks are refused by before the leader has sent any.
		if h, err := n.Worker.Fence.Highest(); h != (regent.Token{Epoch: 6, Term: "X"}) || err != nil {
			t.Errorf("the worker has learned %v, %v", h, err)
		}

		confirm := func(epoch uint64, term string, want string) {
			t.Helper()
			err := n.Worker.Fence.Confirm(regent.Token{Epoch: epoch, Term: term})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("epoch %d of term %q: %v", epoch, term, err)
			}
		}
		confirm(7, "X", "no epoch beyond 6")
		confirm(6, "X", "")
		confirm(6, "", "")
		confirm(6, "Y", "epoch 6 as that of term X, held by x, and not of term Y")
		confirm(5, "Y", "") // it may have been

		held.Holder = driver.Identity{}
		write(held)
		confirm(6, "Y", "") // nobody can tell
	})
}
