package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// RunUnreadable tests a store in which one register cannot be read: only that register has an error. fresh is as for
// [Run]. It also returns a function that makes a register unreadable, in a way that fits the store: a record that is
// not JSON, or a value of another type.
func RunUnreadable(t *testing.T, fresh func(t *testing.T) (open Open, corrupt func(name string) error)) {
	t.Helper()
	for _, c := range unreadableChecks {
		t.Run(c.name, func(t *testing.T) {
			open, corrupt := fresh(t)
			c.run(newUnreadableRig(newRig(t, open, 30*time.Second), corrupt))
		})
	}
}

// unreadableCheck is a fact about a store with an unreadable register.
type unreadableCheck struct {
	name string
	run  func(r *unreadableRig)
}

// unreadableRig is a rig with a store of five registers, the third of which cannot be read.
type unreadableRig struct {
	*rig
	store   driver.Store
	corrupt func(name string) error
	all     []driver.Record // before the third became unreadable
}

const unreadable = "seat/3"

func newUnreadableRig(r *rig, corrupt func(name string) error) *unreadableRig {
	s := &unreadableRig{rig: r, store: r.client(), corrupt: corrupt}
	for _, name := range []string{"seat/1", "seat/2", unreadable, "seat/4", "seat/5"} {
		s.all = append(s.all, r.swap(s.store, taken(name, 1)))
	}
	if err := corrupt(unreadable); err != nil {
		r.Fatalf("make %q unreadable: %v", unreadable, err)
	}
	return s
}

// wantError wants the error of a register that exists and cannot be read.
func (r *unreadableRig) wantError(call string, err error) {
	r.Helper()
	if err == nil || errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrClosed) {
		r.Errorf("%s of a register that cannot be read: %v, want an error of its own", call, err)
	}
}

var unreadableChecks = []unreadableCheck{
	{"an_unreadable_register_is_an_error_for_itself_alone", func(r *unreadableRig) {
		for _, s := range []driver.Store{r.store, r.client()} {
			for _, l := range r.all {
				got, err := s.Get(r.ctx, l.Name)
				if l.Name == unreadable {
					r.wantError("Get", err)
				} else if err != nil || got.Rev != l.Rev {
					r.Errorf("Get(%q) beside an unreadable register = revision %q, %v", l.Name, got.Rev, err)
				}
			}
		}
	}},
	{"an_unreadable_register_is_not_created_again", func(r *unreadableRig) {
		if _, err := r.store.Swap(r.ctx, taken(unreadable, 2)); err == nil {
			r.Errorf("a swap at an empty revision was applied to a register that cannot be read")
		}
		_, err := r.client().Get(r.ctx, unreadable)
		r.wantError("Get", err)
	}},
	{"a_list_goes_on_after_an_unreadable_register", func(r *unreadableRig) {
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
				r.Errorf("List beside an unreadable register yields %v, and names the register %d times, want once",
					seen, named)
			}
		}
	}},
	{"a_refresh_reads_on_beside_an_unreadable_register", func(r *unreadableRig) {
		bare := make([]driver.Record, len(r.all))
		for i, l := range r.all {
			bare[i].Name = l.Name
		}

		for _, known := range [][]driver.Record{r.all, bare} {
			for i, o := range r.refresher(r.store).Refresh(r.ctx, known) {
				if r.all[i].Name == unreadable {
					r.wantError("Refresh", o.Err)
				} else {
					r.wantOutcome(o, r.all[i])
				}
			}
		}
	}},
	{"swaps_beside_an_unreadable_register_are_applied", func(r *unreadableRig) {
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
	{"notifications_come_beside_an_unreadable_register", func(r *unreadableRig) {
		other := r.client()
		l := r.all[4]
		notices := r.watch(r.store, r.ctx, "seat/")
		r.awaitSubscription(notices, func() { l = r.swap(other, handed(l, "b")) })
		if err := r.corrupt("seat/2"); err != nil { // with a subscription
			r.Fatalf("make %q unreadable: %v", "seat/2", err)
		}

		for range 3 {
			r.wantNotice(notices, "a claim beside an unreadable register", func() { l = r.swap(other, handed(l, "c")) })
		}

		// It does not cause notifications over and over.
		const renewals = 20
		woken := 0
		r.drain(notices)
		for range renewals {
			l = r.swap(other, renewed(l))
			if r.received(notices, 20*time.Millisecond) {
				woken++
			}
		}

		if woken >= renewals/2 {
			r.Errorf("%d renewals beside an unreadable register woke %d times", renewals, woken)
		}
	}},
}
