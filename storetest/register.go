package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/regentd/regent/driver"
)

var registerChecks = []check{
	{"an_unwritten_register_is_not_found", func(r *rig) {
		s := r.client()
		r.swap(s, taken("other", 1))
		for _, name := range []string{"none", "othe", "other/", "regent/member/none"} {
			if l, err := s.Get(r.ctx, name); !errors.Is(err, driver.ErrNotFound) {
				r.Errorf("Get(%q) = %+v, %v, want ErrNotFound", name, l, err)
			}
		}
	}},
	{"a_swap_answers_with_its_record_and_a_new_revision", func(r *rig) {
		s := r.client()
		l := taken("seat", 1)
		for range 3 {
			got := r.swap(s, l)
			if diff := differ(l, got); diff != "" {
				r.Errorf("Swap answered another record: %s", diff)
			}

			if got.Rev == "" || got.Rev == l.Rev {
				r.Errorf("Swap at revision %q answered revision %q", l.Rev, got.Rev)
			}

			if read := r.get(s, "seat"); read.Rev != got.Rev {
				r.Errorf("Swap answered revision %q, Get shows %q", got.Rev, read.Rev)
			}

			l = renewed(got)
		}
	}},
	{"a_swap_is_seen_by_every_client", func(r *rig) {
		all := r.clients(3)
		l := taken("seat", 1)
		for i := range 60 {
			l = r.swap(all[i%3], l)
			for j, s := range all {
				if got := r.get(s, "seat"); got.Nonce != l.Nonce || got.Rev != l.Rev {
					r.Fatalf("client %d wrote nonce %d at revision %q, then client %d read nonce %d at revision %q",
						i%3, l.Nonce, l.Rev, j, got.Nonce, got.Rev)
				}
			}
			l = renewed(l)
		}
	}},
	{"a_stale_revision_is_refused", func(r *rig) {
		a, b := r.client(), r.client()
		first := r.swap(a, taken("seat", 1))
		second := r.swap(b, renewed(first))
		r.wantConflict(a, handed(first, "b"))
		r.wantConflict(b, handed(first, "b"))
		third := r.swap(a, renewed(second))
		r.wantConflict(b, handed(first, "b"))
		r.wantConflict(b, handed(second, "b"))
		r.swap(b, renewed(third))
	}},
	{"an_empty_revision_is_refused_on_a_written_register", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, taken("seat", 1))
		r.wantConflict(a, handed(taken("seat", 2), "b"))
		r.wantConflict(b, handed(taken("seat", 3), "b"))

		// A vacant register has been written too.
		r.swap(a, driver.Record{Name: "seat", Rev: l.Rev, Epoch: 1, Nonce: 4, Duration: l.Duration})
		r.wantConflict(b, handed(taken("seat", 5), "b"))
	}},
	{"a_revision_does_not_fit_an_unwritten_register", func(r *rig) {
		s := r.client()
		l := r.swap(s, taken("seat", 1))
		l.Name = "other"
		r.wantConflict(s, l)
	}},
	{"an_edit_may_keep_the_nonce", func(r *rig) {
		a, b := r.client(), r.client()
		l := r.swap(a, taken("seat", 7))
		l.Next = "b"
		edited := r.swap(b, l)
		if edited.Rev == l.Rev {
			r.Errorf("an edit kept revision %q", l.Rev)
		}

		got := r.get(a, "seat")
		if got.Next != "b" || got.Nonce != 7 {
			r.Errorf("after an edit the record is %+v, want Next b and nonce 7", got)
		}

		r.wantConflict(a, renewed(l))
	}},
	{"registers_do_not_disturb_one_another", func(r *rig) {
		all := r.clients(4)
		r.together(16, func(i int) {
			s, l := all[i%4], taken(fmt.Sprintf("seat/%d", i), 1)
			for range 20 {
				got, err := s.Swap(r.ctx, l)
				if err != nil {
					r.Errorf("Swap(%q), which nobody else writes: %v", l.Name, err)
					return
				}
				l = renewed(got)
			}
		})

		for i := range 16 {
			if got := r.get(all[0], fmt.Sprintf("seat/%d", i)); got.Nonce != 20 {
				r.Errorf("%q ended at nonce %d, want 20", got.Name, got.Nonce)
			}
		}
	}},
	{"odd_names_are_registers_of_their_own", func(r *rig) {
		a, b := r.client(), r.client()
		for i, name := range oddNames {
			if !driver.ValidName(name) {
				r.Fatalf("the suite's name %q is not valid", name)
			}
			if got, err := a.Swap(r.ctx, taken(name, uint64(i))); err != nil || got.Name != name {
				r.Errorf("Swap(%q) = name %q, %v", name, got.Name, err)
			}
		}

		listed := r.list(b, "")
		for i, name := range oddNames {
			got, err := b.Get(r.ctx, name)
			if err != nil || got.Name != name || got.Nonce != uint64(i) {
				r.Errorf("Get(%q) = name %q, nonce %d, %v, want nonce %d", name, got.Name, got.Nonce, err, i)
			}
			if l, ok := listed[name]; !ok || l.Nonce != uint64(i) {
				r.Errorf("List shows %q: %v with nonce %d, want nonce %d", name, ok, l.Nonce, i)
			}
		}

		if len(listed) != len(oddNames) {
			r.Errorf("List yields %d registers, want %d", len(listed), len(oddNames))
		}
	}},
}

// oddNames are valid names that a store might confuse, treat as a path or a pattern, or find too long.
var oddNames = []string{
	"seat", "Seat", "SEAT", "seat ", " seat", "seat/", "/seat", "seat.", ".seat", "seat//", "//seat",
	".", "..", "../seat", "a/../seat", "a/./b", "a/b", "a//b", "a/b/", "a", "a.b", "a:b", "a b", "a+b", "a%20b",
	"a%2Fb", "a\\b",
	"%", "_", "*", "?", "[a]", "{a}", "$a", "#a", "&a=b", "~", "-", "--", "<a>", "|", ";", ",", "=", "@", "!", "^", "`",
	`"`, `'`, `''`, `\`, `\\`, `'; DROP TABLE leases; --`, "null", "0", "-1", "true",
	"é", "e\u0301", "ß", "ss", "İ", "i", "I", "日本", "🦉", "\u00a0", "\ufeff", "\u200b", "\ufffd", "a\u2028b",
	strings.Repeat("x", 250), strings.Repeat("x", 249), strings.Repeat("x", 249) + "y",
	strings.Repeat("/", 250), strings.Repeat("%", 250), strings.Repeat("é", 125), strings.Repeat("日", 83),
	driver.MemberRegister("a"), driver.MemberRegister("A"), driver.MemberRegister("a/b"),
}
