package regent_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// trap is a store that hangs with the next read of an election, once it is armed.
type trap struct {
	*memstore.Client
	armed atomic.Bool
	store *memstore.Store
}

func (s *trap) Get(ctx context.Context, name string) (driver.Record, error) {
	if strings.HasPrefix(name, "seat") && s.armed.Swap(false) {
		s.store.Hang()
	}
	return s.Client.Get(ctx, name)
}

// The store hangs while a member asks for the seats of a worse leader, one after the other, in its loop.
func TestPreemptWithHungStore(t *testing.T) {
	bubble(t, func(c *cluster) {
		cfg := regent.Cluster()
		cfg.Rank = regent.RankLexicographic
		duties := make([]regent.Duty, 60)
		for i := range duties {
			duties[i].Election = fmt.Sprintf("seat%05d", i)
		}
		ctx, cancel := context.WithCancel(c.ctx)
		var dones []chan struct{}
		run := func(n *node) {
			done := make(chan struct{})
			dones = append(dones, done)
			go func() { defer close(done); _ = n.Run(ctx, duties...) }()
		}
		b := c.member("b", config(cfg))
		run(b)
		time.Sleep(20 * time.Second)
		cfg.Preempt = true
		a := c.member("a", config(cfg))
		w := &trap{Client: a.client, store: c.store}
		w.armed.Store(true)
		a.Store = w
		run(a)
		var most time.Duration
		for range 1500 {
			time.Sleep(100 * time.Millisecond)
			most = max(most, a.Stats().LoopLag)
		}
		t.Log("hangs", c.store.Hangs(), "lag", most)
		if most > 30*time.Second {
			t.Errorf("the loop was late by %v: livez fails after 30s, so the node is restarted because the store hangs", most)
		}
		c.store.Drop()
		cancel()
		for _, d := range dones {
			<-d
		}
	})
}

// A member that gets no notifications outranks the leader. It polls more seldom than the others hold back for it.
func TestPreemptWithoutNotifications(t *testing.T) {
	for _, profile := range []string{"cluster", "lock"} {
		t.Run(profile, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				cfg := regent.Cluster()
				cfg.OwnLease = profile == "lock"
				cfg.Rank = regent.RankLexicographic
				cfg.Preempt = true
				var nodes []*node
				for _, id := range []string{"c", "b", "a"} {
					n := c.member(id, config(cfg))
					if id == "a" {
						n.client.SetFaults(memstore.Faults{LoseHint: 1})
					}
					nodes = append(nodes, n.lead())
					time.Sleep(20*time.Second + 100*time.Millisecond) // so that polls of two members do not coincide
				}
				time.Sleep(time.Minute)

				best := nodes[2]
				if term, ok := best.Leads("seat"); !ok || term.Epoch > 4 {
					t.Errorf("a leads %t in epoch %d, and it should have been handed the seat when it first asked", ok, term.Epoch)
				}
				for _, n := range nodes {
					n.quit()
				}
			})
		})
	}
}
