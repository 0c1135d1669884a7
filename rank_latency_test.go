package regent_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// far has the store answer a member after a time.
func (n *node) far(latency time.Duration) *node {
	n.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: latency}})
	return n
}

// byLatency returns a configuration of rank latency.
func byLatency(preempt bool) func(*regent.Member) {
	return config(regent.Cluster(), func(c *regent.Config) {
		c.Rank = regent.RankLatency
		c.Preempt = preempt
	})
}

// latency returns what a member has published, in milliseconds.
func (n *node) latency() float64 {
	reader := &regent.Member{Store: n.client, ID: "reader"}
	all, err := reader.Members(n.c.ctx)
	for _, m := range all {
		if m.ID == n.ID && err == nil {
			return m.LatencyMs
		}
	}

	return -1
}

const beats = 1500 * time.Millisecond // the heartbeat interval of the profile

func TestLatencyRank(t *testing.T) {
	t.Run("N02_the_candidate_nearest_to_the_store_leads_next", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			first := c.member("first", byLatency(false)).far(20 * time.Millisecond).lead()
			leader(t, 5*time.Second, first)
			far := c.member("far", byLatency(false)).far(90 * time.Millisecond).lead()
			near := c.member("near", byLatency(false)).far(5 * time.Millisecond).lead()
			near.client.SetFaults(memstore.Faults{ // it learns last that the election is free
				Answer:      memstore.Delay{Min: 5 * time.Millisecond},
				NoticeDelay: memstore.Delay{Min: 500 * time.Millisecond},
			})
			time.Sleep(20*beats + 100*time.Millisecond)
			if !first.leads() {
				t.Fatal("it was asked to hand over, without preempt")
			}

			first.quit()
			if n, _ := leader(t, 5*time.Second, far, near); n != near {
				t.Errorf("%s leads", n.ID)
			}
			near.quit()
			if n, took := leader(t, 5*time.Second, far); n != far || took > time.Second {
				t.Errorf("%s leads after %v", n.ID, took)
			}
			far.quit()
		})
	})

	t.Run("N02_with_preemption_a_member_that_is_nearer_by_a_third_takes_over_and_a_similar_one_does_not",
		func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a", byLatency(true)).far(30 * time.Millisecond).lead()
				leader(t, 5*time.Second, a)
				similar := c.member("similar", byLatency(true)).far(22 * time.Millisecond).lead()
				time.Sleep(5 * time.Minute)
				if !a.leads() {
					t.Fatal("a similar member took over")
				}

				near := c.member("near", byLatency(true)).far(18 * time.Millisecond).lead()
				neverTwo(t, time.Minute, a, similar, near)
				if !near.leads() {
					t.Error("the nearer one does not lead")
				}

				near.quit()
				similar.quit()
				a.quit()
			})
		})

	for _, period := range []int{1, 2, 3, 7, 10, 25, 40, 80} {
		t.Run(fmt.Sprintf("N02_a_latency_that_flaps_every_%d_heartbeats_moves_the_election_at_most_once", period),
			func(t *testing.T) {
				for _, flaps := range []string{"leader", "standby"} {
					bubble(t, func(c *cluster) {
						a := c.member("a", byLatency(true)).far(40 * time.Millisecond).lead()
						leader(t, 5*time.Second, a)
						b := c.member("b", byLatency(true)).far(40 * time.Millisecond).lead()
						time.Sleep(time.Minute)

						flapping := map[string]*node{"leader": a, "standby": b}[flaps]
						for i := range 1200 / period {
							latency := 5 * time.Millisecond
							if i%2 == 0 {
								latency = 300 * time.Millisecond
							}
							flapping.far(latency)
							time.Sleep(time.Duration(period) * beats)
						}

						terms := len(a.kinds(regent.EventBecameLeader)) + len(b.kinds(regent.EventBecameLeader))
						if want := map[string]int{"leader": 2, "standby": 1}[flaps]; terms != want {
							t.Errorf("the %s flaps: %d terms in half an hour, want %d", flaps, terms, want)
						}

						a.quit()
						b.quit()
					})
				}
			})
	}

	t.Run("N02_a_latency_that_is_high_in_one_of_ten_heartbeats_moves_nothing", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", byLatency(true)).far(40 * time.Millisecond).lead()
			leader(t, 5*time.Second, a)
			b := c.member("b", byLatency(true)).far(40 * time.Millisecond).lead()
			time.Sleep(time.Minute)

			chance := rand.New(rand.NewPCG(1, 2))
			for range 1500 {
				latency := 5 * time.Millisecond
				if chance.IntN(10) == 0 {
					latency = 300 * time.Millisecond
				}
				b.far(latency)
				time.Sleep(beats)
			}

			terms := len(a.kinds(regent.EventBecameLeader)) + len(b.kinds(regent.EventBecameLeader))
			if terms != 1 {
				t.Errorf("%d terms", terms)
			}
			a.quit()
			b.quit()
		})
	})

	t.Run("N02_the_published_latency_rises_soon_and_falls_late", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", byLatency(false)).far(20 * time.Millisecond).lead()
			time.Sleep(9*beats - 100*time.Millisecond)
			if got := a.latency(); got != 0 {
				t.Errorf("after nine heartbeats: %v", got)
			}
			time.Sleep(101 * beats)
			if got := a.latency(); got != 20 {
				t.Errorf("measured: %v", got)
			}

			a.far(24 * time.Millisecond)
			time.Sleep(100 * beats)
			if got := a.latency(); got != 20 {
				t.Errorf("a fifth more: %v", got)
			}

			a.far(100 * time.Millisecond)
			time.Sleep(9 * beats)
			if got := a.latency(); got != 20 {
				t.Errorf("nine slow heartbeats: %v", got)
			}
			time.Sleep(4 * beats)
			if got := a.latency(); got != 100 {
				t.Errorf("a dozen slow heartbeats: %v", got)
			}

			a.far(20 * time.Millisecond)
			time.Sleep(94 * beats)
			if got := a.latency(); got != 100 {
				t.Errorf("some are still slow: %v", got)
			}
			time.Sleep(10 * beats)
			if got := a.latency(); got != 20 {
				t.Errorf("hardly any is slow: %v", got)
			}

			a.far(0)
			time.Sleep(110 * beats)
			if got := a.latency(); got != 1 {
				t.Errorf("nothing: %v", got)
			}
			a.quit()
		})
	})
}
