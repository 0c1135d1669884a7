package regent_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestLifeline(t *testing.T) {
	for name, profile := range map[string]regent.Config{"by_heartbeat": regent.Cluster(), "own_lease": regent.Lock()} {
		t.Run("C07_a_companion_that_knows_the_lifeline_frees_the_seat_of_a_dead_process_at_once_"+name,
			func(t *testing.T) {
				bubble(t, func(c *cluster) {
					var mu sync.Mutex
					var lines []regent.Lifeline
					a := c.member("a", config(profile), func(m *regent.Member) {
						m.OnLifeline = func(l regent.Lifeline) { mu.Lock(); lines = append(lines, l); mu.Unlock() }
					}).lead()
					leader(t, time.Second, a)
					b := c.member("b", config(profile)).lead()
					time.Sleep(35 * time.Second)
					mu.Lock()
					last := lines[len(lines)-1]
					if len(lines) < 4 || last.Over || last.Left <= 0 || last.Holder.ID != "a" {
						t.Errorf("%d lines, the last is %+v", len(lines), last)
					}

					mu.Unlock()
					a.client.SetFaults(cut) // killed
					check(t, regent.Reap(c.ctx, c.store, last.Register, last.Holder))
					if _, took := leader(t, time.Second, b); took > 5*time.Millisecond {
						t.Errorf("took %v", took)
					}

					// Again, or for an incarnation that is not there: it touches nothing.
					before := c.store.Counts().Writes()
					check(t, regent.Reap(c.ctx, c.store, last.Register, last.Holder))
					check(t, regent.Reap(c.ctx, c.store, "seat", last.Holder))
					check(t, regent.Reap(c.ctx, c.store, "no such", last.Holder))
					if got := c.store.Counts().Writes(); got != before || !b.leads() {
						t.Errorf("%d writes", got-before)
					}

					b.quit()
					a.client.SetFaults(memstore.Faults{})
					a.quit()
					if l := lines[len(lines)-1]; !l.Over || !l.Stopped {
						t.Errorf("the last line is %+v", l)
					}
				})
			})
	}

	t.Run("reaping_goes_on_until_it_is_known_or_its_context_ends", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			dead := driver.Identity{ID: "a", Incarnation: "x"}
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Holder: dead, Epoch: 3, Nonce: 1,
				Duration: time.Minute, Data: []byte("kept")})
			check(t, err)
			client := c.store.Client("reaper", memstore.Faults{Outage: true})
			ctx, cancel := context.WithTimeout(c.ctx, time.Second)
			if err := regent.Reap(ctx, client, "seat", dead); err == nil {
				t.Error("it said that it had reaped")
			}

			cancel()
			time.AfterFunc(time.Second, func() { client.SetFaults(memstore.Faults{}) })
			check(t, regent.Reap(c.ctx, client, "seat", dead))
			l, _ := c.store.Get(c.ctx, "seat")
			if !l.Vacant() || l.Epoch != 3 || string(l.Data) != "kept" || l.Past[0].Reason != "died" {
				t.Errorf("record is %+v", l)
			}
		})
	})
}

func TestLifelines(t *testing.T) {
	t.Run("a_standby_holds_nothing_and_a_leader_says_so_before_its_duty_starts", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				var of [2]companion
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				b := c.member("b", config(profile, func(c *regent.Config) { c.Register = true }), watched(&of[0]))
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan struct{})
				var holds bool
				go func() {
					defer close(done)
					_ = b.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
						of[0].mu.Lock()
						for _, l := range of[0].lines {
							holds = holds || l.Holds
						}

						of[0].mu.Unlock()
						<-ctx.Done()
						return nil
					})
				}()

				time.Sleep(3 * profile.LeaseDuration)
				of[0].mu.Lock()
				for _, l := range of[0].all {
					if l.Holds {
						t.Errorf("%s: a standby says %+v", name, l)
					}
				}

				of[0].mu.Unlock()

				a.quit()
				if n, _ := leader(t, time.Minute, b); n == nil || !holds {
					t.Errorf("%s: its duty runs, and it has not said that it holds anything", name)
				}

				cancel()
				<-done
				last := of[0].all[len(of[0].all)-1]
				if last.Holds || !last.Over {
					t.Errorf("%s: the last word is %+v", name, last)
				}
			})
		}
	})

	t.Run("what_could_not_be_released_is_left_to_the_companion", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				var of companion
				a := c.member("a", config(profile), watched(&of)).lead()
				leader(t, time.Second, a)
				c.store.Hang()
				a.quit()
				of.mu.Lock()
				last := of.all[len(of.all)-1]
				of.mu.Unlock()
				if !last.Stopped || last.Over {
					t.Errorf("%s: the last word is %+v", name, last)
				}

				c.store.Drop()
			})
		}
	})

	t.Run("a_member_that_has_stepped_down_says_at_once_that_it_holds_nothing", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var of companion
			a := c.member("a", watched(&of)).lead()
			leader(t, time.Second, a)
			check(t, a.StepDown(c.ctx, "seat"))
			synctest.Wait()
			of.mu.Lock()
			if l := of.lines[driver.MemberRegister("a")]; l.Holds || l.Stopped {
				t.Errorf("%+v", l)
			}

			of.mu.Unlock()
			a.quit()
		})
	})
}

// deafAll is a store whose swaps return when a channel is closed, whatever becomes of their contexts.
type deafAll struct {
	*memstore.Client
	mu    sync.Mutex
	until chan struct{}
}

func (d *deafAll) wait() {
	d.mu.Lock()
	u := d.until
	d.mu.Unlock()
	if u != nil {
		<-u
	}
}

func (d *deafAll) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	d.wait()
	return d.Client.Swap(ctx, l)
}
