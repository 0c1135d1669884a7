package regent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// TestRuns is about the member's own goroutines.
func TestRuns(t *testing.T) {
	t.Run("an_engine_that_restarts_waits_for_a_duty_whose_claim_was_under_way", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				s := &fragile{claimed: make(chan struct{}), answer: make(chan struct{})}
				a := c.member("a", config(profile, func(c *regent.Config) { c.Register = true }),
					func(m *regent.Member) {
						s.Store = m.Store
						m.Store = s
					})
				var running, most atomic.Int32
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = a.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
						now := running.Add(1)
						most.Store(max(most.Load(), now))
						<-ctx.Done()
						time.Sleep(profile.StopTimeout * 9 / 10)
						running.Add(-1)
						return nil
					})
				}()

				<-s.claimed
				s.panics.Store(true)
				time.Sleep(profile.HeartbeatInterval + time.Second) // a heartbeat has panicked by now
				close(s.answer)
				// the claim has come too late to begin a term, so nothing is to be waited for
				time.Sleep(3 * time.Second)
				if n := len(a.kinds(regent.EventCandidateRestarted)); n != 1 {
					t.Errorf("%s: %d restarts", name, n)
				}

				time.Sleep(3 * profile.LeaseDuration)
				if most.Load() != 1 {
					t.Errorf("%s: %d duties at once", name, most.Load())
				}

				cancel()
				<-done
			})
		}
	})

	t.Run("a_driver_that_panics_in_a_release_kills_nobody", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			for _, duty := range []func(context.Context, regent.Term) error{nil,
				func(ctx context.Context, _ regent.Term) error { <-ctx.Done(); return nil }} {
				bubble(t, func(c *cluster) {
					s := &spiteful{}
					a := c.member("a", config(profile), func(m *regent.Member) {
						s.Store = m.Store
						m.Store = s
					})

					ctx, cancel := context.WithCancel(c.ctx)
					done := make(chan struct{})
					go func() { defer close(done); _ = a.Run(ctx, regent.Duty{Election: "seat", Run: duty}) }()
					leader(t, time.Second, a)
					s.armed.Store(true)
					_ = a.StepDown(c.ctx, "seat")
					s.armed.Store(false)
					if n, _ := leader(t, 3*profile.LeaseDuration, a); n == nil {
						t.Errorf("%s: it never leads again", name)
					}

					cancel()
					<-done
				})
			}
		}
	})

	t.Run("a_driver_that_panics_in_a_save_leaves_its_outcome_unknown", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			s := &spiteful{}
			a := c.member("a", func(m *regent.Member) {
				s.Store = m.Store
				m.Store = s
			}).lead()
			leader(t, time.Second, a)
			term, _ := a.Leads("seat")
			s.saves.Store(true)
			if err := term.Save(c.ctx, []byte("x")); !errors.Is(err, regent.ErrPanicked) {
				t.Errorf("Save = %v", err)
			}

			s.saves.Store(false)
			check(t, term.Save(c.ctx, []byte("y")))
			a.quit()
		})
	})

	// In real time, as the timers of a real process are.
	t.Run("contexts_end_with_the_lease_even_while_the_loop_is_stuck", func(t *testing.T) {
		store := memstore.New()
		client := store.Client("a", memstore.Faults{})
		cfg := regent.Cluster()
		cfg.LeaseDuration = 500 * time.Millisecond
		cfg.StopTimeout = 100 * time.Millisecond
		cfg.HeartbeatInterval = 100 * time.Millisecond
		cfg.RenewInterval = 100 * time.Millisecond
		var stuck atomic.Pointer[chan struct{}]
		m := &regent.Member{Store: client, ID: "a", Config: cfg, OnLifeline: func(regent.Lifeline) {
			if c := stuck.Load(); c != nil {
				<-*c
			}
		}}
		began := make(chan context.Context, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = m.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
				began <- ctx
				<-ctx.Done()
				return nil
			})
		}()

		term := <-began
		release := make(chan struct{})
		stuck.Store(&release)
		select {
		case <-term.Done():
		case <-time.After(20 * time.Second):
			t.Error("the context waits for the loop")
		}

		stuck.Store(nil)
		close(release)
		cancel()
		<-done
	})

	t.Run("OnEvent_never_runs_twice_at_once_even_if_the_member_is_used_again", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var running, most atomic.Int32
			var mu sync.Mutex
			var seqs []uint64
			a := c.member("a", func(m *regent.Member) {
				m.OnEvent = func(e regent.Event) {
					now := running.Add(1)
					most.Store(max(most.Load(), now))
					time.Sleep(time.Second)
					mu.Lock()
					seqs = append(seqs, e.Seq)
					mu.Unlock()
					running.Add(-1)
				}
			})

			for range 3 {
				a.lead()
				leader(t, time.Second, a)
				a.quit()
			}

			time.Sleep(time.Minute)
			if most.Load() != 1 {
				t.Errorf("%d calls at once", most.Load())
			}

			mu.Lock()
			defer mu.Unlock()
			for i, seq := range seqs {
				if seq != uint64(i+1) {
					t.Fatalf("out of order: %v", seqs)
				}
			}
		})
	})

	t.Run("a_shutdown_does_not_wait_for_each_claim_of_unknown_outcome", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			h := &hangSwaps{}
			h.on.Store(true)
			a := c.member("a", config(regent.Lock()))
			h.Client = a.client
			a.Store = h
			duties := make([]regent.Duty, 60)
			for i := range duties {
				duties[i].Election = fmt.Sprintf("seat%d", i)
			}

			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duties...) }()
			time.Sleep(3 * time.Second) // the claims are under way
			c.store.Hang()
			start := time.Now()
			cancel()
			<-done
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("the shutdown took %v", took)
			}

			c.store.Drop()
		})
	})

	t.Run("a_member_whose_Lead_has_returned_is_no_successor_any_more", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, regent.Duty{Election: "other"}) }()
			time.Sleep(time.Second)
			if err := a.Lead(c.ctx, "seat", func(context.Context, regent.Term) error {
				time.Sleep(5 * time.Second)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			var unhealthy atomic.Bool
			b := c.member("b", func(m *regent.Member) {
				m.Health = func(context.Context) error {
					if unhealthy.Load() {
						return errors.New("unhealthy")
					}
					return nil
				}
			}).lead()
			if n, _ := leader(t, 20*time.Second, b); n == nil {
				t.Fatal("b does not lead")
			}

			time.Sleep(10 * time.Second)
			unhealthy.Store(true)
			time.Sleep(time.Minute)
			if !b.leads() {
				t.Error("the unhealthy leader has handed over to a member that does not run for it, " +
					"and nobody leads for a minute")
			}

			unhealthy.Store(false)
			b.quit()
			cancel()
			<-done
		})
	})

	t.Run("events_may_be_emitted_while_the_member_starts", func(t *testing.T) {
		m := &regent.Member{Store: memstore.New(), ID: "a", OnEvent: func(regent.Event) {}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				m.Emit(regent.Event{Kind: "x:y"})
			}
		})

		for range 20 {
			_ = m.Lead(ctx, "seat", func(context.Context, regent.Term) error { return nil })
		}

		cancel()
		wg.Wait()
	})
}

// fragile is a store of which the first claim of the seat is answered when the test says so, and heartbeats panic once.
type fragile struct {
	driver.Store
	once    sync.Once
	claimed chan struct{}
	answer  chan struct{}
	panics  atomic.Bool
}

func (f *fragile) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if l.Name != "seat" && f.panics.CompareAndSwap(true, false) {
		panic("store driver is broken")
	}

	got, err := f.Store.Swap(context.WithoutCancel(ctx), l)
	if l.Name == "seat" && !l.Vacant() {
		f.once.Do(func() {
			close(f.claimed)
			<-f.answer
		})
	}

	return got, err
}

// spiteful is a store that panics when a seat is released, or a checkpoint saved, while it is set so.
type spiteful struct {
	driver.Store
	armed atomic.Bool
	saves atomic.Bool
}

func (s *spiteful) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if s.armed.Load() && l.Name == "seat" && l.Vacant() || s.saves.Load() && len(l.Data) > 0 && l.Name == "seat" {
		panic("store driver is broken")
	}
	return s.Store.Swap(ctx, l)
}

// hangSwaps is a store whose batches hang while it is on, and heed their contexts.
type hangSwaps struct {
	*memstore.Client
	on atomic.Bool
}

func (h *hangSwaps) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	if h.on.Load() {
		<-ctx.Done()
		out := make([]driver.Outcome, len(ls))
		for i := range out {
			out[i].Err = ctx.Err()
		}
		return out
	}

	return h.Client.SwapAll(ctx, ls)
}
