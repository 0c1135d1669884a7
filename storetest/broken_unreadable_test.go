package storetest

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"

	"github.com/regentd/regent/driver"
)

type leaseSeq = iter.Seq2[driver.Record, error]

// corruptible is a correct store in which registers can be made unreadable. how breaks it after that.
type corruptible struct {
	mu  sync.Mutex
	bad map[string]bool
	how func(s *corruptible, t *brokenStore)
}

var errUnreadable = errors.New("the record cannot be read")

func (s *corruptible) corrupt(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad[name] = true
	return nil
}

func (s *corruptible) err(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.bad[name] {
		return errUnreadable
	}
	return nil
}

func (s *corruptible) open() Open {
	s.bad = map[string]bool{}
	return breakStore(func(t *brokenStore) {
		t.get = func(ctx context.Context, name string) (driver.Record, error) {
			if err := s.err(name); err != nil {
				return driver.Record{}, err
			}
			return t.fullStore.Get(ctx, name)
		}

		t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
			if err := s.err(l.Name); err != nil {
				return driver.Record{}, err
			}
			return t.fullStore.Swap(ctx, l)
		}

		t.swapAll = func(ctx context.Context, ls []driver.Record) []driver.Outcome {
			outs := make([]driver.Outcome, len(ls))
			for i, l := range ls {
				outs[i].Record, outs[i].Err = t.swap(ctx, l)
			}
			return outs
		}

		t.refresh = func(ctx context.Context, known []driver.Record) []driver.Outcome {
			outs := t.fullStore.Refresh(ctx, known)
			for i, l := range known {
				if err := s.err(l.Name); err != nil {
					outs[i] = driver.Outcome{Err: err}
				}
			}
			return outs
		}

		t.list = s.relist(t, func(name string) (string, bool) { return name, true })
		if s.how != nil {
			s.how(s, t)
		}
	})
}

// relist lists the registers. For an unreadable one it calls as, which returns the name to yield with the error, and
// whether the list goes on.
func (s *corruptible) relist(
	t *brokenStore, as func(name string) (string, bool),
) func(context.Context, string) leaseSeq {
	return func(ctx context.Context, prefix string) leaseSeq {
		return func(yield func(driver.Record, error) bool) {
			for l, err := range t.fullStore.List(ctx, prefix) {
				on := true
				if bad := s.err(l.Name); bad != nil && err == nil {
					l = driver.Record{Name: l.Name}
					l.Name, on = as(l.Name)
					err = bad
				}

				if !yield(l, err) || !on {
					return
				}
			}
		}
	}
}

func TestASoundStoreWithAnUnreadableRegisterPasses(t *testing.T) {
	RunUnreadable(t, func(*testing.T) (Open, func(string) error) {
		s := &corruptible{}
		return s.open(), s.corrupt
	})
}

func TestBrokenStoresWithAnUnreadableRegisterAreCaught(t *testing.T) {
	all, caught := map[string]unreadableCheck{}, map[string]bool{}
	for _, c := range unreadableChecks {
		all[c.name] = c
	}

	for _, m := range brokenUnreadables() {
		for _, by := range m.caught {
			caught[by] = true
			wantCaught(t, m.name, by, all, func(c unreadableCheck) (check, Open) {
				s := &corruptible{how: m.how}
				return check{c.name, func(r *rig) { c.run(newUnreadableRig(r, s.corrupt)) }}, s.open()
			})
		}
	}
	wantAllUsed(t, all, caught)
}

// unreadableMutant is a store with a fault in unreadable registers.
type unreadableMutant struct {
	name   string
	caught []string // by all of these
	how    func(s *corruptible, t *brokenStore)
}

func brokenUnreadables() []unreadableMutant {
	const (
		alone   = "an_unreadable_register_is_an_error_for_itself_alone"
		again   = "an_unreadable_register_is_not_created_again"
		list    = "a_list_goes_on_after_an_unreadable_register"
		refresh = "a_refresh_reads_on_beside_an_unreadable_register"
		swaps   = "swaps_beside_an_unreadable_register_are_applied"
		notices = "notifications_come_beside_an_unreadable_register"
	)

	return []unreadableMutant{
		{"an_unreadable_register_is_called_unwritten", []string{alone, again}, func(s *corruptible, t *brokenStore) {
			get := t.get
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				l, err := get(ctx, name)
				if errors.Is(err, errUnreadable) {
					err = driver.ErrNotFound
				}
				return l, err
			}
		}},
		{"an_unreadable_register_spoils_its_neighbour", []string{alone}, func(s *corruptible, t *brokenStore) {
			get := t.get
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				if name == "seat/4" && s.err(unreadable) != nil {
					return driver.Record{}, errUnreadable
				}
				return get(ctx, name)
			}
		}},
		{"an_unreadable_register_is_written_over", []string{again, swaps}, func(s *corruptible, t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				if s.err(l.Name) != nil {
					old, _ := t.fullStore.Get(ctx, l.Name)
					l.Rev = old.Rev
				}
				return t.fullStore.Swap(ctx, l)
			}
		}},
		{"a_list_ends_at_an_unreadable_register", []string{list}, func(s *corruptible, t *brokenStore) {
			t.list = s.relist(t, func(name string) (string, bool) { return name, false })
		}},
		{"a_list_does_not_say_which_register_is_unreadable", []string{list}, func(s *corruptible, t *brokenStore) {
			t.list = s.relist(t, func(string) (string, bool) { return "", true })
		}},
		{"a_list_leaves_an_unreadable_register_out", []string{list}, func(s *corruptible, t *brokenStore) {
			t.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
				return only(t.fullStore.List(ctx, prefix), func(name string) bool { return s.err(name) == nil })
			}
		}},
		{"a_refresh_fails_with_an_unreadable_register", []string{refresh}, func(s *corruptible, t *brokenStore) {
			t.refresh = func(ctx context.Context, known []driver.Record) []driver.Outcome {
				outs := t.fullStore.Refresh(ctx, known)
				for i := range outs {
					outs[i] = driver.Outcome{Err: errUnreadable}
				}
				return outs
			}
		}},
		{"a_refresh_calls_an_unreadable_register_unchanged", []string{refresh}, func(s *corruptible, t *brokenStore) {
			t.refresh = t.fullStore.Refresh
		}},
		{"a_batch_fails_with_an_unreadable_register", []string{swaps}, func(s *corruptible, t *brokenStore) {
			batch := t.swapAll
			t.swapAll = func(ctx context.Context, ls []driver.Record) []driver.Outcome {
				outs := batch(ctx, ls)
				for i := range outs {
					outs[i] = driver.Outcome{Err: errUnreadable}
				}
				return outs
			}
		}},
		{"an_unreadable_register_ends_all_notices", []string{notices}, func(s *corruptible, t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				return passedOn(ctx, t.fullStore.Subscribe(ctx, to), func(out chan driver.Record, l driver.Record) {
					if s.err("seat/2") == nil {
						driver.Notify(out, l)
					}
				})
			}
		}},
		{"an_unreadable_register_wakes_for_ever", []string{notices}, func(s *corruptible, t *brokenStore) {
			wake := make(chan driver.Record, 1)
			t.subscribe = func(context.Context, *driver.Interest) <-chan driver.Record { return wake }
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				got, err := t.fullStore.Swap(ctx, l)
				driver.Notify(wake, driver.Record{})
				return got, err
			}
		}},
	}
}
