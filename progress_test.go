package regent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// muddled is a store whose heartbeats, while it is armed, are sent and answered with an error that says nothing.
type muddled struct {
	driver.Store
	armed atomic.Bool
}

var errMuddled = errors.New("the answer was lost")

func (m *muddled) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	got, err := m.Store.Swap(ctx, l)
	if l.Name == driver.MemberRegister("a") && m.armed.Load() {
		m.armed.Store(false)
		return driver.Record{}, errMuddled
	}
	return got, err
}

// TestRequestsToLeaders is about what others ask of a leader, or of one that is no more.
func TestRequestsToLeaders(t *testing.T) {
	t.Run("a_request_that_meets_a_heartbeat_of_unknown_outcome_is_obeyed", func(t *testing.T) {
		// With this lease no sweep comes in time to find the request by itself.
		long := regent.Cluster()
		long.LeaseDuration = time.Hour
		for _, before := range []bool{false, true} {
			bubble(t, func(c *cluster) {
				w := &muddled{}
				b := c.member("b", config(long))
				var asks atomic.Bool // with the next heartbeat of a
				c.store.OnSwap = func(_, l driver.Record, client string) {
					if l.Name == driver.MemberRegister("a") && client == "a" && asks.CompareAndSwap(true, false) {
						go func() { _ = b.StepDown(c.ctx, "seat") }()
					}
				}
				a := c.member("a", config(long), func(m *regent.Member) {
					w.Store = m.Store
					m.Store = w
				}).lead()
				leader(t, time.Second, a)
				b.lead()
				time.Sleep(10*time.Second + 100*time.Millisecond)

				c.store.SetFaults(memstore.Faults{LoseHint: 1})
				w.armed.Store(true)
				if before { // the heartbeat is applied, and then the record is edited
					asks.Store(true)
				} else { // the record is edited, and then a heartbeat meets it
					go func() { _ = b.StepDown(c.ctx, "seat") }()
				}
				if took := outlasted(a, time.Minute); took > 10*time.Second {
					t.Errorf("the request came before: %t: it led on for %v", !before, took)
				}
				a.quit()
				b.quit()
			})
		}
	})

	t.Run("asking_a_dead_leader_again_and_again_does_not_put_off_its_end", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				b := c.member("b", config(profile)).lead()
				time.Sleep(time.Second)
				a.client.SetFaults(cut)
				admin := c.member("admin", config(profile))
				ctx, cancel := context.WithCancel(c.ctx)
				var wg sync.WaitGroup
				wg.Go(func() {
					for ctx.Err() == nil {
						once, done := context.WithTimeout(ctx, time.Second)
						_ = admin.StepDown(once, "seat")
						done()
						time.Sleep(time.Second)
					}
				})
				limit := 2*profile.LeaseDuration + profile.TakeoverDelay
				if n, _ := leader(t, limit, b); n == nil {
					t.Errorf("%s: nobody leads after %v", name, limit)
				}
				cancel()
				wg.Wait()
				b.quit()
				a.quit()
			})
		}
	})

	t.Run("reports_of_epochs_from_nowhere_do_not_use_up_an_election", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			for _, epoch := range []uint64{1<<64 - 1, 1<<62 - 1, 1 << 40} {
				a.Observe("seat", epoch)
			}
			check(t, a.StepDown(c.ctx, "seat"))
			leader(t, time.Minute, a)
			if term, _ := a.Leads("seat"); term.Epoch != 2 {
				t.Errorf("epoch %d", term.Epoch)
			}
			a.Observe("seat", 1000) // as many as a store may have forgotten
			check(t, a.StepDown(c.ctx, "seat"))
			leader(t, time.Minute, a)
			if term, _ := a.Leads("seat"); term.Epoch != 1001 {
				t.Errorf("epoch %d", term.Epoch)
			}
			a.quit()
		})
	})

	t.Run("terms_that_are_refused_one_after_the_other_grow_rarer", func(t *testing.T) {
		for _, report := range []func(regent.Term) uint64{
			func(t regent.Term) uint64 { return t.Epoch + 1 },
			func(regent.Term) uint64 { return 1<<64 - 1 }, // which is not believed, so that nothing else puts off the next term
		} {
			bubble(t, func(c *cluster) {
				a := c.member("a")
				ctx, cancel := context.WithCancel(c.ctx)
				done := make(chan struct{})
				var terms atomic.Int64
				go func() {
					defer close(done)
					_ = a.Lead(ctx, "seat", func(ctx context.Context, t regent.Term) error {
						terms.Add(1)
						t.Fenced(report(t))
						<-ctx.Done()
						return nil
					})
				}()
				time.Sleep(time.Minute)
				if n := terms.Load(); n < 3 || n > 10 {
					t.Errorf("%d terms in a minute", n)
				}
				cancel()
				<-done
			})
		}
	})
}

// TestUnreadableRegister is about one register that cannot be read, where all others can.
func TestUnreadableRegister(t *testing.T) {
	lead := func(c *cluster, n *node, elections ...string) (stop func()) {
		ctx, cancel := context.WithCancel(c.ctx)
		var wg sync.WaitGroup
		for _, election := range elections {
			wg.Go(func() {
				_ = n.Lead(ctx, election, func(ctx context.Context, _ regent.Term) error { <-ctx.Done(); return nil })
			})
		}
		return func() { cancel(); wg.Wait() }
	}

	t.Run("other_elections_of_the_member_are_taken_over_all_the_same", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			for stores, wrap := range map[string]func(driver.Store) driver.Store{
				"with_every_extra": func(s driver.Store) driver.Store { return s },
				"plain":            func(s driver.Store) driver.Store { return plain{s} },
			} {
				t.Run(name+"_"+stores, func(t *testing.T) {
					bubble(t, func(c *cluster) {
						c.store.SetUnreadable("bad")
						a := c.member("a", config(profile), func(m *regent.Member) { m.Store = wrap(m.Store) })
						stopA := lead(c, a, "seat", "x")
						time.Sleep(time.Second)
						b := c.member("b", config(profile), func(m *regent.Member) { m.Store = wrap(m.Store) })
						stopB := lead(c, b, "bad", "seat", "x")
						time.Sleep(profile.LeaseDuration)
						if !a.leads() {
							t.Fatal("a does not lead")
						}
						a.client.SetFaults(cut)
						limit := 2*profile.LeaseDuration + profile.TakeoverDelay + profile.ElectionInterval
						n, _ := leader(t, limit, b)
						if n == nil {
							t.Errorf("nobody leads after %v", limit)
						}
						if _, ok := b.Leads("x"); !ok {
							t.Error("nobody leads the third")
						}
						got := b.kinds(regent.EventRegisterUnreadable)
						if len(got) != 1 || got[0].Metadata["register"] != "bad" || !strings.Contains(got[0].Metadata["error"], "unreadable") {
							t.Errorf("reported as %+v", got)
						}

						c.store.SetUnreadable()
						for start := time.Now(); time.Since(start) < 2*profile.ElectionIntervalMax; time.Sleep(time.Second) {
						}
						if _, ok := b.Leads("bad"); !ok {
							t.Error("nobody leads it once it can be read")
						}
						stopB()
						stopA()
					})
				})
			}
		}
	})

	t.Run("a_release_is_taken_over_at_once_all_the_same", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.SetUnreadable("bad")
			a := c.member("a")
			stopA := lead(c, a, "seat", "bad")
			time.Sleep(time.Second)
			b := c.member("b")
			stopB := lead(c, b, "seat", "bad")
			time.Sleep(30 * time.Second)
			for i := range 20 {
				now, next := a, b
				if b.leads() {
					now, next = b, a
				}
				check(t, now.HandOff(c.ctx, "seat", next.ID))
				if _, took := leader(t, 10*time.Second, next); took > 100*time.Millisecond {
					t.Errorf("handoff %d took %v", i, took)
				}
				time.Sleep(1700 * time.Millisecond)
			}
			stopA()
			stopB()
		})
	})

	t.Run("its_first_failure_does_not_put_off_what_is_read_with_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c) // so that b reads both elections at its polls, and only then
			a := c.member("a")
			stopA := lead(c, a, "seat", "bad")
			time.Sleep(time.Second)
			b := c.member("b")
			stopB := lead(c, b, "seat", "bad")
			start := time.Now()
			time.Sleep(12 * time.Second)

			c.store.SetUnreadable("bad")
			check(t, a.StepDown(c.ctx, "seat"))
			leader(t, 10*time.Second, b)
			if late := time.Since(start) % regent.Cluster().ElectionInterval; late > 500*time.Millisecond {
				t.Errorf("it leads %v after the poll that showed the release", late)
			}
			c.store.SetUnreadable()
			stopB()
			stopA()
		})
	})

	t.Run("the_other_members_are_listed_all_the_same", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			z := c.member("z").lead()
			time.Sleep(time.Second)
			c.store.SetUnreadable(driver.MemberRegister("z"))
			all, err := a.Members(c.ctx)
			if err != nil || len(all) != 1 || all[0].ID != "a" {
				t.Errorf("%+v, %v", all, err)
			}
			c.store.SetUnreadable()
			a.quit()
			z.quit()
		})
	})

	t.Run("one_heartbeat_that_cannot_be_read_holds_up_its_own_elections_alone", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			z := c.member("z")
			stopZ := lead(c, z, "other")
			time.Sleep(time.Second)
			b := c.member("b")
			stopB := lead(c, b, "seat", "other")
			time.Sleep(10 * time.Second)
			c.store.SetUnreadable(driver.MemberRegister("z"))
			a.client.SetFaults(cut)
			if n, _ := leader(t, 12*time.Second, b); n == nil {
				t.Error("nobody leads the election of the other member")
			}
			c.store.SetUnreadable()
			stopB()
			stopZ()
			a.quit()
		})
	})

	t.Run("a_heartbeat_that_cannot_be_read_makes_nobody_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Holder: driver.Identity{ID: "z", Incarnation: "1.z"}, Epoch: 1, Nonce: 1, Duration: 6 * time.Second, Via: driver.MemberRegister("z")})
			check(t, err)
			c.store.SetUnreadable(driver.MemberRegister("z"))
			k := &ticking{start: time.Now()}
			b := c.member("b", func(m *regent.Member) { m.Clock = k }).lead()
			time.Sleep(30 * time.Second)
			n := k.timers.Load()
			time.Sleep(time.Minute)
			if n = k.timers.Load() - n; n > 1000 {
				t.Errorf("%d timers in a minute of nothing", n)
			}
			b.quit()
		})
	})

	t.Run("a_lock_that_cannot_be_read_when_its_lease_has_expired_makes_nobody_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "bad", Holder: driver.Identity{ID: "z", Incarnation: "z"},
				Epoch: 1, Nonce: 1, Duration: 30 * time.Second})
			check(t, err)
			b := c.member("b", config(regent.Lock()))
			stop := lead(c, b, "bad", "seat") // its renewals of the other one are answered
			time.Sleep(time.Second)
			c.store.SetUnreadable("bad")
			time.Sleep(time.Minute)
			before := b.client.Counts()
			time.Sleep(time.Minute)
			if n := b.client.Counts().Gets - before.Gets; n > 60 {
				t.Errorf("%d reads in a minute", n)
			}
			c.store.SetUnreadable()
			time.Sleep(regent.Lock().ElectionInterval + time.Second)
			if _, ok := b.Leads("bad"); !ok {
				t.Error("nobody leads it once it can be read")
			}
			stop()
		})
	})

	t.Run("a_held_election_that_cannot_be_read_makes_nobody_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			k := &ticking{start: time.Now()}
			w := &wakeable{hints: make(chan driver.Record, 1)}
			a := c.member("a", func(m *regent.Member) {
				m.Clock = k
				w.Store = m.Store
				m.Store = w
			}).lead()
			leader(t, time.Second, a)
			time.Sleep(10 * time.Second)
			c.store.SetUnreadable("seat")
			time.Sleep(20 * time.Second)
			n := k.timers.Load()
			for range 60 {
				driver.Hint(w.hints, driver.Record{Name: "seat"})
				time.Sleep(time.Second)
			}
			if n = k.timers.Load() - n; n > 1000 {
				t.Errorf("%d timers in a minute, with 60 hints", n)
			}
			c.store.SetUnreadable()
			a.quit()
		})
	})
}

// plain is a store without any of the optional interfaces.
type plain struct{ store driver.Store }

func (p plain) Get(ctx context.Context, name string) (driver.Record, error) {
	return p.store.Get(ctx, name)
}
func (p plain) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return p.store.Swap(ctx, l)
}
func (p plain) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return p.store.List(ctx, prefix)
}
func (p plain) Close() error { return p.store.Close() }

// TestManyMembers is about registers of members that are long gone.
func TestManyMembers(t *testing.T) {
	t.Run("members_that_have_left_are_not_remembered", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			best := c.member("best", ranked(regent.RankPriority, 9, false)).lead()
			leader(t, 10*time.Second, best)
			a := c.member("a", ranked(regent.RankPriority, 1, true)).lead() // it lists the members again and again, to preempt
			for i := range 30 {
				n := c.member(fmt.Sprint("guest", i)).lead()
				time.Sleep(10 * time.Second)
				n.quit()
			}
			time.Sleep(20 * time.Second)
			if n := regent.Known(a.Member); n > 10 {
				t.Errorf("it knows %d registers", n)
			}
			a.quit()
			best.quit()
		})
	})

	t.Run("a_listing_that_takes_long_keeps_nobody_from_leading", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", ranked(regent.RankPriority, 1, false), func(m *regent.Member) { m.Store = unlisted{m.Store} }).lead()
			if n, _ := leader(t, 2*regent.Cluster().HeartbeatInterval, a); n == nil {
				t.Error("it waits for the list")
			}
			a.quit()
		})
	})

	t.Run("a_long_list_that_goes_on_is_waited_for", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			for i := range 10 {
				_, err := c.store.Swap(c.ctx, driver.Record{Name: driver.MemberRegister(fmt.Sprint("old", i)), Epoch: 1, Nonce: 1})
				check(t, err)
			}
			a := c.member("a", ranked(regent.RankPriority, 1, false), func(m *regent.Member) {
				m.Config.LeaseDuration = 30 * time.Second // so that a request may take 7 s
				m.Config.HeartbeatInterval = 20 * time.Second
				m.Config.RenewInterval = 20 * time.Second
				m.Store = tardy{m.Store}
			}).lead()
			// Once it knows that nobody is better it waits no more.
			if n, _ := leader(t, 15*time.Second, a); n == nil {
				t.Error("the list was given up")
			}
			a.quit()
		})
	})
}

// unlisted is a store whose lists never come.
type unlisted struct{ driver.Store }

func (u unlisted) List(ctx context.Context, _ string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		<-ctx.Done()
		yield(driver.Record{}, ctx.Err())
	}
}

// tardy is a store whose lists come, one register a second.
type tardy struct{ driver.Store }

func (s tardy) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range s.Store.List(ctx, prefix) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				yield(driver.Record{}, ctx.Err())
				return
			}
			if !yield(l, err) {
				return
			}
		}
	}
}

// TestEngine is about the member's own goroutines.
func TestEngine(t *testing.T) {
	t.Run("an_engine_that_restarts_waits_for_a_duty_whose_claim_was_under_way", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				s := &fragile{claimed: make(chan struct{}), answer: make(chan struct{})}
				a := c.member("a", config(profile, func(c *regent.Config) { c.Register = true }), func(m *regent.Member) {
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
				time.Sleep(3 * time.Second) // the claim has come too late to begin a term, so nothing is to be waited for
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
			for _, duty := range []func(context.Context, regent.Term) error{nil, func(ctx context.Context, _ regent.Term) error { <-ctx.Done(); return nil }} {
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
			if err := a.Lead(c.ctx, "seat", func(context.Context, regent.Term) error { time.Sleep(5 * time.Second); return nil }); err != nil {
				t.Fatal(err)
			}
			var sick atomic.Bool
			b := c.member("b", func(m *regent.Member) {
				m.Health = func(context.Context) error {
					if sick.Load() {
						return errors.New("sick")
					}
					return nil
				}
			}).lead()
			if n, _ := leader(t, 20*time.Second, b); n == nil {
				t.Fatal("b does not lead")
			}
			time.Sleep(10 * time.Second)
			sick.Store(true)
			time.Sleep(time.Minute)
			if !b.leads() {
				t.Error("the sick leader has handed over to a member that does not run for it: nobody leads, for a minute")
			}
			sick.Store(false)
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

// TestAbsurdRecords is about records that no member writes.
func TestAbsurdRecords(t *testing.T) {
	t.Run("a_lease_without_end_does_not_overflow_into_the_past", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			l, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Nonce: 1, Paused: true})
			check(t, err)
			a := c.member("a", config(regent.Lock())).lead()
			time.Sleep(time.Second)
			l.Holder = driver.Identity{ID: "z", Incarnation: "1"}
			l.Epoch = 1
			l.Nonce = 2
			l.Duration = 1<<63 - 1
			l.Paused = false
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			time.Sleep(time.Hour)
			synctest.Wait()
			if a.leads() {
				t.Error("it took a seat whose lease has not expired")
			}
			a.quit()
		})
	})

	t.Run("a_negative_duration_is_no_record", func(t *testing.T) {
		l := driver.Record{Epoch: 1, Nonce: 1, Duration: -time.Second}
		if _, err := driver.ParseRecord("seat", "1", l.AppendJSON(nil)); err == nil || !strings.Contains(err.Error(), "negative") {
			t.Error(err)
		}
	})
}

// ticking is a clock that counts the timers that were made.
type ticking struct {
	start  time.Time
	timers atomic.Int64
}

func (c *ticking) Now() time.Duration { return time.Since(c.start) }
func (c *ticking) NewTimer(d time.Duration) *time.Timer {
	c.timers.Add(1)
	return time.NewTimer(d)
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
