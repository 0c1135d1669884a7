package storetest

import (
	"github.com/regentd/regent/driver"
)

var revisionChecks = []check{
	{"no_revision_is_used_twice", func(r *rig) {
		all := r.clients(2)
		seen := map[string]bool{}
		note := func(rev string) {
			if seen[rev] {
				r.Fatalf("revision %q was used twice", rev)
			}
			seen[rev] = true
		}

		// A, B, A, B, ...: the records are equal, the revisions must not be. Otherwise a swap prepared on the first A
		// succeeds on the second.
		l := r.swap(all[0], taken("seat", 1))
		first := l
		note(l.Rev)

		for i := range 40 {
			l.Nonce = uint64(1 + (i+1)%2)
			l = r.swap(all[i%2], l)
			note(l.Rev)
		}

		r.wantConflict(all[0], renewed(first))
		// An unchanged record gets a new revision as well: a renewal may change nothing else.
		for range 3 {
			l = r.swap(all[0], l)
			note(l.Rev)
		}
	}},
	{"a_restart_keeps_registers_and_revisions", func(r *rig) {
		seen := map[string]bool{}
		var l driver.Record
		for restart := range 4 {
			s, err := r.open()
			if err != nil {
				r.Fatalf("open a client again: %v", err)
			}

			if restart == 0 {
				l = full()
				l.Name = "seat"
			} else {
				got := r.get(s, "seat")
				if diff := differ(l, got); diff != "" || got.Rev != l.Rev {
					r.Errorf("after a restart the revision is %q, want %q;%s", got.Rev, l.Rev, diff)
				}
				if n := len(r.list(s, "")); n != 1 {
					r.Errorf("after a restart List yields %d registers, want 1", n)
				}
			}

			for range 5 {
				l = r.swap(s, l)
				if seen[l.Rev] {
					r.Errorf("revision %q was used again after a restart", l.Rev)
				}
				seen[l.Rev] = true
			}

			if err := s.Close(); err != nil {
				r.Errorf("close a client: %v", err)
			}
		}
	}},
}
