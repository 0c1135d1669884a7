package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

var refreshChecks = []check{
	{"a_refresh_shows_each_register_as_it_is_now", func(r *rig) {
		a, b := r.client(), r.client()
		refresher := r.refresher(a)
		same := r.swap(b, filled("same"))
		changed := r.swap(b, taken("changed", 1))
		renewal := r.swap(b, taken("renewed", 1))
		edit := r.swap(b, taken("edited", 1))

		unread := r.swap(b, filled("unread"))

		edited := edit
		edited.Next = "b"
		want := []driver.Record{
			r.swap(b, handed(changed, "b")), same, r.swap(b, renewed(renewal)), {}, unread, r.swap(b, edited), {},
		}

		known := []driver.Record{
			changed, same, renewal, {Name: "none"}, {Name: "unread"}, edit, {Name: "never", Rev: same.Rev},
		}
		outs := refresher.Refresh(r.ctx, known)
		if len(outs) != len(known) {
			r.Fatalf("Refresh of %d has %d outcomes", len(known), len(outs))
		}

		for i, o := range outs {
			if want[i].Name == "" {
				if !errors.Is(o.Err, driver.ErrNotFound) {
					r.Errorf("Refresh of %q, which was never written, = %+v, %v, want ErrNotFound", known[i].Name,
						o.Record, o.Err)
				}
				continue
			}
			r.wantOutcome(o, want[i])
		}
	}},
	{"a_refresh_keeps_the_order_of_its_names", func(r *rig) {
		s := r.client()
		refresher := r.refresher(s)
		known := make([]driver.Record, 60)
		for i := range known {
			known[i] = r.swap(s, taken(fmt.Sprintf("seat/%02d", i), uint64(i)))
		}

		rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		want := slices.Clone(known)
		for i := 0; i < len(known); i += 2 {
			want[i] = r.swap(s, renewed(known[i]))
		}

		for i, o := range refresher.Refresh(r.ctx, known) {
			r.wantOutcome(o, want[i])
		}
	}},
	{"a_refresh_of_nothing_is_nothing", func(r *rig) {
		refresher := r.refresher(r.client())
		r.mustReturn("Refresh of nothing", func() {
			for _, known := range [][]driver.Record{nil, {}} {
				if outs := refresher.Refresh(r.ctx, known); len(outs) != 0 {
					r.Errorf("Refresh of nothing has %d outcomes", len(outs))
				}
			}
		})
	}},
	{"a_refresh_may_name_2500_registers", func(r *rig) {
		const n = 2500
		a, b := r.client(), r.client()
		refresher := r.refresher(b)
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("seat/%d", i)
		}

		r.fill(a, names)
		known := make([]driver.Record, 0, n)
		listed := r.list(a, "seat/")
		for _, name := range names {
			known = append(known, listed[name])
		}

		want := slices.Clone(known)
		for i := 7; i < n; i += 100 {
			want[i] = r.swap(a, handed(known[i], "b"))
		}

		known[n-1] = driver.Record{Name: names[n-1]}

		for round := range 2 {
			outs := refresher.Refresh(r.ctx, known)
			if len(outs) != n {
				r.Fatalf("Refresh of %d has %d outcomes", n, len(outs))
			}

			for i, o := range outs {
				if o.Err != nil || o.Record.Rev != want[i].Rev || o.Record.Holder != want[i].Holder {
					r.Fatalf("round %d: Refresh shows %q, %d of %d, at revision %q, %v, want %q",
						round, names[i], i, n, o.Record.Rev, o.Err, want[i].Rev)
				}
				known[i] = o.Record
			}
		}
	}},
	{"a_refresh_finds_odd_names", func(r *rig) {
		s := r.client()
		refresher := r.refresher(s)
		r.fill(s, oddNames)
		var known []driver.Record
		for _, name := range oddNames {
			known = append(known, driver.Record{Name: name})
		}

		for round := range 2 {
			for i, o := range refresher.Refresh(r.ctx, known) {
				if o.Err != nil || o.Record.Name != oddNames[i] || o.Record.Rev == "" {
					r.Errorf("round %d: Refresh of %q = %q at revision %q, %v", round, oddNames[i], o.Record.Name,
						o.Record.Rev, o.Err)
				}
				known[i] = o.Record
			}
		}
	}},
	{"a_refresh_may_name_a_register_twice", func(r *rig) {
		s := r.client()
		refresher := r.refresher(s)
		old := r.swap(s, taken("seat", 1))
		now := r.swap(s, handed(old, "b"))
		other := r.swap(s, taken("other", 1))
		known := []driver.Record{old, now, other, {Name: "seat"}, now, {Name: "none"}, {Name: "none"}, old}
		outs := refresher.Refresh(r.ctx, known)
		if len(outs) != len(known) {
			r.Fatalf("Refresh of %d has %d outcomes", len(known), len(outs))
		}

		for i, o := range outs {
			switch known[i].Name {
			case "seat":
				r.wantOutcome(o, now)
			case "other":
				r.wantOutcome(o, other)
			default:
				if !errors.Is(o.Err, driver.ErrNotFound) {
					r.Errorf("Refresh of a name that was never written, twice, = %+v, %v, want ErrNotFound", o.Record,
						o.Err)
				}
			}
		}
	}},
	{"a_refresh_shows_what_was_answered_before", func(r *rig) {
		a, b := r.client(), r.client()
		refresher := r.refresher(b)
		known := taken("seat", 1)
		for range 40 {
			l := r.swap(a, known)
			for _, o := range refresher.Refresh(r.ctx, []driver.Record{known}) {
				if o.Err != nil || o.Record.Rev != l.Rev {
					r.Fatalf("Refresh shows revision %q, %v after %q was answered", o.Record.Rev, o.Err, l.Rev)
				}
			}
			known = renewed(l)
		}
	}},
	{"a_history_of_refreshes_is_linearizable", func(r *rig) {
		all := r.clients(3)
		r.refresher(all[0])
		r.wantLinearizable(2, func(i int) driver.Store {
			s := all[i%3]
			return refreshing{Store: s, Refresher: s.(driver.Refresher), known: map[string]driver.Record{}}
		})
	}},
	{"a_refresh_ends_with_its_context", func(r *rig) {
		s := r.client()
		refresher := r.refresher(s)
		l := r.swap(s, taken("seat", 1))
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		r.mustReturn("a refresh after its context has ended", func() {
			outs := refresher.Refresh(ctx, []driver.Record{l, {Name: "none"}})
			if len(outs) != 2 {
				r.Fatalf("Refresh of 2 has %d outcomes", len(outs))
			}

			for _, o := range outs {
				if !errors.Is(o.Err, context.Canceled) || errors.Is(o.Err, driver.ErrNotFound) {
					r.Errorf("Refresh after its context has ended: %+v, %v, want context.Canceled alone", o.Record,
						o.Err)
				}
			}
		})

		for i := range 60 {
			ctx, cancel := context.WithCancel(r.ctx)
			stop := time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
			r.mustReturn("refreshes that are cancelled", func() {
				for ctx.Err() == nil {
					for _, o := range refresher.Refresh(ctx, []driver.Record{l}) {
						if o.Err != nil && !errors.Is(o.Err, context.Canceled) {
							r.Errorf("a cancelled Refresh failed with %v, want context.Canceled", o.Err)
						}
					}
				}
			})

			stop.Stop()
			cancel()
		}
	}},
	{"a_closed_store_refreshes_nothing", func(r *rig) {
		s := r.client()
		refresher := r.refresher(s)
		l := r.swap(s, taken("seat", 1))
		if err := s.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}

		r.mustReturn("a refresh after Close", func() {
			outs := refresher.Refresh(r.ctx, []driver.Record{l, {Name: "none"}})
			if len(outs) != 2 {
				r.Fatalf("Refresh of 2 has %d outcomes", len(outs))
			}

			for _, o := range outs {
				if !errors.Is(o.Err, driver.ErrClosed) {
					r.Errorf("Refresh after Close: %+v, %v, want ErrClosed", o.Record, o.Err)
				}
			}
		})
	}},
	{"a_refresh_shows_an_expired_record_as_vacant", func(r *rig) {
		s := r.client()
		refresher := r.refresher(s)
		l := taken("brief", 1)
		l.Duration = brief
		l = r.swap(s, l)
		<-time.After(3 * brief) // without a read, which might make it vacant
		outs := refresher.Refresh(r.ctx, []driver.Record{l})
		r.wantOutcome(outs[0], r.get(s, "brief"))
	}},
}

// refreshing is a store whose Get is a Refresh of the last known record.
type refreshing struct {
	driver.Store
	driver.Refresher
	known map[string]driver.Record
}

func (s refreshing) Get(ctx context.Context, name string) (driver.Record, error) {
	known := s.known[name]
	known.Name = name
	o := s.Refresh(ctx, []driver.Record{known})[0]
	if o.Err == nil {
		s.known[name] = o.Record
	}
	return o.Record, o.Err
}

// wantOutcome wants an outcome to show a record.
func (r *rig) wantOutcome(o driver.Outcome, want driver.Record) {
	r.Helper()
	if o.Err != nil {
		r.Errorf("Refresh of %q: %v", want.Name, o.Err)
		return
	}
	if diff := differ(want, o.Record); diff != "" || o.Record.Rev != want.Rev {
		r.Errorf("Refresh shows %q at revision %q, want %q;%s", want.Name, o.Record.Rev, want.Rev, diff)
	}
}

// refresher returns s as a Refresher, or skips the test.
func (r *rig) refresher(s driver.Store) driver.Refresher {
	r.Helper()
	refresher, ok := s.(driver.Refresher)
	if !ok {
		r.Skip("the store is no Refresher")
	}
	return refresher
}
