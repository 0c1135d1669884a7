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

// opener is the Open of the options of a node.
type opener = func(context.Context) (driver.Store, error)

// opens returns a function that opens a store.
func opens(store driver.Store) opener {
	return func(context.Context) (driver.Store, error) { return store, nil }
}

// options returns the options of a node.
func options(id string, open opener) node.Options {
	return node.Options{
		Config:   regent.Cluster(),
		Election: "seat",
		ID:       id,
		Addr:     id + ":1",
		Log:      slog.New(slog.DiscardHandler),
		Open:     open,
		Store:    "memory:",
	}
}

// start runs a node until the returned function stops it.
func start(t *testing.T, id string, open opener, changes ...func(*node.Options)) (*node.Node, func()) {
	t.Helper()
	opts := options(id, open)
	for _, change := range changes {
		change(&opts)
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
	t.Run("health_has_the_role_the_leader_and_the_lease", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			clients := map[string]*memstore.Client{}
			open := func(id string) opener {
				clients[id] = store.Client(id, memstore.Faults{})
				return opens(clients[id])
			}
			a, stopA := start(t, "a", open("a"))
			time.Sleep(2 * time.Second)
			b, stopB := start(t, "b", open("b"))
			o, stopO := start(t, "o", open("o"), func(o *node.Options) { o.Config.Ineligible = true })
			time.Sleep(2 * time.Second)

			for n, role := range map[*node.Node]node.Role{a: node.Leader, b: node.Standby, o: node.Observer} {
				h := n.Health()
				if h.Role != role || h.Leader != "a" || h.LeaderAddr != "a:1" || h.Epoch != 1 {
					t.Errorf("%s: %+v", n.Member.ID, h)
				}
				if leads := role == node.Leader; !h.Store.Reachable || (h.LeaseRemainingMs > 0) != leads {
					t.Errorf("%s: %+v", n.Member.ID, h)
				}
			}

			clients["a"].SetFaults(memstore.Faults{Outage: true})
			time.Sleep(10 * time.Second)
			h := a.Health()
			if h.Role != node.Unknown || h.Leader != "" || h.Store.Reachable {
				t.Errorf("a, without its store: %+v", h)
			}
			if !strings.Contains(h.Store.Error, memstore.ErrOutage.Error()) {
				t.Errorf("error %q", h.Store.Error)
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

	t.Run("a_store_that_cannot_be_reached_yet_is_waited_for", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			var reachable atomic.Bool
			store := memstore.New()
			a, stop := start(t, "a", func(context.Context) (driver.Store, error) {
				if !reachable.Load() {
					return nil, errors.New("connection refused")
				}
				return store, nil
			})
			time.Sleep(time.Minute)
			h := a.Health()
			if h.Role != node.Starting || h.Store.Reachable || h.Store.AnsweredMs != -1 {
				t.Errorf("without its store: %+v", h)
			}
			if !strings.Contains(h.Store.Error, "refused") {
				t.Errorf("error %q", h.Store.Error)
			}
			if a.Live() != nil {
				t.Error("it is not alive")
			}

			reachable.Store(true)
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

	t.Run("a_node_whose_store_was_never_reached_can_be_stopped", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			_, stop := start(t, "a", func(context.Context) (driver.Store, error) { return nil, errors.New("no") })
			time.Sleep(10 * time.Second)
			stop()
		})
	})
}
