package regent_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
)

func TestDuties(t *testing.T) {
	t.Run("a_failed_duty_runs_again_with_backoff_while_the_term_holds", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			var starts []time.Duration
			begin := time.Now()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "seat", Run: func(context.Context, regent.Term) error {
					starts = append(starts, time.Since(begin).Round(time.Second))
					if len(starts) == 3 {
						panic("even so")
					}
					return errors.New("no luck")
				}})
			}()

			time.Sleep(20 * time.Second)
			synctest.Wait()
			if want := []time.Duration{0, 1e9, 3e9, 7e9, 15e9}; !slices.Equal(starts, want) {
				t.Errorf("ran at %v, want %v", starts, want)
			}
			if !a.leads() || a.Stats().DutyFailures != 5 || len(a.kinds(regent.EventDutyFailed)) != 5 {
				t.Errorf("got %+v", a.Stats())
			}

			cancel()
			<-done
		})
	})

	t.Run("C05_duties_of_one_election_start_in_order_and_stop_in_reverse", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			duty := func(name string) regent.Duty {
				return regent.Duty{Election: "seat", Run: func(ctx context.Context, _ regent.Term) error {
					c.note("start")
					<-ctx.Done()
					c.note("stop %s: %v", name, context.Cause(ctx))
					return nil
				}}
			}
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duty("one"), duty("two"), duty("three")) }()
			leader(t, time.Second, a)
			time.Sleep(time.Second)
			cancel()
			<-done
			want := []string{"start", "start", "start", "stop three: shutdown", "stop two: shutdown",
				"stop one: shutdown"}
			if !slices.Equal(c.log, want) {
				t.Errorf("got %q", c.log)
			}
		})
	})

	t.Run("a_duty_that_does_not_stop_keeps_its_seat_and_is_reported", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			release, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Lead(ctx, "seat", func(context.Context, regent.Term) error { <-release; return nil })
			}()

			leader(t, time.Second, a)
			b := c.member("b").lead()
			cancel()
			neverTwo(t, time.Minute, a, b)
			if b.leads() || len(a.kinds(regent.EventDutyStuck)) != 1 {
				t.Errorf("b leads, or nothing was said: %v", a.events)
			}

			close(release)
			<-done
			leader(t, time.Second, b)
			b.quit()
		})
	})

	t.Run("a_duty_that_outlives_a_lost_term_keeps_its_member_from_joining_again", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			release, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Lead(ctx, "seat", func(ctx context.Context, t regent.Term) error {
					if t.Epoch > 1 {
						<-ctx.Done()
					}

					<-release
					return nil
				})
			}()

			leader(t, time.Second, a)
			a.client.SetFaults(cut)
			time.Sleep(10 * time.Second)
			a.client.SetFaults(faults{})
			time.Sleep(time.Minute)
			if a.leads() || len(a.kinds(regent.EventMemberJoined)) != 1 {
				t.Error("it has joined again while its duty still ran")
			}

			close(release)
			leader(t, 10*time.Second, a)
			cancel()
			<-done
		})
	})
}

func TestDutiesThatStopSlowly(t *testing.T) {
	t.Run("a_stuck_duty_does_not_keep_its_fellows_at_work_after_the_lease_is_lost", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			release, done := make(chan struct{}), make(chan struct{})
			var at work
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "seat", Run: at.run},
					regent.Duty{Election: "seat", Run: func(context.Context, regent.Term) error {
						<-release
						return nil
					}})
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
}

// work is a duty that tells whether it is at work.
type work struct{ busy atomic.Bool }

func (w *work) run(ctx context.Context, _ regent.Term) error {
	w.busy.Store(true)
	defer w.busy.Store(false)
	<-ctx.Done()
	return nil
}
