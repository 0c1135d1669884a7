package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

func seat(nonce uint64) driver.Record {
	return driver.Record{Name: "seat", Holder: driver.Identity{ID: "a", Incarnation: "a1"}, Epoch: 1, Nonce: nonce,
		Duration: time.Second}
}

// bubble runs a test in virtual time, with a store of one register with nonce 1.
func bubble(t *testing.T, name string, f func(t *testing.T, s *memstore.Store, l driver.Record)) {
	t.Run(name, func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			s := memstore.New()
			l, err := s.Swap(t.Context(), seat(1))
			if err != nil {
				t.Fatal(err)
			}
			f(t, s, l)
		})
	})
}

// within returns a context with a timeout.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// shows wants the register at a nonce.
func shows(t *testing.T, s *memstore.Store, nonce uint64) {
	t.Helper()
	if l, err := s.Get(t.Context(), "seat"); err != nil || l.Nonce != nonce {
		t.Errorf("the register shows nonce %d, %v, want %d", l.Nonce, err, nonce)
	}
}

// takes wants f to take d, and to fail as wanted.
func takes(t *testing.T, d time.Duration, want error, f func() error) {
	t.Helper()
	begin := time.Now()
	if err := f(); !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
	if took := time.Since(begin); took != d {
		t.Errorf("took %v, want %v", took, d)
	}
}

func always(d time.Duration) memstore.Delay { return memstore.Delay{Min: d} }

func TestFaults(t *testing.T) {
	next := func(l driver.Record, nonce uint64) driver.Record {
		l.Nonce = nonce
		return l
	}

	bubble(t, "each_way_takes_its_time", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Request: always(2 * time.Second), Answer: always(3 * time.Second)})
		time.AfterFunc(1*time.Second, func() { shows(t, s, 1) })
		time.AfterFunc(4*time.Second, func() { shows(t, s, 2) })
		takes(t, 5*time.Second, nil, func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		takes(t, 5*time.Second, nil, func() error { _, err := c.Get(t.Context(), "seat"); return err })
		takes(t, 5*time.Second, nil, func() error {
			for _, err := range c.List(t.Context(), "") {
				return err
			}
			return nil
		})
	})

	bubble(t, "a_lost_request_is_never_applied", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{LoseRequest: 1})
		takes(t, time.Second, context.DeadlineExceeded,
			func() error { _, err := c.Swap(within(t, time.Second), next(l, 2)); return err })
		c.Adjust(func(f *memstore.Faults) { f.Timeout = always(time.Minute) })
		takes(t, time.Minute, memstore.ErrNoAnswer,
			func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		time.Sleep(time.Hour)
		shows(t, s, 1)
	})

	bubble(t, "a_lost_answer_hides_an_applied_swap", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{LoseAnswer: 1, Timeout: always(time.Second)})
		takes(t, time.Second, memstore.ErrNoAnswer,
			func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		shows(t, s, 2)
	})

	bubble(t, "a_late_swap_comes_after_its_caller_gave_up", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{ApplyLate: 1, Late: always(10 * time.Second)})
		takes(t, time.Second, context.DeadlineExceeded,
			func() error { _, err := c.Swap(within(t, time.Second), next(l, 2)); return err })
		shows(t, s, 1)
		time.Sleep(10 * time.Second)
		shows(t, s, 2)
	})

	bubble(t, "a_late_swap_meets_the_revision_of_its_time", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{ApplyLate: 1, Late: always(10 * time.Second), Timeout: always(time.Second)})
		takes(t, time.Second, memstore.ErrNoAnswer,
			func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		if _, err := s.Swap(t.Context(), next(l, 3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		shows(t, s, 3)
	})

	bubble(t, "a_request_under_way_is_not_called_back", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Request: always(10 * time.Second)})
		takes(t, time.Second, context.DeadlineExceeded,
			func() error { _, err := c.Swap(within(t, time.Second), next(l, 2)); return err })
		time.Sleep(8 * time.Second)
		shows(t, s, 1)
		time.Sleep(2 * time.Second)
		shows(t, s, 2)
	})

	bubble(t, "an_injected_conflict_is_not_applied", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Conflict: 1})
		takes(t, 0, driver.ErrConflict, func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		shows(t, s, 1)
	})

	bubble(t, "an_outage_fails_every_call_at_once", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{})
		s.SetFaults(memstore.Faults{Outage: true})
		takes(t, 0, memstore.ErrOutage, func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		takes(t, 0, memstore.ErrOutage, func() error { _, err := c.Get(t.Context(), "seat"); return err })
		takes(t, 0, memstore.ErrOutage, func() error {
			return c.SwapAll(t.Context(),
				[]driver.Record{next(l, 2)})[0].Err
		})
		for _, err := range c.List(t.Context(), "") {
			takes(t, 0, memstore.ErrOutage, func() error { return err })
		}

		s.SetFaults(memstore.Faults{})
		shows(t, s, 1)
	})

	bubble(t, "a_partition_cuts_either_way", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c, other := s.Client("c", memstore.Faults{CutRequests: true}), s.Client("other", memstore.Faults{})
		swap := func(nonce uint64) func() error {
			return func() error { _, err := c.Swap(within(t, time.Second), next(l, nonce)); return err }
		}

		takes(t, time.Second, context.DeadlineExceeded, swap(2))
		shows(t, s, 1)
		c.SetFaults(memstore.Faults{CutAnswers: true})
		takes(t, time.Second, context.DeadlineExceeded, swap(3))
		shows(t, s, 3)
		c.SetFaults(memstore.Faults{})

		takes(t, 0, driver.ErrConflict, swap(4))
		takes(t, 0, nil, func() error { _, err := other.Get(t.Context(), "seat"); return err })
	})

	bubble(t, "a_partition_catches_answers_under_way", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{Request: always(time.Second), Timeout: always(time.Second)})
		time.AfterFunc(time.Second/2, func() { c.Adjust(func(f *memstore.Faults) { f.CutAnswers = true }) })
		takes(t, 2*time.Second, memstore.ErrNoAnswer,
			func() error { _, err := c.Swap(t.Context(), next(l, 2)); return err })
		shows(t, s, 2)
	})

	bubble(t, "a_rollback_gives_fresh_revisions", func(t *testing.T, s *memstore.Store, l driver.Record) {
		snap := s.Snapshot()
		second, err := s.Swap(t.Context(), next(l, 2))
		if err != nil {
			t.Fatal(err)
		}

		s.Rollback(snap)
		shows(t, s, 1)
		for _, old := range []driver.Record{l, second} {
			takes(t, 0, driver.ErrConflict, func() error { _, err := s.Swap(t.Context(), next(old, 3)); return err })
		}

		s.Flush()
		takes(t, 0, driver.ErrNotFound, func() error { _, err := s.Get(t.Context(), "seat"); return err })
		again, err := s.Swap(t.Context(), seat(4))
		if err != nil || slices.Contains([]string{l.Rev, second.Rev}, again.Rev) {
			t.Errorf("after a flush Swap = revision %q, %v, want a fresh one", again.Rev, err)
		}
	})

	bubble(t, "closing_ends_a_call_that_waits", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{LoseRequest: 1})
		time.AfterFunc(time.Second, func() { c.Close() })
		takes(t, time.Second, driver.ErrClosed, func() error { _, err := c.Get(t.Context(), "seat"); return err })
		d := s.Client("d", memstore.Faults{LoseRequest: 1})
		time.AfterFunc(time.Second, func() { s.Close() })
		takes(t, time.Second, driver.ErrClosed, func() error { _, err := d.Get(t.Context(), "seat"); return err })
	})

	bubble(t, "each_swap_of_a_batch_meets_its_own_fate", func(t *testing.T, s *memstore.Store, _ driver.Record) {
		c := s.Client("c", memstore.Faults{Seed: 1, Conflict: 0.3, LoseAnswer: 0.1, ApplyLate: 0.3,
			Late: always(time.Hour), Timeout: always(1)})
		ls := make([]driver.Record, 200)
		for i := range ls {
			ls[i] = seat(1)
			ls[i].Name = fmt.Sprint("seat/", i)
		}

		var outs []driver.Outcome
		for len(outs) == 0 || errors.Is(outs[0].Err, memstore.ErrNoAnswer) &&
			errors.Is(outs[1].Err, memstore.ErrNoAnswer) && errors.Is(outs[2].Err, memstore.ErrNoAnswer) {
			outs = c.SwapAll(t.Context(), ls) // until the batch as a whole gets through
		}

		fates := map[string]int{}
		for i, o := range outs {
			_, err := s.Get(t.Context(), ls[i].Name)
			switch {
			case o.Err == nil && err == nil:
				fates["applied"]++
			case errors.Is(o.Err, driver.ErrConflict):
				fates["conflict"]++
			case errors.Is(o.Err, memstore.ErrNoAnswer) && err == nil:
				fates["answer lost"]++
			case errors.Is(o.Err, memstore.ErrNoAnswer):
				fates["late"]++
			}
		}

		if len(fates) != 4 {
			t.Errorf("fates are %v, want all four", fates)
		}
	})
}

func TestBadFaultsAreHarmless(t *testing.T) {
	bubble(t, "values_out_of_range_count_as_the_nearest", func(t *testing.T, s *memstore.Store, l driver.Record) {
		c := s.Client("c", memstore.Faults{
			LoseRequest: -1, LoseAnswer: -5, Conflict: -0.1,
			Request: memstore.Delay{Min: -time.Hour, Max: -time.Minute},
			Answer:  memstore.Delay{Min: time.Second, Max: -time.Hour}, Late: always(-1), NoticeDelay: always(-1),
		})
		takes(t, time.Second, nil, func() error { _, err := c.Get(t.Context(), "seat"); return err })
		c.SetFaults(memstore.Faults{Conflict: 17})
		takes(t, 0, driver.ErrConflict, func() error { _, err := c.Swap(t.Context(), l); return err })
	})

	bubble(t, "a_bad_name_is_an_error", func(t *testing.T, s *memstore.Store, _ driver.Record) {
		for _, name := range []string{"", "a\x00b", "\xff", string(make([]byte, 251))} {
			if _, err := s.Swap(t.Context(), driver.Record{Name: name}); err == nil ||
				errors.Is(err, driver.ErrConflict) {
				t.Errorf("Swap(%q) = %v, want an error of its own", name, err)
			}
		}
	})
}
