package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestAHungStore(t *testing.T) {
	swap := func(t *testing.T, c driver.Store, l driver.Record, nonce uint64) error {
		l.Nonce = nonce
		_, err := c.Swap(within(t, time.Second), l)
		return err
	}

	bubble(t, "a_call_ends_with_its_context_and_its_swap_is_applied_when_the_store_goes_on",
		func(t *testing.T, s *memstore.Store, l driver.Record) {
			c := s.Client("c", memstore.Faults{})
			s.Hang()
			takes(t, time.Second, context.DeadlineExceeded, func() error { return swap(t, c, l, 2) })
			takes(t, time.Second, context.DeadlineExceeded,
				func() error { _, err := c.Get(within(t, time.Second), "seat"); return err })
			s.Resume()
			shows(t, s, 2)
		})

	bubble(t, "a_call_that_still_waits_gets_its_answer_when_the_store_goes_on",
		func(t *testing.T, s *memstore.Store, l driver.Record) {
			c := s.Client("c", memstore.Faults{})
			s.Hang()
			time.AfterFunc(time.Second/2, s.Resume)
			takes(t, time.Second/2, nil, func() error { return swap(t, c, l, 2) })
			shows(t, s, 2)
		})

	bubble(t, "what_waits_is_applied_in_the_order_in_which_it_came",
		func(t *testing.T, s *memstore.Store, l driver.Record) {
			s.Hang()
			first := make(chan error, 1)
			second := make(chan error, 1)
			go func() { first <- swap(t, s.Client("first", memstore.Faults{}), l, 2) }()
			time.Sleep(time.Millisecond)
			go func() { second <- swap(t, s.Client("second", memstore.Faults{}), l, 3) }()

			time.Sleep(time.Millisecond)
			s.Resume()
			if err := <-first; err != nil {
				t.Errorf("the first swap fails: %v", err)
			}

			if err := <-second; !errors.Is(err, driver.ErrConflict) {
				t.Errorf("the second swap ends with %v, want a conflict", err)
			}

			shows(t, s, 2)
		})

	bubble(t, "what_was_dropped_is_never_applied_and_never_answered",
		func(t *testing.T, s *memstore.Store, l driver.Record) {
			c := s.Client("c", memstore.Faults{})
			s.Hang()
			time.AfterFunc(time.Second/2, s.Drop)
			takes(t, time.Second, context.DeadlineExceeded, func() error { return swap(t, c, l, 2) })
			shows(t, s, 1)
			takes(t, 0, nil, func() error { return swap(t, c, l, 3) })
		})

	bubble(t, "one_client_hangs_and_the_others_go_on", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{})
		c.Hang()
		takes(t, time.Second, context.DeadlineExceeded, func() error { return swap(t, c, l, 2) })
		takes(t, 0, nil, func() error { return swap(t, s.Client("other", memstore.Faults{}), l, 3) })
		c.Resume()
		shows(t, s, 3)
	})

	bubble(t, "a_client_that_goes_on_still_waits_for_the_store",
		func(t *testing.T, s *memstore.Store, l driver.Record) {
			c := s.Client("c", memstore.Faults{})
			c.Hang()
			s.Hang()
			time.AfterFunc(time.Second/4, c.Resume)
			time.AfterFunc(time.Second/2, s.Resume)
			takes(t, time.Second/2, nil, func() error { return swap(t, c, l, 2) })
		})

	bubble(t, "a_late_swap_waits_too", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{ApplyLate: 1, Late: always(2 * time.Second)})
		takes(t, time.Second, context.DeadlineExceeded, func() error { return swap(t, c, l, 2) })
		s.Hang()
		time.Sleep(time.Minute)
		s.Resume()
		shows(t, s, 2)
	})

	bubble(t, "a_late_swap_of_a_batch_waits_too", func(t *testing.T, s *memstore.Store, l driver.Record) {
		var outs []driver.Outcome
		for seed := uint64(1); len(outs) == 0 || !errors.Is(outs[0].Err, memstore.ErrNoAnswer); seed++ {
			// Some batches are late as a whole: until one is answered and the swap in it is late.
			c := s.Client("c", memstore.Faults{Seed: seed, ApplyLate: 0.5, Late: always(time.Hour)})
			outs = c.SwapAll(within(t, time.Second), []driver.Record{{Name: fmt.Sprint("late", seed)}})
		}

		before := s.Snapshot().Len()
		s.Hang()
		time.Sleep(2 * time.Hour)
		if n := s.Snapshot().Len(); n != before {
			t.Errorf("%d registers were written while the store hung", n-before)
		}

		s.Resume()
		if n := s.Snapshot().Len(); n == before {
			t.Error("no late swap was applied when the store went on")
		}
	})

	bubble(t, "closing_ends_a_call_that_waits", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{})
		s.Hang()
		time.AfterFunc(time.Second/2, func() { c.Close() })
		takes(t, time.Second/2, driver.ErrClosed, func() error { return swap(t, c, l, 2) })
	})

	bubble(t, "a_call_may_outlive_its_context", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Linger: time.Minute})
		s.Hang()
		takes(t, time.Minute+time.Second, context.DeadlineExceeded, func() error { return swap(t, c, l, 2) })
		time.AfterFunc(3*time.Second, func() { c.Close() })
		takes(t, 3*time.Second, context.DeadlineExceeded, func() error { return swap(t, c, l, 2) })
	})
}
