package regent_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestMembersOverSlowAndFailingStores(t *testing.T) {
	t.Run("a_slow_request_does_not_age_what_it_shows", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.Request.Min = 7900 * time.Millisecond })
			time.Sleep(1600 * time.Millisecond) // a list is on its way, and arrives at 9.4 s
			a.keep(7500 * time.Millisecond)     // the last heartbeat is at 9.1 s
			w.client.SetFaults(memstore.Faults{})
			time.Sleep(400 * time.Millisecond)
			c.joined("b", "1") // is notified, so that the next list shows the same heartbeat of a
			time.Sleep(500 * time.Millisecond)
			w.want("a+ b+")
			w.neverShowed("a-")
			w.neverShowed("a- b+")
			w.end()
		})
	})

	t.Run("a_slow_answer_does_not_age_what_it_shows", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.Answer.Min = 7 * time.Second })
			time.Sleep(1400 * time.Millisecond)
			c.joined("b", "1") // is notified: a list is sent that still shows the first heartbeat of a
			a.keep(30 * time.Second)
			w.neverShowed("a-")
			w.neverShowed("a- b+")
			w.neverShowed("a- b-")
			w.end()
		})
	})

	t.Run("a_store_that_hangs_is_an_error_and_nobody_dies_by_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Hang()
			a.keep(time.Minute)
			all := w.all()
			if len(all) < 4 || len(all) > 6 {
				t.Fatalf("yielded %d times in a minute of silence: %v", len(all), all)
			}
			if took := all[1].at.Sub(all[0].at); took < 12*time.Second || took > 15*time.Second {
				t.Errorf("the first error came after %v, want two lease durations", took)
			}
			for _, y := range all[1:] {
				if !errors.Is(y.err, regent.ErrStore) || !errors.Is(y.err, context.DeadlineExceeded) ||
					y.states != nil {
					t.Errorf("yielded %v, %v", y.states, y.err)
				}
				if !strings.Contains(y.err.Error(), "within 12s") {
					t.Errorf("the error does not name the timeout: %v", y.err)
				}
			}

			w.client.Resume()
			a.keep(15 * time.Second)
			if now := w.all(); len(now) == len(all) || now[len(now)-1].err != nil {
				t.Errorf("the end of the trouble was not yielded: %v", now)
			}

			w.neverShowed("a-")
			w.end()
		})
	})

	t.Run("a_driver_that_ignores_its_context_is_an_error_too", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.CutAnswers, f.Linger = true, 5*time.Minute })
			before := c.store.Counts().Lists
			a.keep(time.Minute)
			all := w.all()
			if len(all) < 4 || len(all) > 6 {
				t.Fatalf("yielded %d times in a minute of silence: %v", len(all), all)
			}
			for _, y := range all[1:] {
				if !errors.Is(y.err, regent.ErrStore) || !errors.Is(y.err, context.DeadlineExceeded) {
					t.Errorf("yielded %v, %v", y.states, y.err)
				}
			}
			if lists := c.store.Counts().Lists - before; lists > 1 {
				t.Errorf("%d lists, although the first has not returned", lists)
			}

			w.client.SetFaults(memstore.Faults{})
			a.keep(5 * time.Minute)
			w.want("a+")
			w.neverShowed("a-")
			if now := w.all(); now[len(now)-1].err != nil {
				t.Errorf("the end of the trouble was not yielded: %v", now[len(now)-1].err)
			}

			w.end()
		})
	})

	t.Run("a_store_that_refuses_is_an_error_every_heartbeat_interval", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			w.client.Adjust(func(f *faults) { f.Outage = true })
			a.keep(15 * time.Second)
			all := w.all()
			if len(all) < 10 || len(all) > 12 || !errors.Is(all[1].err, memstore.ErrOutage) {
				t.Errorf("yielded %d times in 15 s: %v", len(all), all)
			}

			w.client.SetFaults(memstore.Faults{})
			a.keep(2 * time.Second)
			if now := w.all(); now[len(now)-1].err != nil {
				t.Errorf("the end of the trouble was not yielded: %v", now)
			}

			w.end()
		})
	})

	t.Run("the_loop_ends_with_its_context_while_the_store_hangs", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers()
			w.client.Hang()
			time.Sleep(5 * time.Second)
			start := time.Now()
			w.end()
			if took := time.Since(start); took > 0 || len(w.all()) != 1 {
				t.Errorf("it took %v, and yielded %v", took, w.all())
			}
		})
	})

	t.Run("a_driver_that_panics_is_an_error", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			w := c.watchMembers(func(m *regent.Member) { m.Store = panickyLister{m.Store} })
			all := w.all()
			if len(all) != 1 || !errors.Is(all[0].err, regent.ErrStore) || !errors.Is(all[0].err, regent.ErrPanicked) {
				t.Errorf("yielded %v", all)
			}

			w.end()
		})
	})

	t.Run("a_register_that_cannot_be_read_keeps_its_member_for_its_lease", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			c.store.SetUnreadable(driver.MemberRegister("a"))
			time.Sleep(5 * time.Second)
			w.want("a+")
			w.changedWithin(time.Second, 3*time.Second, "a-")
			c.store.SetUnreadable()
			a.beat()
			w.changedWithin(0, 1500*time.Millisecond, "a+")
			w.end()
		})
	})

	t.Run("a_store_that_has_gone_back_shows_who_is_alive", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			b := c.joined("b", "1")
			w := c.watchMembers()
			before := c.store.Snapshot()
			c.joined("c", "1")
			a.keep(5 * time.Second)
			w.want("a+ b+ c+")
			c.store.Rollback(before)
			w.changedWithin(0, 1500*time.Millisecond, "a+ b+")

			// The old record of a counts anew, and a goes on from there. That of b is the one that was watched.
			a.rec, _ = c.store.Get(c.ctx, a.rec.Name)
			a.keep(5 * time.Second)
			w.want("a+ b-")
			b.rec, _ = c.store.Get(c.ctx, b.rec.Name)
			b.keep(2 * time.Second)
			w.want("a+ b+")

			// It goes back a second time.
			c.store.Rollback(before)
			time.Sleep(4 * time.Second)
			w.want("a+ b+")
			time.Sleep(5 * time.Second)
			w.want("a- b-")
			w.end()
		})
	})

	t.Run("an_edit_that_the_store_has_lost_counts_anew", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.joined("a", "1")
			w := c.watchMembers()
			before := c.store.Snapshot()
			a.rec.Edits++
			a.swap()
			time.Sleep(5 * time.Second)
			c.store.Rollback(before)
			time.Sleep(4 * time.Second)
			w.want("a+")
			w.end()
		})
	})
}

// panickyLister panics when it is asked for a list.
type panickyLister struct{ driver.Store }

func (panickyLister) List(context.Context, string) iter.Seq2[driver.Record, error] { panic("no list") }
