package regent_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
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

				c.store.SetFaults(memstore.Faults{LoseNotice: 1})
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
			// which is not believed, so that nothing else puts off the next term
			func(regent.Term) uint64 { return 1<<64 - 1 },
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

// peek makes a member read an election for somebody else, and change nothing.
func peek(t *testing.T, n *node) {
	t.Helper()
	if err := n.Pause(n.c.ctx, "seat", regent.AtEpoch(1<<40)); err == nil {
		t.Fatal("the election is in an epoch that it cannot be in")
	}
}

// TestWhatAnyRequestShows is about records that a member's own loops never see, because the store goes back before
// they read again. A request that somebody makes through the member has seen them, so the member knows of them.
func TestWhatAnyRequestShows(t *testing.T) {
	lock := regent.Lock()
	lock.LeaseDuration = 10 * time.Second
	lock.StopTimeout = time.Second
	lock.RenewInterval = 3 * time.Second
	lock.ElectionInterval = 4 * time.Second // so that no poll falls on the end of a wait of one lease

	stranger := func(l driver.Record, name string, epoch, nonce uint64, lease time.Duration) driver.Record {
		l.Name = name
		l.Holder = driver.Identity{ID: "z", Incarnation: "1.Z"}
		l.Epoch = epoch
		l.Nonce = nonce
		l.Duration = lease
		return l
	}

	t.Run("a_term_that_only_a_request_was_shown_is_given_a_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			vacant, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Epoch: 3, Nonce: 3,
				Duration: lock.LeaseDuration})
			check(t, err)
			_, err = c.store.Swap(c.ctx, stranger(vacant, "seat", 5, 5, lock.LeaseDuration))
			check(t, err)
			b := c.member("b", config(lock)).lead()
			time.Sleep(time.Second)
			c.store.Undo(1, only("seat"))
			for len(b.kinds(regent.EventStoreRegressed)) < 1 {
				time.Sleep(10 * time.Millisecond)
			}

			time.Sleep(lock.LeaseDuration*8/10 + time.Second/2) // no poll falls between this and the end of the wait
			_, err = c.store.Swap(c.ctx, stranger(vacant, "seat", 4, 4, lock.LeaseDuration))
			check(t, err)
			peek(t, b)
			c.store.Undo(1, only("seat"))
			lost := time.Now()

			leader(t, time.Minute, b)
			if waited := time.Since(lost); waited < lock.LeaseDuration {
				t.Errorf("it waited for %v, and the term that it was shown lasts for up to %v", waited,
					lock.LeaseDuration)
			}

			if got := b.kinds(regent.EventStoreRegressed); len(got) != 2 {
				t.Errorf("%d events, and the store went back twice: %+v", len(got), got)
			}

			b.quit()
		})
	})

	t.Run("an_older_answer_is_no_rollback", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.KeepLog(100)
			vacant, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Epoch: 3, Nonce: 3,
				Duration: lock.LeaseDuration})
			check(t, err)
			b := c.member("b", config(lock))
			b.Observe("seat", 7) // which the store has forgotten
			b.lead()
			for len(b.kinds(regent.EventStoreRegressed)) < 1 {
				time.Sleep(10 * time.Millisecond)
			}

			b.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: time.Second}})
			vacant.Paused = true
			vacant, err = c.store.Swap(c.ctx, vacant) // it is notified, and reads
			check(t, err)
			time.Sleep(time.Second / 4)
			b.client.SetFaults(memstore.Faults{})
			vacant.Paused = false
			_, err = c.store.Swap(c.ctx, stranger(vacant, "seat", 4, 4, lock.LeaseDuration))
			check(t, err)
			peek(t, b)
			time.Sleep(2 * time.Second)

			if got := b.kinds(regent.EventStoreRegressed); len(got) != 1 {
				t.Errorf("%d events of a rollback, and there was one: %+v", len(got), got)
			}
			if v, _ := b.View("seat"); v.Epoch != 4 {
				t.Errorf("it shows epoch %d", v.Epoch)
			}

			b.quit()
		})
	})

	t.Run("a_renewal_that_only_a_request_was_shown_restarts_the_watch", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			l, err := c.store.Swap(c.ctx, stranger(driver.Record{}, "seat", 4, 4, lock.LeaseDuration))
			check(t, err)
			b := c.member("b", config(lock)).lead()
			time.Sleep(6 * time.Second)

			_, err = c.store.Swap(c.ctx, stranger(l, "seat", 4, 5, lock.LeaseDuration))
			check(t, err)
			peek(t, b)
			c.store.Undo(1, only("seat"))
			renewed := time.Now()

			leader(t, time.Minute, b)
			if waited := time.Since(renewed); waited < lock.LeaseDuration {
				t.Errorf("it leads %v after the holder renewed its lease of %v", waited, lock.LeaseDuration)
			}

			b.quit()
		})
	})

	t.Run("a_record_that_a_request_did_not_find_is_watched_anew", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			_, err := c.store.Swap(c.ctx, stranger(driver.Record{}, "seat", 4, 4, lock.LeaseDuration))
			check(t, err)
			b := c.member("b", config(lock)).lead()
			time.Sleep(6 * time.Second)

			before := c.store.Snapshot()
			c.store.Undo(1, only("seat"))
			peek(t, b)
			c.store.Restore(before)
			back := time.Now()

			leader(t, time.Minute, b)
			if waited := time.Since(back); waited < lock.LeaseDuration {
				t.Errorf("it leads %v after the record was there again, with a lease of %v", waited, lock.LeaseDuration)
			}

			b.quit()
		})
	})

	t.Run("a_record_that_a_request_did_not_find_is_read_in_the_next_round", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.KeepLog(100)
			_, err := c.store.Swap(c.ctx, stranger(driver.Record{}, "seat", 4, 4, lock.LeaseDuration))
			check(t, err)
			b := c.member("b", config(lock)).lead()
			time.Sleep(6 * time.Second)

			b.client.SetFaults(memstore.Faults{Request: memstore.Delay{Min: 10 * time.Millisecond}})
			c.store.Undo(1, only("seat"))
			peek(t, b)
			// of which it is notified
			_, err = c.store.Swap(c.ctx, stranger(driver.Record{}, "seat-other", 1, 1, lock.LeaseDuration))
			check(t, err)
			time.Sleep(100 * time.Millisecond)
			if got := b.kinds(regent.EventStoreRegressed); len(got) != 1 {
				t.Errorf("%d events of a rollback that a request has shown: %+v", len(got), got)
			}

			b.quit()
		})
	})

	t.Run("an_edit_of_its_own_that_the_store_forgets_restarts_the_watch", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			_, err := c.store.Swap(c.ctx, stranger(driver.Record{}, "seat", 4, 4, lock.LeaseDuration))
			check(t, err)
			b := c.member("b", config(lock)).lead()
			time.Sleep(6 * time.Second)

			b.client.SetFaults(memstore.Faults{Request: memstore.Delay{Min: 100 * time.Millisecond}})
			check(t, b.Pause(c.ctx, "seat"))
			c.store.Undo(1, only("seat")) // before its loop reads
			forgotten := time.Now()

			leader(t, time.Minute, b)
			if waited := time.Since(forgotten); waited < lock.LeaseDuration {
				t.Errorf("it leads %v after the store has forgotten an edit, and the lease is %v", waited,
					lock.LeaseDuration)
			}

			b.quit()
		})
	})

	cfg := regent.Cluster()
	z := driver.MemberRegister("z")

	t.Run("a_heartbeat_that_only_a_request_was_shown_restarts_the_watch", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			beat, err := c.store.Swap(c.ctx, stranger(driver.Record{}, z, 1, 1, cfg.LeaseDuration))
			check(t, err)
			seat := stranger(driver.Record{}, "seat", 1, 2, cfg.LeaseDuration)
			seat.Via = z
			_, err = c.store.Swap(c.ctx, seat)
			check(t, err)
			b := c.member("b").lead()
			time.Sleep(2500 * time.Millisecond)

			_, err = c.store.Swap(c.ctx, stranger(beat, z, 1, 3, cfg.LeaseDuration))
			check(t, err)
			if err := b.HandOff(c.ctx, "seat", "z"); err == nil { // it reads the register of z
				t.Fatal("z is no candidate")
			}

			c.store.Undo(1, only(z))
			renewed := time.Now()

			leader(t, time.Minute, b)
			if waited := time.Since(renewed); waited < cfg.LeaseDuration {
				t.Errorf("it leads %v after the holder renewed its lease of %v", waited, cfg.LeaseDuration)
			}

			b.quit()
		})
	})

	t.Run("a_heartbeat_of_the_same_ID_that_only_a_request_was_shown_restarts_the_watch", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			own := driver.MemberRegister("b")
			beat := stranger(driver.Record{}, own, 1, 1, cfg.LeaseDuration)
			beat.Holder.ID = "b"
			beat, err := c.store.Swap(c.ctx, beat)
			check(t, err)
			b := c.member("b").lead()
			time.Sleep(2500 * time.Millisecond)

			beat.Nonce++
			_, err = c.store.Swap(c.ctx, beat)
			check(t, err)
			if err := b.HandOff(c.ctx, "seat", "b"); err == nil {
				t.Fatal("it does not lead")
			}

			c.store.Undo(1, only(own))
			renewed := time.Now()

			leader(t, time.Minute, b)
			if waited := time.Since(renewed); waited < cfg.LeaseDuration {
				t.Errorf("it has joined %v after the other process renewed its lease of %v", waited, cfg.LeaseDuration)
			}

			b.quit()
		})
	})
}
