package regent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestLead(t *testing.T) {
	t.Run("C03_a_vacant_seat_is_won_and_its_duty_started", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			if got := c.noted("a starts 1"); got != 1 {
				t.Errorf("duty started %d times, want once: %q", got, c.log)
			}

			l, err := c.store.Get(c.ctx, "seat")
			if err != nil || l.Holder.ID != "a" || l.Epoch != 1 || l.Addr != "a:1" ||
				l.Via != driver.MemberRegister("a") {
				t.Errorf("record is %+v, %v", l, err)
			}

			a.quit()
		})
	})

	t.Run("C04_a_taken_seat_is_watched_and_polled", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var mu sync.Mutex
			reads := map[string]int{}
			c.store.OnRequest = func(r memstore.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Client == "b" && r.Kind == memstore.Get {
					reads[r.Name]++
				}
			}
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(time.Minute)
			if b.leads() || !a.leads() {
				t.Fatal("the seat changed hands")
			}

			mu.Lock()
			clear(reads)
			mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			mu.Lock()
			if got := reads["seat"]; got < 12 || got > 13 {
				t.Errorf("the standby read the election %d times in a minute, want every 5 s", got)
			}
			if got := reads[driver.MemberRegister("a")]; got < 30 || got > 31 {
				t.Errorf("the standby read the leader's heartbeat %d times in a minute, want every 2 s", got)
			}

			mu.Unlock()
			time.Sleep(100 * time.Millisecond) // so that no two things happen at one instant
			a.quit()
			_, took := leader(t, time.Second, b)
			if took > 10*time.Millisecond {
				t.Errorf("takeover by push took %v", took)
			}

			b.quit()
		})
	})

	t.Run("C04_with_every_notification_lost_a_release_is_found_by_the_next_poll", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b")
			b.client.Adjust(func(f *faults) { f.LoseNotice = 1 })
			b.lead()
			time.Sleep(32*time.Second + 10*time.Millisecond) // it has polled at 30 s, and read a heartbeat at 32 s
			a.quit()
			if b.leads() {
				t.Error("b was notified")
			}

			// The leader has left as well, but b learns that from the election's record alone.
			if _, took := leader(t, 5*time.Second, b); took < 1900*time.Millisecond {
				t.Errorf("b leads after %v: the poll was due after 3 s", took)
			}

			b.quit()
		})
	})

	t.Run("C06_duties_stop_then_the_seat_is_released_then_the_event_is_sent", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.OnSwap = func(old, new driver.Record, _ string) {
				if new.Name == "seat" && new.Vacant() && !old.Vacant() {
					c.note("released")
				}
			}
			a := c.member("a", func(m *regent.Member) {
				m.OnEvent = func(e regent.Event) {
					if e.Kind == regent.EventLostLeadership {
						c.note("event %s", e.Metadata["reason"])
					}
				}
			}).lead()
			leader(t, time.Second, a)
			a.quit()
			want := []string{"a starts 1", "a stops 1: shutdown", "released", "event shutdown"}
			if !slices.Equal(c.log, want) {
				t.Errorf("got %q, want %q", c.log, want)
			}
			if !errors.Is(a.err, context.Canceled) {
				t.Errorf("Lead returned %v", a.err)
			}
		})
	})

	t.Run("C09_a_returning_leader_stays_standby", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a, b := c.member("a").lead(), c.member("b")
			leader(t, time.Second, a)
			b.lead()
			time.Sleep(time.Second)
			a.quit()
			leader(t, time.Second, b)
			a.lead()
			time.Sleep(time.Minute)
			if !b.leads() || a.leads() {
				t.Error("the old leader took the seat back")
			}

			a.quit()
			b.quit()
		})
	})

	t.Run("C10_of_many_that_start_at_once_one_leads_and_all_others_watch_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var nodes []*node
			for i := range 20 {
				nodes = append(nodes, c.member(fmt.Sprintf("n%02d", i)).lead())
			}

			first, _ := leader(t, time.Second, nodes...)
			time.Sleep(time.Minute)
			if now, _ := leader(t, 0, nodes...); now != first {
				t.Errorf("the leader changed from %s to %s", first.ID, now.ID)
			}

			watched := func(leader *node, epoch uint64) {
				for _, n := range nodes {
					if v, ok := n.View("seat"); !ok || v.Leader != leader.ID || v.Addr != leader.Addr ||
						v.Epoch != epoch {
						t.Errorf("%s sees %+v, and %s leads in epoch %d", n.ID, v, leader.ID, epoch)
					}
				}
			}
			watched(first, 1)

			// All others follow its next change, too: within the time of a notification.
			nodes = slices.DeleteFunc(nodes, func(n *node) bool { return n == first })
			first.quit()
			second, _ := leader(t, time.Second, nodes...)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			watched(second, 2)
			for _, n := range nodes {
				n.quit()
			}
		})
	})

	t.Run("C21_a_single_node_leads_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			if _, took := leader(t, time.Second, a); took > 2*time.Millisecond {
				t.Errorf("it took %v", took)
			}

			time.Sleep(time.Hour)
			if !a.leads() || c.noted("a starts 1") != 1 {
				t.Errorf("after an hour: %q", c.log)
			}

			a.quit()
		})
	})

	t.Run("a_duty_that_returns_ends_the_campaign_with_its_error", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			m := c.member("a")
			failure := errors.New("out of paper")
			if err := m.Lead(c.ctx, "seat", func(context.Context, regent.Term) error {
				return failure
			}); !errors.Is(err, failure) {
				t.Errorf("Lead returned %v", err)
			}
			if err := m.Lead(c.ctx, "seat", func(context.Context, regent.Term) error { return nil }); err != nil {
				t.Errorf("Lead returned %v", err)
			}

			l, _ := c.store.Get(c.ctx, "seat")
			if !l.Vacant() || l.Epoch != 2 || len(l.Past) != 2 || l.Past[1].Reason != "returned" {
				t.Errorf("record is %+v", l)
			}
		})
	})

	t.Run("a_panicking_duty_is_an_error_not_a_crash", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			err := c.member("a").Lead(c.ctx, "seat", func(context.Context, regent.Term) error { panic("no") })
			if !errors.Is(err, regent.ErrPanicked) {
				t.Errorf("Lead returned %v", err)
			}
		})
	})

	t.Run("one_member_campaigns_for_a_seat_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			if err := a.Lead(c.ctx, "seat", nil); !errors.Is(err, regent.ErrCandidate) {
				t.Errorf("second Lead returned %v", err)
			}

			a.quit()
		})
	})

	t.Run("names_that_cannot_be_are_refused", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			for _, name := range []string{"", "a\nb", "regent/x", string(make([]byte, 300)), "\xff"} {
				if err := c.member("a").Lead(c.ctx, name, nil); err == nil {
					t.Errorf("%q was taken", name)
				}
			}

			for _, id := range []string{"*", "a\x00", string([]byte{0xff})} {
				if err := c.member(id).Lead(c.ctx, "seat", nil); err == nil {
					t.Errorf("member %q was taken", id)
				}
			}

			if err := (&regent.Member{}).Lead(c.ctx, "seat", nil); err == nil {
				t.Error("a member without a store was taken")
			}
		})
	})
}

func TestLeadReturns(t *testing.T) {
	t.Run("a_duty_that_ends_its_goroutine_ends_the_campaign", func(t *testing.T) {
		for name, lost := range map[string]bool{"while_its_term_holds": false, "when_its_term_has_ended": true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					a := c.member("a")
					ended := make(chan struct{})
					go func() {
						defer close(ended)
						_ = a.Lead(c.ctx, "seat", func(ctx context.Context, _ regent.Term) error {
							if lost {
								_ = a.StepDown(c.ctx, "seat")
								<-ctx.Done()
							}
							runtime.Goexit()
							return nil
						})
						t.Error("Lead has returned")
					}()

					<-ended
					if l, err := c.store.Get(c.ctx, "seat"); err != nil || !l.Vacant() {
						t.Errorf("the election is not released: %+v, %v", l, err)
					}

					// The member has no user any more, and can be used again.
					check(t, a.Lead(c.ctx, "seat", func(context.Context, regent.Term) error { return nil }))
				})
			})
		}
	})

	t.Run("the_duty_runs_on_the_goroutine_of_the_caller", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			const n = 50
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(c.ctx)
			a := c.member("a")
			var done sync.WaitGroup
			for i := range n {
				done.Go(func() {
					_ = a.Lead(ctx, fmt.Sprint("seat ", i), func(ctx context.Context, _ regent.Term) error {
						<-ctx.Done()
						return nil
					})
				})
			}

			time.Sleep(time.Minute)
			synctest.Wait()
			if got := runtime.NumGoroutine() - before; got >= 2*n {
				t.Errorf("%d goroutines for %d elections", got, n)
			}

			cancel()
			done.Wait()
		})
	})

	t.Run("values_of_the_context_reach_the_duty", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			type key struct{}
			ctx := context.WithValue(c.ctx, key{}, "value")
			check(t, c.member("a").Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
				if ctx.Value(key{}) != "value" {
					t.Error("the value is gone")
				}
				return nil
			}))
		})
	})
}

func TestWithdrawBeforeClaim(t *testing.T) {
	t.Run("a_seat_whose_candidate_withdraws_between_choice_and_claim_is_not_claimed", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", ranked(regent.RankPriority, 1, false))
			ctx, cancel := context.WithCancel(c.ctx)
			withdrawn, done := make(chan struct{}), make(chan struct{})
			hook := &listing{Store: a.client}
			a.Store = hook
			stop, end := context.WithCancel(c.ctx)
			go func() { defer close(done); _ = a.Run(stop, regent.Duty{Election: "other"}) }()
			time.Sleep(10 * time.Second)
			leaveIt := func() { // the member lists the others, and meanwhile its user withdraws
				cancel()
				<-withdrawn
			}
			hook.on.Store(&leaveIt)
			_ = a.Lead(ctx, "seat", func(context.Context, regent.Term) error { t.Error("it leads"); return nil })
			close(withdrawn)
			time.Sleep(time.Minute)
			if l, err := c.store.Get(c.ctx, "seat"); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("the seat was claimed: %+v, %v", l, err)
			}

			end()
			<-done
		})
	})
}

// listing is a store that calls on once, when it lists.
type listing struct {
	driver.Store
	on atomic.Pointer[func()]
}

func (s *listing) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	if on := s.on.Swap(nil); on != nil {
		(*on)()
	}
	return s.Store.List(ctx, prefix)
}

func TestManyElections(t *testing.T) {
	t.Run("ten_thousand_held_seats_cost_one_write_per_heartbeat_and_spread_when_their_holder_dies", func(t *testing.T) {
		const seats = 10_000
		bubble(t, func(c *cluster) {
			duties := make([]regent.Duty, seats)
			for i := range duties {
				duties[i].Election = fmt.Sprintf("seat-%05d", i)
			}

			var nodes []*node
			var stops []context.CancelFunc
			held := func(n *node) (sum int) {
				for _, d := range duties {
					if _, ok := n.Leads(d.Election); ok {
						sum++
					}
				}

				return sum
			}
			for i := range 3 {
				n := c.member(fmt.Sprint("n", i))
				ctx, cancel := context.WithCancel(c.ctx)
				n.done = make(chan struct{})
				go func() { defer close(n.done); _ = n.Run(ctx, duties...) }()
				nodes, stops = append(nodes, n), append(stops, cancel)
				time.Sleep(10 * time.Second)
			}

			if got := held(nodes[0]); got != seats {
				t.Fatalf("the first member holds %d seats", got)
			}

			before := nodes[0].client.Counts()
			time.Sleep(15 * time.Second)
			if got := nodes[0].client.Counts().Writes() - before.Writes(); got > 11 {
				t.Errorf("%d writes in 10 heartbeats", got)
			}

			now := nodes[0].client.Counts()
			if got := now.Gets + now.Lists - before.Gets - before.Lists; got > 11 {
				t.Errorf("%d reads in 10 heartbeats by a leader of whom nobody wants anything", got)
			}

			// Its host dies: it neither releases nor answers any more.
			nodes[0].client.SetFaults(memstore.Faults{CutRequests: true, CutAnswers: true})
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if a, b := held(nodes[1]), held(nodes[2]); a+b != seats || a < seats/3 || b < seats/3 {
				t.Errorf("the others hold %d and %d seats", a, b)
			}
			for i := range nodes {
				stops[i]()
				<-nodes[i].done
			}
		})
	})
}
