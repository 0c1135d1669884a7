package regent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestWatch(t *testing.T) {
	t.Run("an_observer_sees_each_leader_and_writes_nothing", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			o := c.member("o")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			var seen []string
			go func() {
				defer close(done)
				for v, err := range o.Watch(ctx, "seat") {
					check(t, err)
					seen = append(seen, fmt.Sprintf("%s %d %s", v.Leader, v.Epoch, v.Addr))
				}
			}()
			time.Sleep(time.Second)
			a := c.member("a").lead()
			time.Sleep(time.Second)
			b := c.member("b").lead()
			time.Sleep(time.Second)
			a.quit()
			time.Sleep(time.Second)
			cancel()
			<-done
			want := []string{" 0 ", "a 1 a:1", " 1 ", "b 2 b:1"}
			// The vacancy between two leaders may be too short to be seen.
			if !slices.Equal(seen, want) && !slices.Equal(seen, []string{" 0 ", "a 1 a:1", "b 2 b:1"}) {
				t.Errorf("saw %q", seen)
			}
			if n := o.client.Counts().Writes(); n != 0 {
				t.Errorf("the observer wrote %d times", n)
			}
			b.quit()
		})
	})

	t.Run("a_loop_that_is_left_leaves_nothing_behind", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			o := c.member("o")
			for v, err := range o.Watch(c.ctx, "seat") {
				if err != nil || v.Leader != "" {
					t.Errorf("got %+v, %v", v, err)
				}
				break
			}
			reads := o.client.Counts().Total()
			time.Sleep(time.Hour)
			if got := o.client.Counts().Total(); got != reads {
				t.Errorf("%d requests after the loop was left", got-reads)
			}
		})
	})

	t.Run("C02_an_ineligible_member_registers_and_observes_but_never_campaigns", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Cluster(), func(c *regent.Config) { c.Ineligible = true })).lead()
			time.Sleep(time.Minute)
			if a.leads() || len(a.kinds(regent.EventMemberJoined)) != 1 {
				t.Error("it leads, or is no member")
			}
			if _, err := c.store.Get(c.ctx, "seat"); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("the seat was written: %v", err)
			}
			a.quit()
		})
	})

	t.Run("a_bad_name_is_an_error_in_the_loop", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			n := 0
			for _, err := range c.member("o").Watch(c.ctx, "") {
				if n++; err == nil {
					t.Error("no error")
				}
			}
			if n != 1 {
				t.Errorf("yielded %d times", n)
			}
		})
	})
}

func TestSave(t *testing.T) {
	for name, profile := range map[string]regent.Config{"by_heartbeat": regent.Cluster(), "own_lease": regent.Lock()} {
		t.Run("a_checkpoint_reaches_the_next_term_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.member("a", config(profile)), c.member("b", config(profile))
				big := []byte(strings.Repeat("x", driver.MaxData))
				check(t, a.Lead(c.ctx, "seat", func(ctx context.Context, term regent.Term) error {
					if term.Saved() != nil {
						t.Errorf("a new seat has a checkpoint %q", term.Saved())
					}
					for i := range 50 {
						check(t, term.Save(ctx, fmt.Append(nil, i)))
						time.Sleep(time.Second) // over renewals
					}
					if err := term.Save(ctx, append(big, 'x')); err == nil || !strings.Contains(err.Error(), "65537 bytes") {
						t.Errorf("got %v", err)
					}
					check(t, b.Pause(ctx, "seat")) // an edit by somebody else in between
					check(t, b.Resume(ctx, "seat"))
					check(t, term.Save(ctx, big))
					return nil
				}))
				check(t, b.Lead(c.ctx, "seat", func(_ context.Context, term regent.Term) error {
					if string(term.Saved()) != string(big) || term.Epoch != 2 {
						t.Errorf("term %d finds %d bytes", term.Epoch, len(term.Saved()))
					}
					return nil
				}))
			})
		})

		t.Run("a_former_leader_cannot_save_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a, b := c.member("a", config(profile)), c.member("b", config(profile)).lead()
				b.quit()
				var old regent.Term
				a.stop = func() {}
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = a.Lead(ctx, "seat", func(ctx context.Context, term regent.Term) error {
						old = term
						<-ctx.Done()
						return nil
					})
				}()
				leader(t, 10*time.Second, a)
				b.lead()
				time.Sleep(2 * time.Second)
				a.client.SetFaults(cut)
				time.Sleep(70 * time.Second)
				a.client.SetFaults(faults{})
				if err := old.Save(c.ctx, []byte("late")); !errors.Is(err, regent.ErrNotLeader) || old.Valid() || old.Remaining() != 0 {
					t.Errorf("got %v", err)
				}
				if l, _ := c.store.Get(c.ctx, "seat"); l.Data != nil || l.Holder.ID != "b" {
					t.Errorf("record is %+v", l)
				}
				cancel()
				<-done
				b.quit()
			})
		})
	}
}

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
			want := []string{"start", "start", "start", "stop three: shutdown", "stop two: shutdown", "stop one: shutdown"}
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
