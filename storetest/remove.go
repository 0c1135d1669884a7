package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
)

// remover returns s as a Remover, or skips the test.
func (r *rig) remover(s driver.Store) driver.Remover {
	r.Helper()
	if remover, ok := s.(driver.Remover); ok {
		return remover
	}
	r.Skip("the store is no Remover")
	return nil
}

// remove removes a register and wants no error.
func (r *rig) remove(s driver.Store, l driver.Record) {
	r.Helper()
	if err := r.remover(s).Remove(r.ctx, l); err != nil {
		r.Fatalf("Remove(%q at revision %q): %v", l.Name, l.Rev, err)
	}
}

// kept tries to remove l and wants a conflict that leaves the register unchanged.
func (r *rig) kept(s driver.Store, l driver.Record) {
	r.Helper()
	before, missing := s.Get(r.ctx, l.Name)
	if err := r.remover(s).Remove(r.ctx, l); !errors.Is(err, driver.ErrConflict) {
		r.Errorf("Remove(%q at revision %q) = %v, want ErrConflict", l.Name, l.Rev, err)
	}

	after, err := s.Get(r.ctx, l.Name)
	if missing != nil && errors.Is(err, driver.ErrNotFound) {
		return
	}

	if diff := differ(before, after); err != nil || diff != "" || before.Rev != after.Rev {
		r.Errorf("a refused removal changed register %q: %v %s", l.Name, err, diff)
	}
}

// absent wants every kind of read to show no register.
func (r *rig) absent(s driver.Store, name string) {
	r.Helper()
	if l, err := s.Get(r.ctx, name); !errors.Is(err, driver.ErrNotFound) {
		r.Errorf("Get(%q) = %+v, %v, want ErrNotFound", name, l, err)
	}

	if _, ok := r.list(s, "")[name]; ok {
		r.Errorf("List yields %q, which was removed", name)
	}

	if s, ok := s.(driver.Refresher); ok {
		if o := s.Refresh(r.ctx, []driver.Record{{Name: name, Rev: "1"}})[0]; !errors.Is(o.Err, driver.ErrNotFound) {
			r.Errorf("Refresh(%q) = %+v, %v, want ErrNotFound", name, o.Record, o.Err)
		}
	}
}

// vacated creates a register that nobody holds.
func (r *rig) vacated(s driver.Store, name string) driver.Record {
	r.Helper()
	return r.swap(s, released(r.swap(s, taken(name, 1))))
}

var removeChecks = []check{
	{"a_removed_register_is_not_found", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.vacated(a, "seat")
		other := r.vacated(a, "seat2")
		r.get(b, "seat")
		r.remove(b, l)

		for _, s := range []driver.Store{a, b} {
			r.absent(s, "seat")
			if got := r.get(s, "seat2"); got.Rev != other.Rev {
				r.Errorf("a removal changed another register: revision %q, want %q", got.Rev, other.Rev)
			}
		}

		if n := len(r.list(a, "")); n != 1 {
			r.Errorf("List yields %d registers, want 1", n)
		}
	}},
	{"a_removal_on_another_revision_is_refused", func(r *rig) {
		a, b := r.client(), r.client()
		first := r.vacated(a, "seat")
		held := r.swap(b, handed(first, "b"))
		second := r.swap(b, released(held))
		r.kept(a, first)
		r.kept(b, first)
		r.kept(a, driver.Record{Name: "seat"})
		r.kept(a, driver.Record{Name: "other", Rev: second.Rev})
		r.remove(a, second)
		r.kept(a, second)
	}},
	{"only_a_register_that_nobody_holds_is_removed", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, taken("seat", 1))
		r.kept(a, l)
		r.kept(b, l)
		unheld := l
		unheld.Holder = driver.Identity{} // what the caller knows of the holder does not matter
		r.kept(b, unheld)
	}},
	{"a_removed_register_never_gets_a_revision_again", func(r *rig) {
		seen := map[string]bool{}
		var all []driver.Record
		for range 3 { // each time from another client
			s, err := r.open()
			if err != nil {
				r.Fatalf("open a client again: %v", err)
			}

			for range 3 { // the records are equal, the revisions must not be
				held := r.swap(s, taken("seat", 1))
				vacant := r.swap(s, released(held))
				for _, old := range all {
					r.wantConflict(s, handed(old, "b"))
					r.kept(s, old)
				}

				for _, l := range []driver.Record{held, vacant} {
					if seen[l.Rev] {
						r.Errorf("revision %q came again after a removal", l.Rev)
					}
					seen[l.Rev] = true
					all = append(all, l)
				}

				r.remove(s, vacant)
			}

			if err := s.Close(); err != nil {
				r.Errorf("close a client: %v", err)
			}
		}
	}},
	{"of_removals_and_a_claim_at_once_one_is_applied", func(r *rig) {
		all := r.clients(4)
		for range 10 {
			l := r.vacated(all[0], "seat")
			var removed, claimed atomic.Int32
			r.together(8, func(i int) {
				s := all[i%4]
				var err error
				if i == 0 {
					if _, err = s.Swap(r.ctx, handed(l, "b")); err == nil {
						claimed.Add(1)
					}
				} else if err = r.remover(s).Remove(r.ctx, l); err == nil {
					removed.Add(1)
				}

				if err != nil && !errors.Is(err, driver.ErrConflict) {
					r.Errorf("a call that was not first: %v, want ErrConflict", err)
				}
			})

			if removed.Load()+claimed.Load() != 1 {
				r.Fatalf("%d removals and %d claims were applied, want one of both", removed.Load(), claimed.Load())
			}

			if claimed.Load() == 1 {
				r.remove(all[1], r.swap(all[2], released(r.get(all[3], "seat"))))
			}
		}
	}},
	{"a_removal_wakes_nobody_and_a_creation_after_it_does", func(r *rig) {
		a, b := r.client(), r.client()
		r.remover(a)
		l := r.vacated(a, "seat")
		notices := r.watch(b, r.ctx, "")
		r.awaitSubscription(notices, func() { l = r.swap(a, handed(l, "b")) })
		l = r.swap(a, released(l))

		r.drain(notices)
		woken := 0
		for range 10 {
			r.remove(a, l)
			if r.received(notices, 20*time.Millisecond) {
				woken++
			}
			r.wantNotice(notices, "a creation after a removal", func() { l = r.swap(a, taken("seat", 1)) })
			r.wantNotice(notices, "a release after a removal", func() { l = r.swap(a, released(l)) })
			r.drain(notices)
		}

		if woken >= 5 {
			r.Errorf("10 removals woke %d times", woken)
		}
	}},
	{"a_removal_ends_with_its_context_and_its_client", func(r *rig) {
		a, b := r.client(), r.client()
		r.remover(a)
		l := r.vacated(a, "seat")
		ended, cancel := context.WithCancel(r.ctx)
		cancel()

		if err := r.remover(a).Remove(ended, l); !errors.Is(err, context.Canceled) {
			r.Errorf("Remove with a cancelled context = %v, want context.Canceled", err)
		}

		if err := a.Close(); err != nil {
			r.Errorf("close a client: %v", err)
		}

		if err := r.remover(a).Remove(r.ctx, l); !errors.Is(err, driver.ErrClosed) {
			r.Errorf("Remove of a closed client = %v, want ErrClosed", err)
		}

		r.get(b, "seat")
	}},
}
