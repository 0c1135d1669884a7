package regent_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// bent is a store whose swaps can be bent.
type bent struct {
	driver.Store
	swap func(driver.Record) error // an error instead of the swap, or nil
}

func (b *bent) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if err := b.swap(l); err != nil {
		return driver.Record{}, err
	}
	return b.Store.Swap(ctx, l)
}

func (b *bent) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return b.Store.List(ctx, prefix)
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

// short is a store that tells too little of a batch.
type short struct{ *memstore.Client }

func (s short) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	return s.Client.SwapAll(ctx, ls)[:1]
}

func TestTrouble(t *testing.T) {
	t.Run("a_stuck_duty_does_not_keep_its_fellows_at_work_after_the_lease_is_lost", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			release, done := make(chan struct{}), make(chan struct{})
			var at work
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "seat", Run: at.run},
					regent.Duty{Election: "seat", Run: func(context.Context, regent.Term) error { <-release; return nil }})
			}()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(time.Second)
			a.client.SetFaults(cut)
			for !b.leads() {
				if time.Sleep(time.Millisecond); b.leads() && at.busy.Load() {
					t.Error("the other duty is still at work")
				}
			}
			close(release)
			a.client.SetFaults(faults{})
			cancel()
			<-done
			b.quit()
		})
	})

	t.Run("duties_that_stop_slowly_one_after_the_other_share_the_stop_timeout", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			slow := regent.Duty{Election: "seat", Run: func(ctx context.Context, _ regent.Term) error {
				<-ctx.Done()
				time.Sleep(900 * time.Millisecond)
				return nil
			}}
			go func() { defer close(done); _ = a.Run(ctx, slow, slow, slow, slow, slow) }()
			leader(t, time.Second, a)
			start := time.Now()
			cancel()
			<-done
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})

	t.Run("a_confirmation_may_ask_the_member_itself", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			f := regent.Fence{Confirm: func(t regent.Token) error {
				a.Observe("seat", t.Epoch)
				a.View("seat")
				return a.Fence("seat").Learn(t)
			}}
			check(t, f.Admit(regent.Token{Epoch: 9}))
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Error("it no longer leads")
			}
			a.quit()
		})
	})

	t.Run("a_confirmation_is_asked_for_the_first_epoch_too", func(t *testing.T) {
		f := regent.Fence{Confirm: func(regent.Token) error { return errors.New("no") }}
		if f.Admit(regent.Token{Epoch: 1 << 60}) == nil {
			t.Error("admitted")
		}
	})

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
			leaveIt := func() { // the member looks who else is there, and meanwhile its user changes his mind
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

	t.Run("C17_a_panic_in_the_renewal_of_a_lock_restarts_the_member", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			n := 0
			a := c.member("a", config(regent.Lock()))
			a.Store = &bent{a.client, func(driver.Record) error {
				if n++; n == 2 {
					panic("driver is broken")
				}
				return nil
			}}
			a.lead()
			time.Sleep(5 * time.Minute)
			if !a.leads() || len(a.kinds(regent.EventCandidateRestarted)) != 1 {
				t.Errorf("%q", c.log)
			}
			a.quit()
		})
	})

	t.Run("a_checkpoint_that_the_store_does_not_take_is_an_error_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			full := errors.New("disk is full")
			a := c.member("a")
			a.Store = &bent{a.client, func(l driver.Record) error {
				if l.Name == "seat" && len(l.Data) > 0 {
					return full
				}
				return nil
			}}
			check(t, a.Lead(c.ctx, "seat", func(ctx context.Context, term regent.Term) error {
				if err := term.Save(ctx, []byte("x")); !errors.Is(err, full) {
					t.Errorf("got %v", err)
				}
				return nil
			}))
		})
	})

	t.Run("a_store_that_hangs_does_not_hold_up_a_shutdown_seat_by_seat", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var duties []regent.Duty
			for i := range 200 {
				duties = append(duties, regent.Duty{Election: "s" + time.Duration(i).String()})
			}
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duties...) }()
			time.Sleep(5 * time.Second)
			a.client.SetFaults(cut)
			start := time.Now()
			cancel()
			<-done
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})

	t.Run("after_an_outage_a_lock_is_looked_at_again_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Lock()))
			a.client.SetFaults(faults{Outage: true})
			a.lead()
			time.Sleep(10 * time.Minute)
			a.client.SetFaults(faults{})
			if _, took := leader(t, time.Minute, a); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			a.quit()
		})
	})

	t.Run("a_paused_election_is_not_handed_off", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(2 * time.Second)
			check(t, a.Pause(c.ctx, "seat"))
			time.Sleep(2 * time.Second)
			for _, n := range []*node{a, b} {
				if err := n.HandOff(c.ctx, "seat", "b"); err == nil || !strings.Contains(err.Error(), "paused") {
					t.Errorf("got %v", err)
				}
			}
			if !a.leads() {
				t.Error("nobody leads")
			}
			a.quit()
			b.quit()
		})
	})

	t.Run("P03_an_unhealthy_holder_of_a_lock_hands_over", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var ill atomic.Bool
			a := c.member("a", config(regent.Lock()), func(m *regent.Member) {
				m.Health = func(context.Context) error {
					if ill.Load() {
						return errors.New("ill")
					}
					return nil
				}
			}).lead()
			leader(t, 10*time.Second, a)
			b := c.member("b", config(regent.Lock()), func(m *regent.Member) { m.Health = func(context.Context) error { return nil } }).lead()
			time.Sleep(10 * time.Second)
			ill.Store(true)
			neverTwo(t, 20*time.Second, a, b)
			if !b.leads() {
				t.Error("b does not lead")
			}
			a.quit()
			b.quit()
		})
	})

	t.Run("a_store_that_tells_too_little_of_a_batch_is_asked_again", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			a.Store = short{a.client}
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "x"}, regent.Duty{Election: "y"}, regent.Duty{Election: "z"})
			}()
			time.Sleep(time.Minute)
			for _, e := range []string{"x", "y", "z"} {
				if _, ok := a.Leads(e); !ok {
					t.Errorf("%s is not led", e)
				}
			}
			if len(a.kinds(regent.EventCandidateRestarted)) != 0 {
				t.Error("the loop died")
			}
			cancel()
			<-done
		})
	})

	t.Run("an_absurd_epoch_is_not_believed", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			a.Observe("seat", 1<<63)
			a.lead()
			leader(t, time.Second, a)
			if term, _ := a.Leads("seat"); term.Epoch != 1 {
				t.Errorf("epoch %d", term.Epoch)
			}
			a.quit()
		})
	})

	t.Run("a_duty_that_ends_its_goroutine_is_an_error", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			if err := c.member("a").Lead(c.ctx, "seat", func(context.Context, regent.Term) error { runtime.Goexit(); return nil }); err == nil {
				t.Error("no error")
			}
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

	t.Run("who_watches_on_the_leader_of_a_lock_sees_a_pause", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Lock())).lead()
			leader(t, time.Second, a)
			ctx, cancel := context.WithCancel(c.ctx)
			var seen []bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for v := range a.Watch(ctx, "seat") {
					seen = append(seen, v.Paused)
				}
			}()
			time.Sleep(time.Second)
			check(t, c.member("b").Pause(c.ctx, "seat"))
			time.Sleep(30 * time.Second)
			cancel()
			<-done
			if !slices.Equal(seen, []bool{false, true}) {
				t.Errorf("saw %v", seen)
			}
			a.quit()
		})
	})
}

// work is a duty that tells whether it is at work.
type work struct{ busy atomic.Bool }

func (w *work) run(ctx context.Context, _ regent.Term) error {
	w.busy.Store(true)
	defer w.busy.Store(false)
	<-ctx.Done()
	return nil
}
