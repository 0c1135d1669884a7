package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// RunUnreadable runs what a store owes when one of its registers cannot be read: that register
// alone has an error. Fresh is as for [Run], and returns besides a function that makes a register
// unreadable, whatever that means for the store: a record that is no JSON, a value of another type.
func RunUnreadable(t *testing.T, fresh func(t *testing.T) (open Open, spoil func(name string) error)) {
	t.Helper()
	for _, c := range unreadableChecks {
		t.Run(c.name, func(t *testing.T) {
			open, spoil := fresh(t)
			c.run(newSpoiled(newRig(t, open, 30*time.Second), spoil))
		})
	}
}

// unreadableCheck is a fact about a store with an unreadable register.
type unreadableCheck struct {
	name string
	run  func(r *spoiled)
}

// spoiled is a rig with a store of five registers, the third of which cannot be read.
type spoiled struct {
	*rig
	store driver.Store
	spoil func(name string) error
	all   []driver.Record // as they were before
}

const unreadable = "seat/3"

func newSpoiled(r *rig, spoil func(name string) error) *spoiled {
	s := &spoiled{rig: r, store: r.client(), spoil: spoil}
	for _, name := range []string{"seat/1", "seat/2", unreadable, "seat/4", "seat/5"} {
		s.all = append(s.all, r.swap(s.store, seat(name, 1)))
	}
	if err := spoil(unreadable); err != nil {
		r.Fatalf("make %q unreadable: %v", unreadable, err)
	}
	return s
}

// failed wants the error of a register that is there and cannot be read.
func (r *spoiled) failed(call string, err error) {
	r.Helper()
	if err == nil || errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrClosed) {
		r.Errorf("%s of a register that cannot be read: %v, want an error of its own", call, err)
	}
}

var unreadableChecks = []unreadableCheck{
	{"an_unreadable_register_is_an_error_for_itself_alone", func(r *spoiled) {
		for _, s := range []driver.Store{r.store, r.client()} {
			for _, l := range r.all {
				got, err := s.Get(r.ctx, l.Name)
				if l.Name == unreadable {
					r.failed("Get", err)
				} else if err != nil || got.Rev != l.Rev {
					r.Errorf("Get(%q) beside an unreadable register = revision %q, %v", l.Name, got.Rev, err)
				}
			}
		}
	}},
	{"an_unreadable_register_is_not_created_again", func(r *spoiled) {
		if _, err := r.store.Swap(r.ctx, seat(unreadable, 2)); err == nil {
			r.Errorf("a swap at an empty revision was applied to a register that cannot be read")
		}
		_, err := r.client().Get(r.ctx, unreadable)
		r.failed("Get", err)
	}},
	{"a_list_goes_on_after_an_unreadable_register", func(r *spoiled) {
		for _, s := range []driver.Store{r.store, r.client()} {
			seen, named := map[string]bool{}, 0
			for l, err := range s.List(r.ctx, "seat/") {
				switch {
				case err == nil:
					seen[l.Name] = true
				case l.Name == unreadable:
					named++
				default:
					r.Errorf("List beside an unreadable register yields %q with: %v", l.Name, err)
				}
			}
			if len(seen) != len(r.all)-1 || seen[unreadable] || named != 1 {
				r.Errorf("List beside an unreadable register yields %v, and names the register %d times, want once", seen, named)
			}
		}
	}},
	{"a_refresh_reads_on_beside_an_unreadable_register", func(r *spoiled) {
		bare := make([]driver.Record, len(r.all))
		for i, l := range r.all {
			bare[i].Name = l.Name
		}
		for _, known := range [][]driver.Record{r.all, bare} {
			for i, o := range r.refresher(r.store).Refresh(r.ctx, known) {
				if r.all[i].Name == unreadable {
					r.failed("Refresh", o.Err)
				} else {
					r.refreshed(o, r.all[i])
				}
			}
		}
	}},
	{"swaps_beside_an_unreadable_register_are_applied", func(r *spoiled) {
		ls := make([]driver.Record, len(r.all))
		for i, l := range r.all {
			ls[i] = renewed(l)
		}
		var outs []driver.Outcome
		if b, ok := r.store.(driver.Batcher); ok {
			outs = b.SwapAll(r.ctx, ls)
		} else {
			for _, l := range ls {
				got, err := r.store.Swap(r.ctx, l)
				outs = append(outs, driver.Outcome{Record: got, Err: err})
			}
		}
		for i, o := range outs {
			switch {
			case ls[i].Name == unreadable:
				if o.Err == nil {
					r.Errorf("a swap was applied to a register that cannot be read")
				}
			case o.Err != nil:
				r.Errorf("swap of %q beside an unreadable register: %v", ls[i].Name, o.Err)
			default:
				r.swap(r.client(), renewed(o.Record))
			}
		}
	}},
	{"hints_come_beside_an_unreadable_register", func(r *spoiled) {
		other := r.client()
		l := r.all[4]
		hints := r.watch(r.store, r.ctx, "seat/")
		r.settle(hints, func() { l = r.swap(other, handed(l, "b")) })
		if err := r.spoil("seat/2"); err != nil { // while somebody watches
			r.Fatalf("make %q unreadable: %v", "seat/2", err)
		}
		for range 3 {
			r.hinted(hints, "a claim beside an unreadable register", func() { l = r.swap(other, handed(l, "c")) })
		}
		// Nor does it wake anybody again and again.
		const renewals = 20
		woken := 0
		r.calm(hints)
		for range renewals {
			l = r.swap(other, renewed(l))
			if r.received(hints, 20*time.Millisecond) {
				woken++
			}
		}
		if woken >= renewals/2 {
			r.Errorf("%d renewals beside an unreadable register woke %d times", renewals, woken)
		}
	}},
}
