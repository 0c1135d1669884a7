package regent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// companion is what a reaper makes of a member's lifelines.
type companion struct {
	mu    sync.Mutex
	stop  time.Duration
	lines map[string]deadline
	all   []regent.Lifeline
}

// deadline is when a register's holder must have said something.
type deadline struct {
	regent.Lifeline
	killAt time.Time
}

// watched makes a companion see a member's lifelines.
func watched(c *companion) func(*regent.Member) {
	c.lines = map[string]deadline{}
	return func(m *regent.Member) {
		c.stop = m.Config.StopTimeout
		m.OnLifeline = func(l regent.Lifeline) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.all = append(c.all, l)
			c.lines[l.Register] = deadline{l, time.Now().Add(l.Left + c.stop)}
			if l.Over {
				delete(c.lines, l.Register)
			}
		}
	}
}

// overdue returns the register of a term that should have ended, and was not reported to have.
func (c *companion) overdue() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, d := range c.lines {
		if d.Holds && !d.Stopped && !time.Now().Before(d.killAt) {
			return name
		}
	}

	return ""
}

func TestHungStore(t *testing.T) {
	profiles := map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()}

	t.Run("nobody_is_overdue_and_nobody_leads_past_its_deadline", func(t *testing.T) {
		for name, profile := range profiles {
			for _, hang := range []time.Duration{4 * time.Second, 8 * time.Second, time.Minute} {
				for _, lost := range []bool{false, true} {
					bubble(t, func(c *cluster) {
						var of [2]companion
						a := c.member("a", config(profile), watched(&of[0])).lead()
						leader(t, time.Second, a)
						b := c.member("b", config(profile), watched(&of[1])).lead()
						time.Sleep(2*profile.RenewInterval + 100*time.Millisecond)

						c.store.Hang()
						deadline := time.Now().Add(profile.LeaseDuration - profile.StopTimeout)
						for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
							synctest.Wait()
							for i := range of {
								if register := of[i].overdue(); register != "" {
									t.Fatalf("%s, %v: a reaper would kill the holder of %s", name, hang, register)
								}
							}

							if time.Now().After(deadline) && (a.leads() || b.leads()) {
								t.Fatalf("%s, %v: somebody leads past its deadline", name, hang)
							}
						}

						if lost {
							c.store.Drop()
						} else {
							c.store.Resume()
						}

						n, took := leader(t, profile.LeaseDuration+profile.TakeoverDelay, a, b)
						if n == nil {
							t.Errorf("%s, %v: nobody leads %v after the store answers again", name, hang, took)
						}
						for _, n := range []*node{a, b} {
							if stuck := n.kinds(regent.EventDutyStuck); len(stuck) > 0 {
								t.Errorf("%s, %v: %+v, although its duty has returned", name, hang, stuck)
							}
						}

						b.quit()
						a.quit()
					})
				}
			}
		}
	})

	// A driver that does not heed its context breaks its contract, but must not get its process killed.
	t.Run("a_driver_that_does_not_return_holds_up_neither_the_end_of_a_term_nor_the_next_join", func(t *testing.T) {
		for name, profile := range profiles {
			bubble(t, func(c *cluster) {
				var of companion
				slow := &deaf{}
				a := c.member("a", config(profile), watched(&of), func(m *regent.Member) {
					slow.Store = m.Store
					m.Store = slow
				}).lead()
				leader(t, time.Second, a)
				time.Sleep(profile.RenewInterval / 2)

				hung := make(chan struct{})
				slow.hang(hung)
				first, _ := a.Leads("seat")
				for first.Valid() {
					time.Sleep(10 * time.Millisecond)
				}

				slow.hang(nil) // what hangs goes on hanging
				end := time.Now().Add(profile.StopTimeout)
				for ; time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					synctest.Wait()
					if register := of.overdue(); register != "" {
						t.Errorf("%s: a reaper would kill the holder of %s", name, register)
						break
					}
				}

				if n, _ := leader(t, profile.LeaseDuration+profile.TakeoverDelay, a); n == nil {
					t.Errorf("%s: it waits for its old request: %q", name, c.log)
				}

				close(hung)
				a.quit()
			})
		}
	})

	t.Run("a_release_that_the_store_did_not_take_is_made_up_for", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			profile := profiles["lock"]
			a := c.member("a", config(profile)).lead()
			leader(t, time.Second, a)
			b := c.member("b", config(profile)).lead()
			time.Sleep(time.Second)

			c.store.Hang()
			if err := a.StepDown(c.ctx, "seat"); err == nil {
				t.Fatal("the store hangs, and has taken a release")
			}

			c.store.Drop()
			n, took := leader(t, profile.LeaseDuration, b)
			if n == nil || took > profile.LeaseDuration/3 {
				t.Errorf("somebody else leads after %v: a did not release its lock when the store answered again", took)
			}

			b.quit()
			a.quit()
		})
	})

	t.Run("of_many_locks_none_waits_for_the_request_of_another", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var of companion
			a := c.member("a", config(regent.Lock()), watched(&of))
			d := &deafAll{Client: a.client}
			a.Store = d
			duties := make([]regent.Duty, 12)
			for i := range duties {
				duties[i].Election = fmt.Sprintf("seat%02d", i)
			}

			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duties...) }()
			time.Sleep(9 * time.Second)
			u := make(chan struct{})
			d.mu.Lock()
			d.until = u
			d.mu.Unlock()
			time.Sleep(2 * time.Second) // renewals are under way
			cancel()
			for range 600 {
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
				if r := of.overdue(); r != "" {
					t.Errorf("a reaper would kill the holder of %s", r)
					break
				}
			}

			d.mu.Lock()
			d.until = nil
			d.mu.Unlock()
			close(u)
			<-done
		})
	})
}

func TestShutdownOverAHungStore(t *testing.T) {
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
}

// deaf is a store of which one swap returns when a channel is closed, whatever becomes of its context.
type deaf struct {
	driver.Store
	mu    sync.Mutex
	until chan struct{}
}

func (d *deaf) hang(until chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.until = until
}

func (d *deaf) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	d.mu.Lock()
	until := d.until
	d.mu.Unlock()
	if until != nil {
		<-until
		return driver.Record{}, context.DeadlineExceeded
	}

	return d.Store.Swap(ctx, l)
}
