package regent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// TestLostClaim is about a store that has lost a claim, but not the heartbeat of the member that made it.
func TestLostClaim(t *testing.T) {
	cfg := regent.Cluster()

	t.Run("a_claim_lost_before_the_next_heartbeat_is_noticed_with_that_heartbeat", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			a := c.member("a").lead()
			leader(t, time.Second, a)
			if n := c.store.Undo(1, only("seat")); n != 1 {
				t.Fatal("no claim to undo")
			}
			if took := outlasted(a, time.Minute); took > cfg.HeartbeatInterval+100*time.Millisecond {
				t.Errorf("it led on for %v", took)
			}
			if got := a.kinds(regent.EventStoreRegressed); len(got) == 0 {
				t.Error("it did not say that the store has lost writes")
			}

			a.quit()
		})
	})

	t.Run("a_claim_lost_later_is_noticed_by_the_sweep_within_a_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			a := c.member("a").lead()
			leader(t, time.Second, a)
			time.Sleep(20 * time.Second)
			c.store.Undo(1, only("seat"))
			if took := outlasted(a, time.Minute); took > cfg.LeaseDuration {
				t.Errorf("it led on for %v", took)
			}

			a.quit()
		})
	})

	t.Run("each_of_a_thousand_held_elections_is_swept_within_a_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			c.store.KeepLog(10000)
			duties := make([]regent.Duty, 1000)
			for i := range duties {
				duties[i].Election = "seat" + time.Duration(i).String()
			}

			duties[500].Election = "seat"
			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duties...) }()
			time.Sleep(30 * time.Second)
			if !a.leads() {
				t.Fatal("it does not lead")
			}

			c.store.Undo(1, only("seat"))
			if took := outlasted(a, time.Minute); took > cfg.LeaseDuration {
				t.Errorf("it led on for %v", took)
			}

			cancel()
			<-done
		})
	})

	t.Run("beyond_a_thousand_elections_the_sweep_goes_round", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			c.store.KeepLog(10000)
			duties := make([]regent.Duty, 2500)
			for i := range duties {
				duties[i].Election = fmt.Sprintf("seat-%04d", i)
			}

			a := c.member("a")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx, duties...) }()
			time.Sleep(30 * time.Second)
			for _, i := range []int{0, 1200, 2499} {
				election := duties[i].Election
				if _, ok := a.Leads(election); !ok {
					t.Fatal("it does not lead", election)
				}

				c.store.Undo(1, only(election))
				time.Sleep(3*cfg.HeartbeatInterval + 100*time.Millisecond)
				if _, ok := a.Leads(election); ok {
					t.Errorf("it leads %s on", election)
				}
			}

			cancel()
			<-done
		})
	})

	t.Run("a_notification_that_names_the_election_ends_the_term_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.KeepLog(1000)
			a := c.member("a").lead()
			leader(t, time.Second, a)
			time.Sleep(10 * time.Second)
			c.store.Undo(1, only("seat"))
			l, err := c.store.Get(c.ctx, "seat")
			if err != nil {
				l = driver.Record{Name: "seat"}
			}

			l.Holder = driver.Identity{ID: "z", Incarnation: "z1"}
			l.Epoch++
			l.Nonce = 1
			l.Duration = time.Minute
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			if took := outlasted(a, time.Minute); took > 50*time.Millisecond {
				t.Errorf("it led on for %v", took)
			}

			// The other one has the same epoch: that alone shows that the store has lost writes.
			if got := a.kinds(regent.EventStoreRegressed); len(got) == 0 {
				t.Error("two terms have one epoch, and it did not say so")
			}

			a.quit()
		})
	})

	t.Run("a_checkpoint_that_cannot_be_saved_ends_the_term", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				unseen(c)
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				time.Sleep(profile.LeaseDuration + 10*time.Millisecond)
				c.store.Undo(1000, only("seat"))
				term, _ := a.Leads("seat")
				if err := term.Save(c.ctx, []byte("x")); !errors.Is(err, regent.ErrNotLeader) {
					t.Errorf("%s: Save = %v", name, err)
				}
				if a.leads() {
					t.Errorf("%s: it leads on", name)
				}

				a.quit()
			})
		}
	})

	t.Run("a_reconnect_has_the_held_elections_read_at_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			long := regent.Cluster()
			long.LeaseDuration = time.Hour
			w := &wakeable{notices: make(chan driver.Record, 1)}
			a := c.member("a", config(long), func(m *regent.Member) {
				w.Store = m.Store
				m.Store = w
			}).lead()
			leader(t, time.Second, a)
			time.Sleep(10 * time.Second)
			c.store.Undo(1, only("seat"))
			driver.Notify(w.notices, driver.Record{})
			if took := outlasted(a, time.Minute); took > time.Second {
				t.Errorf("it led on for %v", took)
			}

			a.quit()
		})
	})

	t.Run("a_checkpoint_after_a_lost_renewal_ends_the_term_and_does_not_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			cfg := regent.Lock()
			a := c.member("a", config(cfg)).lead()
			leader(t, time.Second, a)
			time.Sleep(25 * time.Second) // two renewals
			a.client.SetFaults(memstore.Faults{Request: memstore.Delay{Min: time.Millisecond / 2},
				Answer: memstore.Delay{Min: time.Millisecond / 2}})
			c.store.Undo(1, only("seat"))
			term, _ := a.Leads("seat")
			before := a.client.Counts().Total()
			start := time.Now()
			err := term.Save(c.ctx, []byte("x"))
			n := a.client.Counts().Total() - before
			if !errors.Is(err, regent.ErrNotLeader) {
				t.Errorf("Save = %v", err)
			}
			if n > 100 {
				t.Errorf("Save has sent %d requests in %v", n, time.Since(start))
			}

			a.quit()
		})
	})
}

// wakeable is a store whose notices come from the test.
type wakeable struct {
	driver.Store
	notices chan driver.Record
}

func (w *wakeable) Subscribe(_ context.Context, to *driver.Interest) <-chan driver.Record {
	if !to.Covers("seat") {
		return make(chan driver.Record)
	}
	return w.notices
}
