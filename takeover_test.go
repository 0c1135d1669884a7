package regent_test

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

var cut = memstore.Faults{CutRequests: true, CutAnswers: true}

// neverTwo watches the nodes for a while, every millisecond, and fails if two of them lead at once.
func neverTwo(t *testing.T, d time.Duration, nodes ...*node) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var first *node
		for _, n := range nodes {
			if !n.leads() {
				continue
			}

			// Both may happen to be asked in the very instant at which one follows the other.
			if first != nil && first.leads() {
				t.Fatalf("%s and %s lead at once", first.ID, n.ID)
			}

			first = n
		}
	}
}

func TestTakeover(t *testing.T) {
	t.Run("C07_after_the_loss_of_a_host_a_standby_leads_within_ten_seconds", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(3 * time.Second)
			a.client.SetFaults(cut)
			leader(t, 10*time.Second, a) // still itself, by its deadline
			time.Sleep(5 * time.Second)
			leader(t, 5*time.Second, a, b)
			if !b.leads() {
				t.Error("b does not lead")
			}

			b.quit()
			a.quit()
		})
	})

	t.Run("C11_a_cut_off_leader_stops_before_anyone_takes_over_and_is_standby_after_the_cut", func(t *testing.T) {
		for name, faults := range map[string]memstore.Faults{
			"both_ways": cut, "requests": {CutRequests: true}, "answers": {CutAnswers: true},
			"outage_for_one": {Outage: true},
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a := c.member("a").lead()
					leader(t, time.Second, a)
					b := c.member("b").lead()
					time.Sleep(3 * time.Second)
					a.client.SetFaults(faults)
					neverTwo(t, 20*time.Second, a, b)
					if !b.leads() || c.noted("b starts 2") != 1 {
						t.Fatalf("b does not lead: %q", c.log)
					}

					a.client.SetFaults(memstore.Faults{})
					neverTwo(t, 20*time.Second, a, b)
					if !b.leads() || a.leads() {
						t.Error("healing changed the leader")
					}
					if got := a.kinds(regent.EventLostLeadership); len(got) != 1 ||
						got[0].Metadata["reason"] != "partition" {
						t.Errorf("a lost its seat by %v", got)
					}

					a.quit()
					b.quit()
				})
			})
		}
	})

	t.Run("C12_a_leader_that_is_back_within_the_takeover_delay_leads_again_before_anybody_else", func(t *testing.T) {
		// It is silent for longer than its lease, so that its own deadline has passed, and for less than lease and
		// delay.
		for name, faults := range map[string]memstore.Faults{"both_ways": cut, "requests": {CutRequests: true},
			"outage": {Outage: true}} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					delay := config(regent.Cluster(), func(c *regent.Config) { c.TakeoverDelay = 10 * time.Second })
					a := c.member("a", delay).lead()
					leader(t, time.Second, a)
					b, x := c.member("b", delay).lead(), c.member("x", delay).lead()
					time.Sleep(10 * time.Second)
					a.client.SetFaults(faults)
					neverTwo(t, 9*time.Second, a, b, x)
					if a.leads() || b.leads() || x.leads() {
						t.Fatalf("somebody leads: %q", c.log)
					}

					a.client.SetFaults(memstore.Faults{})
					neverTwo(t, 30*time.Second, a, b, x)
					if !a.leads() || c.noted("a starts 2") != 1 || len(c.log) != 3 {
						t.Errorf("a does not lead again: %q", c.log)
					}

					b.quit()
					x.quit()
					a.quit()
				})
			})
		}
	})

	t.Run("C12_the_head_start_of_a_leader_that_returns_is_one_heartbeat", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			delay := config(regent.Cluster(), func(c *regent.Config) { c.TakeoverDelay = 10 * time.Second })
			a := c.member("a", delay)
			// When it joins again, it cannot claim.
			var back atomic.Bool
			var joined atomic.Int64
			c.store.OnSwap = func(_, l driver.Record, _ string) {
				if back.Load() && l.Name == driver.MemberRegister("a") && !l.Vacant() &&
					joined.CompareAndSwap(0, time.Now().UnixNano()) {
					a.client.Adjust(func(f *faults) { f.CutRequests = true })
				}
			}
			a.lead()
			leader(t, time.Second, a)
			b := c.member("b", delay).lead()
			time.Sleep(10 * time.Second)
			a.client.SetFaults(cut)
			time.Sleep(9 * time.Second)
			back.Store(true)
			a.client.SetFaults(memstore.Faults{})
			leader(t, 20*time.Second, b)
			if d := time.Since(time.Unix(0, joined.Load())); d < 1500*time.Millisecond || d > 1600*time.Millisecond {
				t.Errorf("b leads %v after a has joined again", d)
			}

			b.quit()
			a.quit()
		})
	})

	t.Run("C12_a_leader_that_was_only_not_seen_for_a_while_stays", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			delay := config(regent.Cluster(), func(c *regent.Config) { c.TakeoverDelay = 2 * time.Second })
			a := c.member("a", delay).lead()
			leader(t, time.Second, a)
			b := c.member("b", delay).lead()
			time.Sleep(10 * time.Second)
			// What b watches stands still for as long as the answers of heartbeats and reads are held up.
			b.client.SetFaults(memstore.Faults{Outage: true})
			time.Sleep(7 * time.Second)
			b.client.SetFaults(memstore.Faults{})
			time.Sleep(time.Minute)
			if !a.leads() || b.leads() || c.noted("a starts 1") != 1 {
				t.Errorf("the leader changed: %q", c.log)
			}

			b.quit()
			a.quit()
		})
	})

	t.Run("C13_the_takeover_delay_is_the_one_configured", func(t *testing.T) {
		took := func(delay time.Duration) (took time.Duration) {
			bubble(t, func(c *cluster) {
				conf := config(regent.Cluster(), func(c *regent.Config) { c.TakeoverDelay = delay })
				a := c.member("a", conf).lead()
				leader(t, time.Second, a)
				time.Sleep(300 * time.Millisecond) // so that no two things happen at one instant
				b := c.member("b", conf).lead()
				time.Sleep(30100 * time.Millisecond)
				a.client.SetFaults(cut)
				_, took = leader(t, time.Minute, b)
				b.quit()
				a.quit()
			})

			return took
		}
		if none, some := took(0), took(2*time.Second); some-none < 1900*time.Millisecond ||
			some-none > 2100*time.Millisecond {
			t.Errorf("took %v without a delay and %v with 2s", none, some)
		}
	})

	t.Run("C17_a_member_whose_loop_panics_starts_again_after_its_duties_have_stopped", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			bomb := &panicking{}
			a := c.member("a", func(m *regent.Member) { bomb.Store = m.Store; m.Store = bomb }).lead()
			leader(t, time.Second, a)
			bomb.armed.Store(true)
			time.Sleep(10 * time.Second)
			leader(t, time.Minute, a)
			want := []string{"a starts 1", "a stops 1: ", "a starts 2"}
			if len(c.log) != 3 || c.log[0] != want[0] || !strings.HasPrefix(c.log[1], want[1]) || c.log[2] != want[2] {
				t.Errorf("got %q", c.log)
			}
			if got := a.kinds(regent.EventCandidateRestarted); len(got) != 1 {
				t.Errorf("%d restarts", len(got))
			}
			if got := a.kinds(regent.EventLostLeadership); len(got) != 1 || got[0].Metadata["reason"] != "panic" {
				t.Errorf("lost by %v", got)
			}

			a.quit()
		})
	})

	t.Run("a_lost_answer_to_a_claim_is_adopted_not_stuck", func(t *testing.T) {
		for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile))
				applied := 0
				c.store.OnSwap = func(_, l driver.Record, _ string) {
					if l.Name == "seat" && l.Holder.ID == "a" {
						if applied++; applied == 1 {
							a.client.Adjust(func(f *memstore.Faults) { f.CutAnswers = true })
						}
					}
				}
				a.lead()
				time.Sleep(100 * time.Millisecond)
				a.client.SetFaults(memstore.Faults{})
				if _, took := leader(t, 10*time.Second, a); took < 0 || c.noted("a starts 1") != 1 {
					t.Errorf("got %q", c.log)
				}

				a.quit()
			})
		}
	})

	t.Run("C12_a_death_that_is_proved_needs_no_delay", func(t *testing.T) {
		for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
			bubble(t, func(c *cluster) {
				profile.TakeoverDelay = time.Second
				w := &witness{}
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				b := c.member("b", config(profile), func(m *regent.Member) {
					w.Client = m.Store.(*memstore.Client)
					m.Store = w
				}).lead()
				time.Sleep(3 * time.Second)
				a.client.SetFaults(cut)
				for a.leads() {
					time.Sleep(time.Millisecond)
				}

				w.dead.Store(true)
				b.client.Adjust(func(f *faults) { f.SpuriousNotice = 1 })
				// Any request of anybody wakes it now.
				_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat/x"})
				check(t, err)
				_, err = c.store.Swap(c.ctx, driver.Record{Name: driver.MemberRegister("x")})
				check(t, err)
				if _, took := leader(t, time.Second, b); took > 100*time.Millisecond {
					t.Errorf("took %v", took)
				}

				b.quit()
				a.quit()
			})
		}
	})

	t.Run("a_member_does_not_join_over_a_live_one_of_the_same_ID", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("twin").lead()
			leader(t, time.Second, a)
			b := c.member("twin").lead()
			neverTwo(t, time.Minute, a, b)
			if !a.leads() || len(b.kinds(regent.EventMemberJoined)) != 0 ||
				len(b.kinds(regent.EventMemberWaiting)) != 2 {
				t.Errorf("b has joined, or says nothing: %v", b.events)
			}
			a.client.SetFaults(cut) // and now it runs out
			neverTwo(t, 20*time.Second, a, b)
			if !b.leads() {
				t.Error("b never came in")
			}

			b.quit()
			a.quit()
		})
	})

	t.Run("a_flushed_store_is_noticed_and_the_epoch_grows_on", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(10 * time.Second)
			c.store.Flush()
			neverTwo(t, 30*time.Second, a, b)
			n, _ := leader(t, time.Minute, a, b)
			term, _ := n.Leads("seat")
			if term.Epoch != 2 {
				t.Errorf("epoch %d after the flush", term.Epoch)
			}
			if got := b.kinds(regent.EventStoreRegressed); len(got) == 0 {
				t.Error("nobody has noticed")
			}

			a.quit()
			b.quit()
		})
	})
}

// witness is a store that can tell that a is dead.
type witness struct {
	*memstore.Client
	dead atomic.Bool
}

func (w *witness) Gone(_ context.Context, l driver.Record) bool {
	return l.Holder.ID == "a" && w.dead.Load()
}

// panicking is a store that panics once, when armed, in the member's own loop.
type panicking struct {
	driver.Store
	armed atomic.Bool
}

func (p *panicking) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if p.armed.CompareAndSwap(true, false) {
		panic("store driver is broken")
	}
	return p.Store.Swap(ctx, l)
}

func (p *panicking) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return p.Store.List(ctx, prefix)
}
