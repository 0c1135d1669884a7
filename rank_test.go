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

func ranked(rank regent.Rank, priority int, preempt bool) func(*regent.Member) {
	return config(regent.Cluster(), func(c *regent.Config) {
		c.Rank = rank
		c.Priority = priority
		c.Preempt = preempt
	})
}

func TestRank(t *testing.T) {
	t.Run("P01_the_higher_priority_wins_a_free_seat", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			first := c.member("first", ranked(regent.RankPriority, 0, false)).lead()
			leader(t, 5*time.Second, first)
			low := c.member("low", ranked(regent.RankPriority, 1, false)).lead()
			high := c.member("high", ranked(regent.RankPriority, 5, false)).lead()
			time.Sleep(10*time.Second + 100*time.Millisecond) // so that no two things happen at one instant
			if !first.leads() {
				t.Fatal("a seat was taken from its holder")
			}

			first.quit()
			if n, took := leader(t, 5*time.Second, low, high); n != high || took > 10*time.Millisecond {
				t.Errorf("%s leads after %v", n.ID, took)
			}

			high.quit()
			low.quit()
		})
	})

	t.Run("P01_one_that_stepped_down_leads_again_once_the_others_had_their_chance", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			low := c.member("low", ranked(regent.RankPriority, 1, false)).lead()
			leader(t, 5*time.Second, low)
			high := c.member("high", ranked(regent.RankPriority, 5, false)).lead()
			time.Sleep(10 * time.Second)
			high.client.SetFaults(cut) // its lease is in force, and it does nothing
			time.Sleep(time.Second)
			check(t, low.StepDown(c.ctx, "seat"))
			if _, took := leader(t, 10*time.Second, low); took < 6*time.Second || took > 7*time.Second {
				t.Errorf("low leads again after %v", took)
			}

			low.quit()
			high.quit()
		})
	})

	t.Run("P01_preemption_is_a_graceful_handoff", func(t *testing.T) {
		for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
			bubble(t, func(c *cluster) {
				conf := func(p int) func(*regent.Member) {
					return config(profile, func(c *regent.Config) {
						c.Rank, c.Priority,
							c.Preempt = regent.RankPriority, p, true
					})
				}
				low := c.member("low", conf(1)).lead()
				leader(t, 5*time.Second, low)
				high := c.member("high", conf(2)).lead()
				neverTwo(t, 30*time.Second, low, high)
				if !high.leads() {
					t.Error("high does not lead")
				}
				if lost := low.kinds(regent.EventLostLeadership); len(lost) != 1 ||
					lost[0].Metadata["reason"] != "handoff" {
					t.Errorf("low lost by %v", lost)
				}

				high.quit()
				low.quit()
			})
		}
	})

	t.Run("P04_the_preferred_region_wins", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			conf := func(region string) func(*regent.Member) {
				return config(regent.Cluster(), func(c *regent.Config) { c.Rank, c.Region = "region:eu,us", region })
			}
			first := c.member("first", conf("asia")).lead()
			leader(t, 5*time.Second, first)
			us, eu := c.member("us", conf("us")).lead(), c.member("xeu", conf("eu")).lead()
			time.Sleep(5 * time.Second)
			first.quit()
			if n, _ := leader(t, 5*time.Second, us, eu); n != eu {
				t.Errorf("%s leads", n.ID)
			}

			eu.quit()
			us.quit()
		})
	})
}

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
			t.Errorf("the loop was late by %v: livez fails after 30s, "+
				"so the node is restarted because the store hangs", most)
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
						n.client.SetFaults(memstore.Faults{LoseNotice: 1})
					}

					nodes = append(nodes, n.lead())
					time.Sleep(20*time.Second + 100*time.Millisecond) // so that polls of two members do not coincide
				}

				time.Sleep(time.Minute)

				best := nodes[2]
				if term, ok := best.Leads("seat"); !ok || term.Epoch > 4 {
					t.Errorf("a leads %t in epoch %d, and it should have been handed the seat when it first asked",
						ok, term.Epoch)
				}

				for _, n := range nodes {
					n.quit()
				}
			})
		})
	}
}
