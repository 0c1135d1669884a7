package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestSeek is about lists that end at the first better candidate.
func TestSeek(t *testing.T) {
	t.Run("a_list_ends_at_the_first_better_candidate", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		for _, id := range []string{"b", "c", "x"} {
			r.put(candidate(id, ""))
		}

		r.start()
		r.run(1100 * time.Millisecond)
		equal(t, "members taken in", len(r.c.roster.byName), 1)
		equal(t, "terms", len(every[Begin](r)), 0)
		equal(t, "lists", len(sends(r, List)), 1)
	})

	t.Run("a_list_shows_no_larger_id_and_the_smallest_claims_by_it", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		for _, id := range []string{"x", "y"} {
			r.put(candidate(id, ""))
		}

		r.start()
		r.run(1100 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), 1)
		equal(t, "members taken in", len(r.c.roster.byName), 0)
		equal(t, "a whole list is known", r.c.roster.known, false)
	})

	t.Run("one_that_has_expired_is_passed_over", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		r.put(candidate("b", ""))
		r.start()
		r.run(1100 * time.Millisecond)
		equal(t, "better candidate", r.c.outrankedLately(r.c.elections.all[0]), true)

		r.put(candidate("c", ""))
		r.c.roster.peers.all[0].since -= Time(time.Minute) // since then it was silent
		r.run(time.Second)
		r.c.listBetter(r.c.elections.all[0], false)
		r.forget()
		r.run(0)
		list := sends(r, List)
		equal(t, "lists", len(list), 1)
		b := r.store[driver.MemberRegister("b")]
		c := r.store[driver.MemberRegister("c")]
		equal(t, "ends at the silent one", list[0].Seek.Found(&b), false)
		equal(t, "ends at the other", list[0].Seek.Found(&c), true)
		b.Rev = "another"
		equal(t, "ends at the silent one after a heartbeat", list[0].Seek.Found(&b), true)
	})

	t.Run("a_member_that_a_partial_list_does_not_show_is_kept", func(t *testing.T) {
		for _, rank := range []string{RankLexicographic, RankPriority} {
			r := newRig(t, ranked(rank))
			for _, id := range []string{"b", "c", "x"} {
				r.put(candidate(id, `,"priority":9`))
			}

			r.start()
			r.run(1100 * time.Millisecond)
			r.c.listSoon()
			r.run(0)
			equal(t, "members of the whole list", len(r.c.roster.byName), 3)

			r.run(time.Second)
			r.c.listBetter(r.c.elections.all[0], false)
			r.run(0)
			equal(t, "members", len(r.c.roster.byName), 3)
			equal(t, "the whole list is recent", r.c.recent(), false)
		}
	})

	t.Run("among_many_free_elections_all_members_are_listed_once", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		for i := range manyFree + 1 {
			r.step(Campaign{fmt.Sprint("more", i)})
		}

		r.put(candidate("x", ""))
		r.start()
		r.run(1100 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), manyFree+2)
		equal(t, "lists", len(sends(r, List)), 1)
	})

	t.Run("whoever_needs_all_members_gets_all", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		for _, id := range []string{"b", "c", "x"} {
			r.put(candidate(id, ""))
		}

		r.start()
		r.run(1100 * time.Millisecond)
		r.run(time.Second)
		r.c.listBetter(r.c.elections.all[0], false)
		r.c.listSoon()
		r.forget()
		r.run(0)
		equal(t, "lists", len(sends(r, List)), 1)
		equal(t, "members", len(r.c.roster.byName), 3)

		r.run(time.Second)
		r.c.listBetter(r.c.elections.all[0], false)
		r.step(Tick{}) // the list is under way
		r.c.listSoon()
		r.forget()
		r.serve()
		equal(t, "lists after the partial one", len(sends(r, List)), 1)
		equal(t, "the whole list is recent", r.c.recent(), true)
	})

	t.Run("a_partial_list_that_nobody_asked_for_is_none", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		r.put(candidate("b", ""))
		r.start()
		r.run(1100 * time.Millisecond)
		r.c.listSoon()
		r.step(Tick{})
		r.step(Answer{ID: r.c.roster.call.id, Outcome: Done, Partial: true, Records: r.members()})
		equal(t, "the whole list is recent", r.c.recent(), true)
	})

	t.Run("the_encoding_tells_seeks_apart", func(t *testing.T) {
		r := newRig(t, ranked(RankLexicographic))
		r.put(candidate("b", ""))
		r.start()
		r.run(2 * time.Second)
		r.c.listBetter(r.c.elections.all[0], false)
		r.step(Tick{})
		r.c.elections.all[0].betterAt = r.now
		r.c.listBetter(r.c.elections.all[0], false)
		r.c.roster.coming = r.members()
		base := string(r.c.Encode(nil, r.now, plain{}))
		for name, change := range map[string]func(c *Core){
			"a_better_one_was_not_found": func(c *Core) { c.elections.all[0].betterAt = 0 },
			"it_was_the_best":            func(c *Core) { c.elections.all[0].bestAt = r.now },
			"a_list_is_sought":           func(c *Core) { c.roster.seek = nil },
			"a_list_is_under_way":        func(c *Core) { c.roster.sought = &Seek{election: "other"} },
			"somebody_else_released":     func(c *Core) { c.roster.sought = &Seek{election: election1, but: other} },
			"one_is_dead": func(c *Core) {
				s := *c.roster.sought
				s.dead = map[string]string{"regent/member/b": "1"}
				c.roster.sought = &s
			},
			"it_was_partial": func(c *Core) { c.roster.partial = !c.roster.partial },
		} {
			c := r.c.Clone(&counter{last: 1000})
			change(c)
			if base == string(c.Encode(nil, r.now, plain{})) {
				t.Errorf("%s: it is encoded alike", name)
			}
		}
	})
}

// sends returns the requests of a kind that a core has sent.
func sends(r *rig, verb Verb) []Send {
	var all []Send
	for _, s := range every[Send](r) {
		if s.Verb == verb {
			all = append(all, s)
		}
	}

	return all
}
