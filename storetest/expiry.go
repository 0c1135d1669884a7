package storetest

import (
	"errors"
	"time"

	"github.com/regentd/regent/driver"
)

// brief is a lease that expires within a test. Only a store that expires records by itself honours it.
const brief = 300 * time.Millisecond

// These checks hold for every store: one that does not expire records keeps them unchanged.
var expiryChecks = []check{
	{"a_record_that_runs_out_is_kept_or_vacant", func(r *rig) {
		s := r.client()
		l, expired := r.awaitExpiry(s, func(l driver.Record) driver.Record { return l })
		if !expired {
			if _, err := s.Swap(r.ctx, renewed(l)); err != nil {
				r.Errorf("the store does not expire records, yet refuses a late renewal: %v", err)
			}
			return
		}

		r.wantConflict(s, renewed(l))
		vacant := r.get(s, l.Name)
		if again := r.get(s, l.Name); again.Rev != vacant.Rev {
			r.Errorf("an expired record shows revision %q, then %q", vacant.Rev, again.Rev)
		}

		if vacant.Rev == l.Rev || vacant.Rev == "" {
			r.Errorf("an expired record shows revision %q, want one of its own", vacant.Rev)
		}

		want := driver.Record{Epoch: l.Epoch, Past: l.Past}
		for from, got := range map[string]driver.Record{"Get": vacant, "List": r.list(s, "")[l.Name]} {
			if diff := differ(want, driver.Record{Holder: got.Holder, Epoch: got.Epoch, Past: got.Past}); diff != "" ||
				got.Rev != vacant.Rev {
				r.Errorf("%s shows an expired record at revision %q with:%s", from, got.Rev, diff)
			}
		}

		r.swap(s, handed(vacant, "b"))
	}},
	{"an_edit_does_not_keep_a_record_alive", func(r *rig) {
		s := r.client()
		if _, expires := r.awaitExpiry(s, func(l driver.Record) driver.Record { return l }); !expires {
			r.Skip("the store does not expire records")
		}

		for range 5 {
			last, gap := time.Now(), time.Duration(0)
			l, expired := r.awaitExpiry(s, func(l driver.Record) driver.Record {
				gap, last = max(gap, time.Since(last)), time.Now()
				l.Next += "b"
				next, err := s.Swap(r.ctx, l)
				if errors.Is(err, driver.ErrConflict) {
					return l
				} else if err != nil {
					r.Fatalf("edit: %v", err)
				}
				return next
			})

			switch gap = max(gap, time.Since(last)); {
			case !expired:
				r.Fatalf("a record of %v lives on by edits alone: %+v", brief, l)
			case gap < brief:
				return
			}
		}

		r.Skip("this machine is too busy: edits came too far apart to tell")
	}},
	{"a_record_kept_alive_by_another_does_not_run_out", func(r *rig) {
		s := r.client()
		l := taken("seat", 1)
		l.Duration, l.Via = brief, driver.MemberRegister("a")
		l = r.swap(s, l)
		r.awaitExpiry(s, func(other driver.Record) driver.Record { return other })
		if got := r.get(s, "seat"); got.Holder != l.Holder || got.Rev != l.Rev {
			r.Errorf("a record with Via became %+v on its own", got)
		}
	}},
}

// awaitExpiry writes a brief record and waits until it expires. Meanwhile it calls each with the latest record. It
// returns the last record that was held, and whether it has expired.
func (r *rig) awaitExpiry(s driver.Store, each func(driver.Record) driver.Record) (held driver.Record, expired bool) {
	r.Helper()
	l := taken("brief", 1)
	l.Epoch = 7
	l.Duration = brief
	l.Past = full().Past[:2]
	if old, err := s.Get(r.ctx, l.Name); err == nil {
		l.Rev = old.Rev
	}

	held = r.swap(s, l)
	tick := time.NewTicker(brief / 15)
	defer tick.Stop()

	for end := time.After(3 * brief); ; {
		select {
		case <-end: // both may be ready on a slow machine
			return held, r.get(s, l.Name).Vacant()
		case <-tick.C:
		}

		got := r.get(s, l.Name)
		if got.Vacant() {
			return held, true
		}

		if diff := differ(held, got); diff != "" || held.Rev != got.Rev {
			r.Fatalf("a record changed by itself from revision %q to %q:%s", held.Rev, got.Rev, diff)
		}

		held = each(got)
	}
}
