package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// any age: no register is so old.
const anyAge = time.Hour

var skimChecks = []check{
	{"skim_yields_every_register_once_with_its_current_revision", func(r *rig) {
		a, b := r.client(), r.client()
		r.skimmer(b)
		var names []string
		for i := range 40 {
			names = append(names, fmt.Sprintf("seat/%02d", i))
		}

		r.fill(a, append(names, "other"))
		for round := range 3 {
			seen := r.skim(b, "seat/", anyAge)
			if len(seen) != len(names) {
				r.Errorf("Skim in round %d yields %d registers, want %d", round, len(seen), len(names))
			}

			for _, name := range names {
				l := r.get(a, name)
				if got := seen[name]; got.Rev != l.Rev {
					r.Errorf("Skim in round %d shows %q at revision %q, Get at %q", round, name, got.Rev, l.Rev)
				}

				r.swap(a, renewed(l)) // which the next round must show, however old a record may be
			}
		}
	}},
	{"skim_shows_a_register_that_was_written_since", func(r *rig) {
		a, b := r.client(), r.client()
		r.skimmer(b)
		r.swap(a, taken("seat/1", 1))
		r.skim(b, "seat/", anyAge)
		l := r.swap(a, taken("seat/2", 1))
		if got := r.skim(b, "seat/", anyAge)["seat/2"]; got.Rev != l.Rev || got.Holder != l.Holder {
			r.Errorf("Skim shows %+v, want %+v", got, l)
		}
	}},
	{"skim_shows_no_record_that_is_older_than_asked_for", func(r *rig) {
		a, b := r.client(), r.client()
		r.skimmer(b)
		l := r.swap(a, taken("seat", 1))
		r.skim(b, "", anyAge)
		for i := range 5 {
			l = renewed(l)
			l.Data = fmt.Appendf(nil, "%d", i) // of one length
			l = r.swap(a, l)
			got := r.skim(b, "", time.Nanosecond)["seat"]
			if got.Nonce != l.Nonce || string(got.Data) != string(l.Data) {
				r.Errorf("Skim shows nonce %d and data %q, want %d and %q", got.Nonce, got.Data, l.Nonce, l.Data)
			}
		}
	}},
	{"a_list_after_a_skim_shows_records_as_they_are", func(r *rig) {
		a, b := r.client(), r.client()
		r.skimmer(b)
		l := r.swap(a, taken("seat", 1))
		r.skim(b, "", anyAge)
		l = r.swap(a, renewed(l))
		r.skim(b, "", anyAge)
		if got := r.list(b, "")["seat"]; got.Nonce != l.Nonce || got.Rev != l.Rev {
			r.Errorf("List shows nonce %d at %q, want %d at %q", got.Nonce, got.Rev, l.Nonce, l.Rev)
		}

		if got := r.get(b, "seat"); got.Nonce != l.Nonce || got.Rev != l.Rev {
			r.Errorf("Get shows nonce %d at %q, want %d at %q", got.Nonce, got.Rev, l.Nonce, l.Rev)
		}
	}},
	{"a_skim_may_be_broken_off_and_ends_with_its_context", func(r *rig) {
		s := r.client()
		skimmer := r.skimmer(s)
		r.fill(s, []string{"seat/1", "seat/2", "seat/3"})
		seen := 0
		for range skimmer.Skim(r.ctx, "seat/", anyAge) {
			seen++
			break
		}

		ended, cancel := context.WithCancel(r.ctx)
		cancel()
		failed := false
		for _, err := range skimmer.Skim(ended, "seat/", anyAge) {
			failed = err != nil
		}

		if seen != 1 || !failed {
			r.Errorf("Skim that is broken off yields %d registers; one whose context has ended fails: %v", seen, failed)
		}
	}},
}

var rangeChecks = []check{
	{"list_before_shows_every_register_with_a_smaller_name", func(r *rig) {
		s := r.client()
		ranger, ok := s.(driver.Ranger)
		if !ok {
			r.Skip("the store is no Ranger")
		}

		r.fill(s, append([]string{"seat/a", "seat/b", "seat/c", "seat/d"}, oddNames...))
		for _, before := range append([]string{"seat/c", "seat/a", "zzz"}, oddNames...) {
			listed := map[string]string{}
			for l, err := range ranger.ListBefore(r.ctx, "", before) {
				if err != nil {
					r.Fatalf("ListBefore(%q): %v", before, err)
				}

				listed[l.Name] = l.Rev
			}

			for name, l := range r.list(s, "") {
				if name < before && listed[name] != l.Rev {
					r.Errorf("ListBefore(%q) shows %q at %q, List at %q", before, name, listed[name], l.Rev)
				}
			}
		}
	}},
}

// skimmer returns s as a Skimmer, or skips the test.
func (r *rig) skimmer(s driver.Store) driver.Skimmer {
	r.Helper()
	if skimmer, ok := s.(driver.Skimmer); ok {
		return skimmer
	}

	r.Skip("the store is no Skimmer")
	return nil
}

// skim returns what a skim yields, by name.
func (r *rig) skim(s driver.Store, prefix string, age time.Duration) map[string]driver.Record {
	r.Helper()
	all := map[string]driver.Record{}
	for l, err := range r.skimmer(s).Skim(r.ctx, prefix, age) {
		if err != nil {
			r.Fatalf("Skim(%q): %v", prefix, err)
		}

		if _, ok := all[l.Name]; ok {
			r.Errorf("Skim(%q) yields %q twice", prefix, l.Name)
		}

		if !strings.HasPrefix(l.Name, prefix) {
			r.Errorf("Skim(%q) yields %q", prefix, l.Name)
		}

		all[l.Name] = l
	}

	return all
}
