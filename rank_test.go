package regent_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
)

func ranked(rank regent.Rank, priority int, preempt bool) func(*regent.Member) {
	return config(regent.Cluster(), func(c *regent.Config) { c.Rank, c.Priority, c.Preempt = rank, priority, preempt })
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
			high.client.SetFaults(cut) // it looks alive, and does nothing
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
					return config(profile, func(c *regent.Config) { c.Rank, c.Priority, c.Preempt = regent.RankPriority, p, true })
				}
				low := c.member("low", conf(1)).lead()
				leader(t, 5*time.Second, low)
				high := c.member("high", conf(2)).lead()
				neverTwo(t, 30*time.Second, low, high)
				if !high.leads() {
					t.Error("high does not lead")
				}
				if lost := low.kinds(regent.EventLostLeadership); len(lost) != 1 || lost[0].Metadata["reason"] != "handoff" {
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

func TestHandOff(t *testing.T) {
	t.Run("P02_the_named_successor_leads_one_push_and_one_write_later", func(t *testing.T) {
		for _, profile := range []regent.Config{regent.Cluster(), regent.Lock()} {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile)).lead()
				leader(t, 5*time.Second, a)
				b, x := c.member("b", config(profile)).lead(), c.member("x", config(profile)).lead()
				time.Sleep(3100 * time.Millisecond) // no heartbeat and no poll is due
				before := x.client.Counts()
				others := b.client.Counts().Writes()
				check(t, a.HandOff(c.ctx, "seat", "x"))
				if n, took := leader(t, time.Second, a, b, x); n != x || took > 5*time.Millisecond {
					t.Errorf("%s leads after %v", n.ID, took)
				}
				if now := x.client.Counts(); now.Writes()-before.Writes() != 1 || now.Total()-before.Total() != 1 {
					t.Errorf("the successor sent %+v, before the handoff %+v: want one write and nothing else", now, before)
				}
				if n := b.client.Counts().Writes() - others; n != 0 {
					t.Errorf("another candidate wrote %d times", n)
				}
				if n := c.noted("a stops 1: handoff"); n != 1 {
					t.Errorf("got %q", c.log)
				}
				b.quit()
				x.quit()
				a.quit()
			})
		}
	})

	t.Run("P02_any_member_can_ask_for_it_with_every_hint_lost", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, 5*time.Second, a)
			b := c.member("b").lead()
			for _, n := range []*node{a, b} {
				n.client.Adjust(func(f *faults) { f.LoseHint = 1 })
			}
			time.Sleep(3 * time.Second)
			ctx, cancel := context.WithTimeout(c.ctx, 20*time.Second)
			defer cancel()
			check(t, b.HandOff(ctx, "seat", "b"))
			leader(t, 10*time.Second, b)
			b.quit()
			a.quit()
		})
	})

	t.Run("a_successor_that_is_not_there_is_refused_and_nothing_is_lost", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, 5*time.Second, a)
			for to, want := range map[string]string{"ghost": `there is no member "ghost"`, "": "name a successor", "a": "leads already"} {
				if err := a.HandOff(c.ctx, "seat", to); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("to %q: %v", to, err)
				}
			}
			if err := a.StepDown(c.ctx, "other"); err == nil || !strings.Contains(err.Error(), "nobody leads") {
				t.Errorf("got %v", err)
			}
			if !a.leads() {
				t.Error("a no longer leads")
			}
			a.quit()
		})
	})

	t.Run("a_paused_seat_keeps_its_leader_and_is_claimed_by_nobody_else", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, 5*time.Second, a)
			b := c.member("b").lead()
			time.Sleep(2 * time.Second)
			check(t, b.Pause(c.ctx, "seat"))
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Fatal("the leader did not stay")
			}
			check(t, b.StepDown(c.ctx, "seat"))
			time.Sleep(time.Minute)
			if a.leads() || b.leads() {
				t.Fatal("somebody leads a paused seat")
			}
			check(t, a.Resume(c.ctx, "seat"))
			leader(t, time.Second, a, b)
			a.quit()
			b.quit()
		})
	})

	t.Run("a_seat_can_be_paused_before_anyone_ever_held_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			check(t, a.Pause(c.ctx, "seat"))
			a.lead()
			time.Sleep(time.Minute)
			if a.leads() {
				t.Error("it leads")
			}
			check(t, a.Resume(c.ctx, "seat"))
			leader(t, time.Second, a)
			a.quit()
		})
	})
}

func TestHealth(t *testing.T) {
	sick := func(flag *atomic.Bool) func(*regent.Member) {
		return func(m *regent.Member) {
			m.Health = func(context.Context) error {
				if flag.Load() {
					return errors.New("disk is full")
				}
				return nil
			}
		}
	}

	t.Run("P03_an_unhealthy_member_does_not_campaign", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var ill atomic.Bool
			ill.Store(true)
			a := c.member("a", sick(&ill)).lead()
			time.Sleep(time.Minute)
			if a.leads() {
				t.Fatal("it leads")
			}
			ill.Store(false)
			leader(t, 10*time.Second, a)
			a.quit()
		})
	})

	t.Run("P03_an_unhealthy_leader_hands_over_but_never_as_the_last_one", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var illA, illB atomic.Bool
			a := c.member("a", sick(&illA)).lead()
			leader(t, time.Second, a)
			illA.Store(true)
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Fatal("the only one stepped down")
			}
			b := c.member("b", sick(&illB))
			illB.Store(true)
			b.lead()
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Fatal("it handed over to another sick one")
			}
			illB.Store(false)
			neverTwo(t, 10*time.Second, a, b)
			if !b.leads() {
				t.Error("the healthy one does not lead")
			}
			if lost := a.kinds(regent.EventLostLeadership); len(lost) != 1 || lost[0].Metadata["reason"] != "unhealthy" {
				t.Errorf("lost by %v", lost)
			}
			a.quit()
			b.quit()
		})
	})

	t.Run("P03_a_panicking_check_is_an_illness", func(t *testing.T) {
		for name, f := range map[string]func(){"panic: ouch": func() { panic("ouch") }, "goroutine": runtime.Goexit} {
			bubble(t, func(c *cluster) {
				a := c.member("a", func(m *regent.Member) { m.Health = func(context.Context) error { f(); return nil } }).lead()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				said := a.kinds(regent.EventHealthChanged)
				if a.leads() || len(said) != 1 || !strings.Contains(said[0].Metadata["error"], name) {
					t.Errorf("it leads, or says %v", said)
				}
				a.quit()
			})
		}
	})

	t.Run("P03_a_check_that_hangs_is_an_illness_after_one_heartbeat_until_it_returns", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var hang atomic.Pointer[chan error]
			var running, most, asked atomic.Int32
			a := c.member("a", func(m *regent.Member) {
				m.Health = func(context.Context) error { // and heeds no context
					asked.Add(1)
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					if h := hang.Load(); h != nil {
						return <-*h
					}
					return nil
				}
			}).lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(10 * time.Second)
			h := make(chan error)
			hang.Store(&h)
			before := asked.Load()
			began := time.Now()
			for len(a.kinds(regent.EventHealthChanged)) == 0 && time.Since(began) < time.Minute {
				time.Sleep(time.Millisecond)
			}
			// It is asked within one heartbeat, and may take another.
			if took := time.Since(began); took < 1500*time.Millisecond || took > 3010*time.Millisecond {
				t.Errorf("it was noticed after %v", took)
			}
			neverTwo(t, time.Minute, a, b)
			said := a.kinds(regent.EventHealthChanged)
			if a.leads() || !b.leads() || len(said) != 1 || !strings.Contains(said[0].Metadata["error"], "not returned within 1.5s") {
				t.Errorf("a leads: %t, and says %v", a.leads(), said)
			}
			hang.Store(nil)
			h <- nil
			synctest.Wait()
			if said = a.kinds(regent.EventHealthChanged); len(said) != 2 || said[1].Metadata["healthy"] != "true" {
				t.Errorf("a says %v", said)
			}
			if most.Load() != 1 || asked.Load() != before+1 {
				t.Errorf("%d checks at once, %d while it hung", most.Load(), asked.Load()-before)
			}
			b.quit()
			leader(t, 10*time.Second, a)

			// A member stops although its check does not, and asks no second time before the first has returned.
			hang.Store(&h)
			time.Sleep(5 * time.Second)
			began = time.Now()
			a.quit()
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v to stop", took)
			}
			a.lead()
			time.Sleep(10 * time.Second)
			if a.leads() || most.Load() != 1 {
				t.Errorf("leads: %t, %d checks at once", a.leads(), most.Load())
			}
			hang.Store(nil)
			h <- nil
			leader(t, 10*time.Second, a)
			a.quit()
		})
	})
}
