package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/regentd/regent/driver"
)

var listChecks = []check{
	{"list_yields_what_begins_with_the_prefix", func(r *rig) {
		s := r.client()
		r.fill(s, oddNames)

		// Every name is a prefix too, and so is every name without its last letter.
		prefixes := map[string]bool{"": true, "none": true, "a%": true, "a_": true, "a*": true, "se?t": true,
			"[a-z]": true, ".*": true, "A": true, "S": true}
		for _, name := range oddNames {
			runes := []rune(name)
			prefixes[name], prefixes[string(runes[:len(runes)-1])] = true, true
		}

		for prefix := range prefixes {
			got := r.list(s, prefix)
			for _, name := range oddNames {
				if _, listed := got[name]; listed != strings.HasPrefix(name, prefix) {
					r.Errorf("List(%q) yields %q: %v, want %v", prefix, name, listed, !listed)
				}
				delete(got, name)
			}

			for name := range got {
				r.Errorf("List(%q) yields %q, which nobody wrote", prefix, name)
			}
		}
	}},
	{"list_yields_every_register_once", func(r *rig) {
		n := 1100 // more than a page of any store
		if testing.Short() {
			n = 120
		}

		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("seat/%d", i)
		}

		a, b := r.client(), r.client()
		r.fill(a, names)
		listed := r.list(b, "seat/")
		for _, name := range names {
			if _, ok := listed[name]; !ok {
				r.Fatalf("List misses %q, with %d of %d registers", name, len(listed), n)
			}
		}

		for name := range listed {
			if got := r.get(a, name); got.Rev != listed[name].Rev {
				r.Errorf("List shows %q at revision %q, Get at %q", name, listed[name].Rev, got.Rev)
			}
			break
		}

		if got := r.list(b, "seat/1/"); len(got) != 0 {
			r.Errorf("List of nothing yields %d registers", len(got))
		}
	}},
	{"list_under_change_yields_once_what_stays", func(r *rig) {
		const n = 120
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("seat/%03d", i), fmt.Sprintf("seat/%03d+", i))
		}

		all := r.clients(3)
		r.fill(all[0], names)

		// Half of the registers stay unchanged, the other half change during the list, and more are created.
		ctx, cancel := context.WithCancel(r.ctx)
		var churn sync.WaitGroup
		for w := range 2 {
			churn.Go(func() {
				for i := w; ctx.Err() == nil; i += 2 {
					if l, err := all[w].Get(ctx, fmt.Sprintf("seat/%03d+", i%n)); err == nil {
						all[w].Swap(ctx, renewed(l))
					}
					if i < 4*n {
						all[w].Swap(ctx, taken(fmt.Sprintf("seat/%03d-%d", i%n, i), 1))
					}
				}
			})
		}

		r.mustReturn("lists under change", func() {
			defer churn.Wait()
			defer cancel()

			for range 20 {
				listed := r.list(all[2], "seat/")
				for i := range n {
					if _, ok := listed[names[2*i]]; !ok {
						r.Errorf("List under change misses %q, which did not change", names[2*i])
						return
					}
				}
			}
		})
	}},
	{"a_list_may_be_broken_off", func(r *rig) {
		s := r.client()
		names := make([]string, 50)
		for i := range names {
			names[i] = fmt.Sprintf("seat/%d", i)
		}

		r.fill(s, names)
		r.mustReturn("lists that are broken off", func() {
			for i := range 40 {
				seen := 0
				for _, err := range s.List(r.ctx, "seat/") {
					if err != nil {
						r.Errorf("List: %v", err)
					}
					seen++
					if seen > i%3 {
						break
					}
				}

				if seen != i%3+1 {
					r.Errorf("List went on for %d registers", seen)
				}
			}

			l := r.get(s, "seat/1")
			r.swap(s, renewed(l))
		})

		r.mustReturn("a swap of every register while it is listed", func() {
			for l, err := range s.List(r.ctx, "seat/") {
				if err != nil {
					r.Errorf("List: %v", err)
					return
				}
				if _, err := s.Swap(r.ctx, renewed(l)); err != nil {
					r.Errorf("Swap of a register that is being listed: %v", err)
				}
			}
		})

		r.mustReturn("a list whose context ends", func() {
			ctx, cancel := context.WithCancel(r.ctx)
			defer cancel()

			for _, err := range s.List(ctx, "seat/") {
				cancel()
				if err != nil && !errors.Is(err, context.Canceled) {
					r.Errorf("List whose context ends: %v, want context.Canceled", err)
				}
			}
		})

		r.get(s, "seat/1")
	}},
	{"an_error_without_a_name_ends_a_list", func(r *rig) {
		s := r.client()
		r.fill(s, []string{"seat/1", "seat/2", "seat/3"})
		ended, cancel := context.WithCancel(r.ctx)
		cancel()
		ends := func(what string, ctx context.Context, s driver.Store) {
			r.Helper()
			failed := false
			for l, err := range s.List(ctx, "seat/") {
				switch {
				case failed:
					r.Fatalf("List %s goes on after its error, with %q, %v", what, l.Name, err)
				case err != nil && l.Name != "":
					r.Errorf("List %s blames register %q: %v", what, l.Name, err)
				}
				failed = err != nil
			}

			if !failed {
				r.Errorf("List %s has no error", what)
			}
		}

		ends("whose context has ended", ended, s)
		closed := r.client()
		if err := closed.Close(); err != nil {
			r.Errorf("Close: %v", err)
		}

		ends("of a closed store", r.ctx, closed)
	}},
	{"list_shows_what_was_answered_before", func(r *rig) {
		a, b := r.client(), r.client()
		l := taken("seat", 1)
		for range 40 {
			l = r.swap(a, l)
			if got := r.list(b, "")["seat"]; got.Rev != l.Rev {
				r.Fatalf("List shows revision %q after %q was answered", got.Rev, l.Rev)
			}
			l = renewed(l)
		}
	}},
}
