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
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestHealth(t *testing.T) {
	unhealthyIf := func(flag *atomic.Bool) func(*regent.Member) {
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
			var unhealthy atomic.Bool
			unhealthy.Store(true)
			a := c.member("a", unhealthyIf(&unhealthy)).lead()
			time.Sleep(time.Minute)
			if a.leads() {
				t.Fatal("it leads")
			}

			unhealthy.Store(false)
			leader(t, 10*time.Second, a)
			a.quit()
		})
	})

	t.Run("P03_an_unhealthy_leader_hands_over_but_never_as_the_last_one", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var unhealthyA, unhealthyB atomic.Bool
			a := c.member("a", unhealthyIf(&unhealthyA)).lead()
			leader(t, time.Second, a)
			unhealthyA.Store(true)
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Fatal("the only one stepped down")
			}

			b := c.member("b", unhealthyIf(&unhealthyB))
			unhealthyB.Store(true)
			b.lead()
			time.Sleep(time.Minute)
			if !a.leads() {
				t.Fatal("it handed over to another unhealthy one")
			}

			unhealthyB.Store(false)
			neverTwo(t, 10*time.Second, a, b)
			if !b.leads() {
				t.Error("the healthy one does not lead")
			}
			if lost := a.kinds(regent.EventLostLeadership); len(lost) != 1 ||
				lost[0].Metadata["reason"] != "unhealthy" {
				t.Errorf("lost by %v", lost)
			}

			a.quit()
			b.quit()
		})
	})

	t.Run("P03_a_member_whose_check_panics_is_unhealthy", func(t *testing.T) {
		for name, f := range map[string]func(){"panic: ouch": func() { panic("ouch") }, "goroutine": runtime.Goexit} {
			bubble(t, func(c *cluster) {
				a := c.member("a", func(m *regent.Member) {
					m.Health = func(context.Context) error {
						f()
						return nil
					}
				}).lead()
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

	t.Run("P03_a_check_that_hangs_is_a_failure_after_one_heartbeat_until_it_returns", func(t *testing.T) {
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
			if a.leads() || !b.leads() || len(said) != 1 ||
				!strings.Contains(said[0].Metadata["error"], "not returned within 1.5s") {
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

func TestHealthOfALock(t *testing.T) {
	t.Run("P03_an_unhealthy_holder_of_a_lock_hands_over", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var unhealthy atomic.Bool
			a := c.member("a", config(regent.Lock()), func(m *regent.Member) {
				m.Health = func(context.Context) error {
					if unhealthy.Load() {
						return errors.New("unhealthy")
					}
					return nil
				}
			}).lead()
			leader(t, 10*time.Second, a)
			b := c.member("b", config(regent.Lock()),
				func(m *regent.Member) { m.Health = func(context.Context) error { return nil } }).lead()
			time.Sleep(10 * time.Second)
			unhealthy.Store(true)
			neverTwo(t, 20*time.Second, a, b)
			if !b.leads() {
				t.Error("b does not lead")
			}

			a.quit()
			b.quit()
		})
	})
}

// panicky panics in one swap.
type panicky struct {
	*memstore.Client
	once atomic.Bool
}

func (p *panicky) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if p.once.Swap(false) {
		panic("driver")
	}
	return p.Client.Swap(ctx, l)
}

// TestUnhealthyOverARestart is about a member that a failing duty has made unhealthy, and which restarts before it is
// healthy again.
func TestUnhealthyOverARestart(t *testing.T) {
	for _, panics := range []bool{false, true} {
		bubble(t, func(c *cluster) {
			var fails atomic.Bool
			fails.Store(true)
			a := c.member("a")
			p := &panicky{Client: a.client}
			a.Store = p
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "seat", Name: "d",
					Run: func(ctx context.Context, _ regent.Term) error {
						if fails.Load() {
							return errors.New("fails")
						}

						<-ctx.Done()
						return nil
					}})
			}()

			leader(t, time.Second, a)
			b := c.member("b").lead()
			if n, _ := leader(t, 2*time.Minute, b); n == nil {
				t.Fatal("b does not lead")
			}

			fails.Store(false)
			time.Sleep(5 * time.Second)
			p.once.Store(panics)
			time.Sleep(10 * time.Second)
			t.Log("restarted", len(a.kinds(regent.EventCandidateRestarted)))
			b.quit()
			n, took := leaderOrNil(10*time.Minute, a)
			t.Log("panics", panics, "leads", n != nil, "after", took)
			if n == nil {
				t.Errorf("panics %v: nobody leads for ten minutes", panics)
			}

			cancel()
			<-done
		})
	}
}
