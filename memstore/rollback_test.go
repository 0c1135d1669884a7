package memstore_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// write swaps a register to its next nonces, and returns every record that it showed.
func write(t *testing.T, s *memstore.Store, name string, nonces ...uint64) []driver.Record {
	t.Helper()
	l, err := s.Get(t.Context(), name)
	if errors.Is(err, driver.ErrNotFound) {
		l = driver.Record{Name: name, Epoch: 1, Duration: time.Second}
	}

	var all []driver.Record
	for _, n := range nonces {
		l.Nonce = n
		if l, err = s.Swap(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}

	return all
}

// holds wants registers at their nonces, 0 for one that is not there.
func holds(t *testing.T, s *memstore.Store, want map[string]uint64) {
	t.Helper()
	for name, nonce := range want {
		l, err := s.Get(t.Context(), name)
		if l.Nonce != nonce || errors.Is(err, driver.ErrNotFound) != (nonce == 0) {
			t.Errorf("%s shows nonce %d, %v, want %d", name, l.Nonce, err, nonce)
		}
	}
}

func TestRollbacks(t *testing.T) {
	bubble(t, "one_that_keeps_revisions_lets_an_old_swap_fit_again",
		func(t *testing.T, s *memstore.Store, first driver.Record) {
			snap := s.Snapshot()
			second := write(t, s, "seat", 2)[0]
			write(t, s, "late", 1)
			s.Restore(snap)
			holds(t, s, map[string]uint64{"seat": 1, "late": 0})
			takes(t, 0, driver.ErrConflict, func() error { _, err := s.Swap(t.Context(), second); return err })
			again, err := s.Swap(t.Context(), first)
			if err != nil || slices.Contains([]string{first.Rev, second.Rev}, again.Rev) {
				t.Errorf("Swap on the revision that came back = %q, %v, want a fresh one", again.Rev, err)
			}
		})

	bubble(t, "the_tail_of_the_log_is_undone_over_all_registers",
		func(t *testing.T, s *memstore.Store, _ driver.Record) {
			s.KeepLog(10)
			before := write(t, s, "seat", 2, 3)
			write(t, s, "other", 1, 2)
			write(t, s, "seat", 4)
			if n := s.Undo(3, nil); n != 3 {
				t.Errorf("Undo(3) takes back %d swaps", n)
			}

			holds(t, s, map[string]uint64{"seat": 3, "other": 0})
			if l, _ := s.Get(t.Context(), "seat"); l.Rev != before[1].Rev {
				t.Errorf("the record that came back has revision %q, want its own %q", l.Rev, before[1].Rev)
			}

			if n := s.Undo(10, nil); n != 2 {
				t.Errorf("Undo beyond the log takes back %d swaps, want the 2 that are left", n)
			}

			holds(t, s, map[string]uint64{"seat": 1})
		})

	bubble(t, "one_register_is_undone_and_no_other", func(t *testing.T, s *memstore.Store, _ driver.Record) {
		s.KeepLog(10)
		write(t, s, "seat", 2)
		write(t, s, "other", 1)
		write(t, s, "seat", 3)
		write(t, s, "other", 2)
		if n := s.Undo(2, func(name string) bool { return name == "seat" }); n != 2 {
			t.Errorf("Undo takes back %d swaps", n)
		}

		holds(t, s, map[string]uint64{"seat": 1, "other": 2})
		s.Undo(1, nil)
		holds(t, s, map[string]uint64{"seat": 1, "other": 1})
	})

	bubble(t, "the_log_is_bounded", func(t *testing.T, s *memstore.Store, _ driver.Record) {
		s.KeepLog(2)
		write(t, s, "seat", 2, 3, 4)
		if n := s.Undo(3, nil); n != 2 {
			t.Errorf("a log of 2 takes back %d swaps", n)
		}
		holds(t, s, map[string]uint64{"seat": 2})
	})

	bubble(t, "nothing_is_undone_across_a_restored_backup", func(t *testing.T, s *memstore.Store, _ driver.Record) {
		s.KeepLog(10)
		snap := s.Snapshot()
		write(t, s, "seat", 2)
		s.Rollback(snap)
		if n := s.Undo(1, nil); n != 0 {
			t.Errorf("Undo takes back %d swaps from before a rollback", n)
		}
	})

	bubble(t, "each_is_told_with_what_it_changed", func(t *testing.T, s *memstore.Store, first driver.Record) {
		var changed []string
		s.OnRollback = func(changes []memstore.Change) {
			for _, c := range changes {
				changed = append(changed,
					fmt.Sprintf("%s %d to %d %t", c.New.Name, c.Old.Nonce, c.New.Nonce, c.New.Rev == first.Rev))
			}
		}

		s.KeepLog(10)
		snap := s.Snapshot()
		write(t, s, "seat", 2, 3)
		write(t, s, "other", 7)
		s.Undo(3, nil)
		write(t, s, "late", 5)

		write(t, s, "seat", 4)
		s.Restore(snap)
		want := []string{"other 7 to 0 false", "seat 3 to 1 true", "late 5 to 0 false", "seat 4 to 1 true"}
		if !slices.Equal(changed, want) {
			t.Errorf("changed %q, want %q", changed, want)
		}
	})

	t.Run("names_are_spread_over_shards_the_same_way_every_time", func(t *testing.T) {
		var on [3]int
		for i := range 300 {
			name := fmt.Sprint("seat", i)
			first := memstore.Shard(name, 3)
			if again := memstore.Shard(name, 3); again != first {
				t.Fatalf("%s is on shard %d, and then on %d", name, first, again)
			}
			on[first]++
		}

		for i, n := range on {
			if n < 50 {
				t.Errorf("shard %d has %d of 300 registers", i, n)
			}
		}
	})
}

func TestUnreadableRegisters(t *testing.T) {
	bubble(t, "fail_alone", func(t *testing.T, s *memstore.Store, _ driver.Record) {
		for _, f := range []memstore.Faults{{}, {Request: always(1)}} { // the short way and the long one
			s.SetUnreadable()
			l := write(t, s, "seat", 1)[0]
			write(t, s, "other", 1)
			s.SetUnreadable("seat")
			c := s.Client("c", f)
			if _, err := c.Get(t.Context(), "seat"); !errors.Is(err, memstore.ErrUnreadable) {
				t.Errorf("Get = %v", err)
			}

			if _, err := c.Swap(t.Context(), l); !errors.Is(err, memstore.ErrUnreadable) {
				t.Errorf("Swap = %v", err)
			}

			outs := c.SwapAll(t.Context(), []driver.Record{l, {Name: fmt.Sprint("third", f.Request.Min)}})
			if !errors.Is(outs[0].Err, memstore.ErrUnreadable) || outs[1].Err != nil {
				t.Errorf("SwapAll = %v, %v", outs[0].Err, outs[1].Err)
			}

			var listed []string
			for l, err := range c.List(t.Context(), "") {
				listed = append(listed, fmt.Sprint(l.Name, " ", err == nil))
			}

			if want := []string{"other true", "seat false", "third0s true"}; !slices.Equal(listed[:3], want) {
				t.Errorf("List yields %q, want %q first", listed, want)
			}
		}

		s.SetUnreadable()
		shows(t, s, 1)
	})
}
