package node_test

import (
	"context"
	"iter"
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

// partial is a store that fails for the registers of polls, and for no others.
type partial struct {
	*memstore.Client
	failing *atomic.Bool
}

func (p partial) fails(name string) bool {
	return p.failing.Load() && strings.HasPrefix(name, "regent/polls/")
}

func (p partial) Get(ctx context.Context, name string) (driver.Record, error) {
	if p.fails(name) {
		return driver.Record{}, memstore.ErrOutage
	}
	return p.Client.Get(ctx, name)
}

func (p partial) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if p.fails(l.Name) {
		return driver.Record{}, memstore.ErrOutage
	}
	return p.Client.Swap(ctx, l)
}

func (p partial) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	if p.fails(prefix) {
		return func(yield func(driver.Record, error) bool) { yield(driver.Record{}, memstore.ErrOutage) }
	}
	return p.Client.List(ctx, prefix)
}

func TestStoreFailures(t *testing.T) {
	for name, faults := range map[string]memstore.Faults{
		"hangs": {CutRequests: true, CutAnswers: true},
		"fails": {Outage: true},
	} {
		t.Run("a_store_that_cannot_be_reached_is_not_writable_"+name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				store := memstore.New()
				client := store.Client("a", memstore.Faults{})
				n, stop := start(t, "a", opens(client))
				defer stop()
				time.Sleep(10 * time.Second)
				if s := n.Health().Store; !s.Reachable || !s.Writable {
					t.Fatalf("before: %+v", s)
				}

				client.SetFaults(faults)
				unreachable := 0
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					if s := n.Health().Store; !s.Reachable {
						unreachable++
						if s.Writable {
							t.Fatalf("%+v", s)
						}
					}
				}
				if unreachable == 0 {
					t.Error("the store could always be reached")
				}

				client.SetFaults(memstore.Faults{})
				time.Sleep(20 * time.Second)
				if s := n.Health().Store; !s.Reachable || !s.Writable {
					t.Errorf("after: %+v", s)
				}
			})
		})
	}

	t.Run("P03_short_failures_of_the_store_make_no_node_unhealthy", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			var failing atomic.Bool
			var nodes []*node.Node
			for _, id := range []string{"a", "b", "c"} {
				client := partial{store.Client(id, memstore.Faults{}), &failing}
				n, stop := start(t, id, opens(client))
				defer stop()
				nodes = append(nodes, n)
			}
			leads := func() bool {
				for _, n := range nodes {
					if _, leads := n.Member.Leads("seat"); leads {
						return true
					}
				}
				return false
			}

			time.Sleep(10 * time.Second)
			failing.Store(true)
			for range 8 { // terms of a few seconds, in which the duty polls cannot begin
				time.Sleep(20 * time.Second)
				store.SetFaults(memstore.Faults{Outage: true})
				time.Sleep(8 * time.Second)
				store.SetFaults(memstore.Faults{})
			}
			failing.Store(false)

			time.Sleep(15 * time.Second)
			for range 60 {
				if !leads() {
					t.Fatal("nobody leads after the store has come back")
				}
				time.Sleep(time.Second)
			}

			failures := uint64(0)
			for _, n := range nodes {
				if events := eventsOf(t, n, regent.EventHealthChanged); len(events) != 0 {
					t.Errorf("%s: %v", n.Member.ID, events)
				}
				for _, d := range n.Member.Duties() {
					failures += d.Failures
					if d.InARow != 0 {
						t.Errorf("%s: %+v", n.Member.ID, d)
					}
				}
			}
			if failures < 10 {
				t.Errorf("%d failures: the store did not fail", failures)
			}
		})
	})
}
