package regent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// faults is short for what goes wrong between a member and the store.
type faults = memstore.Faults

var cut = memstore.Faults{CutRequests: true, CutAnswers: true}

// neverTwo watches the nodes for a while, every millisecond, and fails if two of them lead at once.
func neverTwo(t *testing.T, d time.Duration, nodes ...*node) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var who []string
		for _, n := range nodes {
			if n.leads() {
				who = append(who, n.ID)
			}
		}
		if len(who) > 1 {
			t.Fatalf("%v lead at once", who)
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
			"both_ways": cut, "requests": {CutRequests: true}, "answers": {CutAnswers: true}, "outage_for_one": {Outage: true},
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
					if got := a.kinds(regent.EventLostLeadership); len(got) != 1 || got[0].Metadata["reason"] != "partition" {
						t.Errorf("a lost its seat by %v", got)
					}
					a.quit()
					b.quit()
				})
			})
		}
	})

	t.Run("C12_a_leader_that_is_back_within_the_takeover_delay_stays", func(t *testing.T) {
		// Two seconds of delay and a pause of heartbeats that ends half a second after the lease has run out for the observer: the
		// leader's own trust has ended by then, so the pause must be of what the observer sees.
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
		if none, some := took(0), took(2*time.Second); some-none < 1900*time.Millisecond || some-none > 2100*time.Millisecond {
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
				c.store.OnSwap = func(_, l regent.Lease, _ string) {
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
				b := c.member("b", config(profile), func(m *regent.Member) { w.Client = m.Store.(*memstore.Client); m.Store = w }).lead()
				time.Sleep(3 * time.Second)
				a.client.SetFaults(cut)
				for a.leads() {
					time.Sleep(time.Millisecond)
				}
				w.dead.Store(true)
				b.client.Adjust(func(f *faults) { f.SpuriousHint = 1 })
				// Any request of anybody wakes it now.
				_, err := c.store.Swap(c.ctx, regent.Lease{Name: "seat/x"})
				check(t, err)
				_, err = c.store.Swap(c.ctx, regent.Lease{Name: regent.MemberRegister("x")})
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
			if !a.leads() || len(b.kinds(regent.EventMemberJoined)) != 0 || len(b.kinds(regent.EventMemberWaiting)) != 1 {
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

func (w *witness) Gone(_ context.Context, l regent.Lease) bool {
	return l.Holder.ID == "a" && w.dead.Load()
}

// panicking is a store that panics once, when armed, in the member's own loop.
type panicking struct {
	regent.Store
	armed atomic.Bool
}

func (p *panicking) Swap(ctx context.Context, l regent.Lease) (regent.Lease, error) {
	if p.armed.CompareAndSwap(true, false) {
		panic("store driver is broken")
	}
	return p.Store.Swap(ctx, l)
}

func (p *panicking) List(ctx context.Context, prefix string) iter.Seq2[regent.Lease, error] {
	return p.Store.List(ctx, prefix)
}

func TestLock(t *testing.T) {
	lock := config(regent.Lock())

	t.Run("L09_a_failed_acquisition_is_no_leadership", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			a.client.SetFaults(memstore.Faults{Outage: true})
			a.lead()
			neverTwo(t, time.Minute, a)
			if a.leads() || len(c.log) != 0 {
				t.Errorf("got %q", c.log)
			}
			a.client.SetFaults(memstore.Faults{Conflict: 1})
			time.Sleep(time.Minute)
			if a.leads() || len(c.log) != 0 {
				t.Errorf("got %q", c.log)
			}
			a.quit()
		})
	})

	t.Run("L10_of_concurrent_acquisitions_exactly_one_succeeds", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var nodes []*node
			for i := range 30 {
				nodes = append(nodes, c.member(fmt.Sprint("n", i), lock).lead())
			}
			leader(t, time.Second, nodes...)
			neverTwo(t, 2*time.Second, nodes...)
			if len(c.log) != 1 {
				t.Errorf("got %q", c.log)
			}
			for _, n := range nodes {
				n.quit()
			}
		})
	})

	t.Run("L11_a_renewal_keeps_the_seat_and_the_epoch", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			before, _ := c.store.Get(c.ctx, "seat")
			writes := a.client.Counts().Writes()
			time.Sleep(100*time.Second + time.Millisecond)
			after, _ := c.store.Get(c.ctx, "seat")
			if !a.leads() || after.Epoch != before.Epoch || after.Rev == before.Rev || after.Nonce == before.Nonce {
				t.Errorf("record was %+v and is %+v", before, after)
			}
			if got := a.client.Counts().Writes() - writes; got != 10 {
				t.Errorf("renewed %d times in 100 s, want every 10 s", got)
			}
			a.quit()
		})
	})

	t.Run("L04_a_failing_renewal_is_tried_again_after_500ms_1s_2s_then_the_leader_steps_down_and_frees_its_own_key", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			var tries []time.Duration
			start := time.Now()
			c.store.OnRequest = func(r memstore.Request) {
				if r.Kind == memstore.Swap && time.Since(start) > time.Second {
					tries = append(tries, time.Since(start).Round(100*time.Millisecond))
				}
			}
			a.lead()
			leader(t, time.Second, a)
			a.client.SetFaults(memstore.Faults{Outage: true})
			time.Sleep(13600*time.Millisecond - time.Since(start))
			synctest.Wait()
			want := []time.Duration{10 * time.Second, 10500 * time.Millisecond, 11500 * time.Millisecond, 13500 * time.Millisecond}
			if len(tries) < 4 || !slices.Equal(tries[:4], want) {
				t.Errorf("tried at %v, want %v", tries, want)
			}
			if a.leads() || c.noted("a stops 1: partition: 4 tries failed, the last with: heartbeat: "+memstore.ErrOutage.Error()) == 1 {
				t.Errorf("it still leads: %q", c.log)
			}
			a.client.SetFaults(memstore.Faults{})
			leader(t, 20*time.Second, a) // through the loop that acquires it anew: it found its own key and freed it
			if l, _ := c.store.Get(c.ctx, "seat"); l.Epoch != 2 {
				t.Errorf("epoch %d", l.Epoch)
			}
			a.quit()
		})
	})

	t.Run("L04_the_deadline_cuts_the_tries_short", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			short := config(regent.Lock(), func(c *regent.Config) {
				c.LeaseDuration, c.StopTimeout, c.RenewInterval = 4*time.Second, time.Second, 2*time.Second
			})
			a := c.member("a", short).lead()
			leader(t, time.Second, a)
			start := time.Now()
			a.client.SetFaults(memstore.Faults{Outage: true})
			for a.leads() {
				time.Sleep(time.Millisecond)
			}
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("led for %v without a renewal", d)
			}
			a.client.SetFaults(memstore.Faults{})
			a.quit()
		})
	})

	t.Run("L05_a_standby_looks_every_5s_then_less_and_less_up_to_60s", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			long := config(regent.Lock(), func(c *regent.Config) { c.LeaseDuration, c.RenewInterval = 10*time.Minute, time.Minute })
			a := c.member("a", long).lead()
			leader(t, time.Second, a)
			b := c.member("b", long)
			start := time.Now()
			var looks []time.Duration
			c.store.OnRequest = func(r memstore.Request) {
				if r.Client == "b" {
					looks = append(looks, time.Since(start).Round(time.Second))
				}
			}
			b.lead()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			want := []time.Duration{0, 5, 10, 20, 40, 80, 140, 200, 260}
			for i := range want {
				want[i] *= time.Second
			}
			if !slices.Equal(looks, want) {
				t.Errorf("looked at %v, want %v", looks, want)
			}
			// A push wakes it sooner.
			a.quit()
			if _, took := leader(t, time.Second, b); took > 10*time.Millisecond {
				t.Errorf("took %v after the release", took)
			}
			b.quit()
		})
	})

	t.Run("L06_a_standby_takes_the_seat_after_its_lease_has_run_out", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			b := c.member("b", lock).lead()
			time.Sleep(time.Minute)
			a.client.SetFaults(cut)
			neverTwo(t, 61*time.Second, a, b)
			if !b.leads() {
				t.Error("b does not lead")
			}
			b.quit()
			a.quit()
		})
	})

	t.Run("L06_a_term_that_the_store_has_ended_is_in_the_past", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			b := c.member("b", lock)
			check(t, b.Pause(c.ctx, "seat"))
			b.lead()
			l, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			l.Holder, l.Epoch, l.Since = regent.Identity{ID: "a", Incarnation: "x"}, 3, time.Now()
			l, err = c.store.Swap(c.ctx, l)
			check(t, err)
			time.Sleep(time.Second)
			l.Holder, l.Paused = regent.Identity{}, false // as Redis shows it once its time is over
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			leader(t, time.Minute, b)
			l, _ = c.store.Get(c.ctx, "seat")
			if l.Epoch != 4 || len(l.Past) != 1 || l.Past[0].Holder != "a" || l.Past[0].Epoch != 3 || l.Past[0].Reason != "expired" {
				t.Errorf("record is %+v", l)
			}
			b.quit()
		})
	})

	t.Run("L12_a_demoted_leader_clears_its_own_key_only", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			b := c.member("b", lock).lead()
			time.Sleep(time.Second)
			a.client.SetFaults(cut)
			leader(t, time.Minute+time.Second, b, a)
			for !b.leads() {
				time.Sleep(time.Second)
			}
			held, _ := c.store.Get(c.ctx, "seat")
			a.client.SetFaults(memstore.Faults{})
			time.Sleep(5 * time.Second)
			if now, _ := c.store.Get(c.ctx, "seat"); now.Holder != held.Holder || !b.leads() {
				t.Errorf("the record was %v and is %v", held, now)
			}
			a.quit()
			if now, _ := c.store.Get(c.ctx, "seat"); now.Holder != held.Holder || !b.leads() {
				t.Errorf("the record was %v and is %v", held, now)
			}
			b.quit()
		})
	})

	t.Run("a_lock_without_a_rank_writes_no_member_register", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			if _, err := c.store.Get(c.ctx, regent.MemberRegister("a")); !errors.Is(err, regent.ErrNotFound) {
				t.Errorf("got %v", err)
			}
			a.quit()
		})
	})
}
