package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// Who claims a free election, and who is waited for.

// candidate returns the register of another member that runs for an election, with more to say of itself.
func candidate(id, more string) driver.Record {
	r := beating(driver.Identity{ID: id, Incarnation: "1." + id}, 70)
	r.Data = []byte(`{"eligible":true,"healthy":true,"elections":["` + election1 + `"]` + more + `}`)
	return r
}

func ranked(rank string) Config {
	cfg := clusterConfig()
	cfg.ID = "m"
	cfg.Rank = rank
	cfg.Priority = 3
	cfg.Region = "us"
	cfg.Latency = 20 * time.Millisecond
	return cfg
}

// claimsAfter returns when a member that is started now begins its first term.
func (r *rig) claimsAfter() time.Duration {
	r.t.Helper()
	r.start()
	r.serve()
	from := r.now
	for range 1000 {
		if len(every[Begin](r)) > 0 {
			return time.Duration(r.now - from)
		}
		r.run(10 * time.Millisecond)
	}
	r.t.Fatalf("no term begins: %s", r.list())
	return 0
}

func TestRank(t *testing.T) {
	const interval = 1500 * time.Millisecond
	cold := time.Second // under rank lexicographic others may still have to join

	for _, tt := range []struct {
		name, rank string
		other      driver.Record
		want       time.Duration
	}{
		{"first_waits_for_nobody", RankFirst, candidate("b", `,"priority":9,"region":"eu"`), 0},
		{"an_empty_rank_is_first", "", candidate("b", `,"priority":9,"region":"eu"`), 0},
		{"a_smaller_id_comes_first", RankLexicographic, candidate("b", ""), cold + interval},
		{"a_larger_id_does_not", RankLexicographic, candidate("x", ""), cold},
		{"a_higher_priority_comes_first", RankPriority, candidate("x", `,"priority":4`), interval},
		{"an_equal_priority_does_not", RankPriority, candidate("b", `,"priority":3`), 0},
		{"a_lower_priority_does_not", RankPriority, candidate("b", `,"priority":-9223372036854775808`), 0},
		{"a_preferred_region_comes_first", RankRegion + ":eu,us", candidate("x", `,"region":"eu"`), interval},
		{"the_same_region_does_not", RankRegion + ":eu,us", candidate("b", `,"region":"us"`), 0},
		{"N02_a_lower_latency_comes_first", RankLatency, candidate("x", `,"latencyMs":19.9`), interval},
		{"N02_an_equal_latency_does_not", RankLatency, candidate("b", `,"latencyMs":20`), 0},
		{"N02_a_higher_latency_does_not", RankLatency, candidate("b", `,"latencyMs":20.1`), 0},
		{"N02_a_latency_that_is_not_measured_does_not", RankLatency, candidate("b", ""), 0},
		{"N02_a_latency_below_0_does_not", RankLatency, candidate("b", `,"latencyMs":-1`), 0},
		{"N02_a_latency_beyond_all_bounds_does_not", RankLatency, candidate("b", `,"latencyMs":1e300`), 0},
		{"a_region_that_is_not_listed_does_not", RankRegion + ":us", candidate("b", `,"region":"eu"`), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, ranked(tt.rank))
			r.put(tt.other)
			equal(t, "claims after", r.claimsAfter(), tt.want)
		})
	}

	t.Run("nobody_waits_for_one_who_would_not_claim", func(t *testing.T) {
		better := func(change func(*driver.Record)) driver.Record {
			r := candidate("x", `,"priority":9`)
			change(&r)
			return r
		}
		for name, rec := range map[string]driver.Record{
			"unhealthy": better(func(r *driver.Record) {
				r.Data = []byte(`{"eligible":true,"elections":["e"],"priority":9}`)
			}),
			"ineligible": better(func(r *driver.Record) {
				r.Data = []byte(`{"healthy":true,"elections":["e"],"priority":9}`)
			}),
			"elsewhere": better(func(r *driver.Record) {
				r.Data = []byte(`{"eligible":true,"healthy":true,"elections":["f"],"priority":9}`)
			}),
			"unreadable": better(func(r *driver.Record) { r.Data = r.Data[1:] }),
			"gone":       better(func(r *driver.Record) { r.Holder = driver.Identity{} }),
			"expired":    better(func(r *driver.Record) { r.Duration = 0 }),
			"no member":  better(func(r *driver.Record) { r.Name += "y" }),
		} {
			r := newRig(t, ranked(RankPriority))
			r.put(rec)
			equal(t, name, r.claimsAfter(), 0)
		}
	})

	t.Run("a_candidate_for_more_elections_than_it_lists_is_one_for_all", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		rec := candidate("x", "")
		rec.Data = []byte(`{"eligible":true,"healthy":true,"elections":["*"],"priority":9}`)
		r.put(rec)
		equal(t, "claims after", r.claimsAfter(), interval)
	})

	t.Run("the_run_that_has_just_released_the_election_is_not_waited_for", func(t *testing.T) {
		run := driver.Identity{ID: "x", Incarnation: "1.x"}
		for want, who := range map[time.Duration]driver.Identity{0: run, interval: {ID: "x",
			Incarnation: "of a lease"}} {
			r := newRig(t, ranked(RankPriority))
			via := driver.MemberRegister("x")
			if who != run {
				r.c.cfg.OwnLease = true
				via = ""
			}
			r.put(candidate("x", `,"priority":9`))
			r.put(held(who, 3, via))
			r.start()
			r.run(time.Second)

			released := driver.Record{Name: election1, Epoch: 3, Nonce: 5, Duration: 6 * time.Second}
			r.put(released)
			r.step(Notice{driver.Record{Name: election1}})
			r.serve()
			equal(t, "terms at once", len(every[Begin](r)) == 1, want == 0)
			r.run(want)
			equal(t, "terms", len(every[Begin](r)), 1)
		}
	})

	t.Run("a_named_successor_does_not_wait", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.put(candidate("x", `,"priority":9`))
		r.put(driver.Record{Name: election1, Epoch: 3, Nonce: 5, Next: "m"})
		equal(t, "claims after", r.claimsAfter(), 0)
		equal(t, "lists", r.lists(), 0)
	})

	t.Run("a_ranked_member_does_not_claim_on_a_notification", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(time.Second)
		released := driver.Record{Name: election1, Rev: "99", Epoch: 3, Nonce: 5, Duration: 6 * time.Second}
		r.step(Notice{released})
		equal(t, "verb", r.take(election1).Verb, Get)
	})
}

func TestList(t *testing.T) {
	const interval = 1500 * time.Millisecond

	t.Run("nobody_waits_for_a_list_longer_than_for_a_better_candidate", func(t *testing.T) {
		for name, outcome := range map[string]Outcome{"unanswered": Done, "failed": Unknown} {
			r := newRig(t, ranked(RankPriority))
			r.start()
			var list Send
			for list.ID == 0 {
				if r.pending[0].Verb == List {
					list = r.take(driver.MemberPrefix)
					continue
				}
				s := r.take(r.pending[0].Record.Name)
				o, rec := r.apply(s)
				r.answer(s, o, rec)
			}
			if outcome != Done {
				r.answer(list, outcome, driver.Record{})
			}
			r.run(interval - 1)
			equal(t, name+": terms", len(every[Begin](r)), 0)
			r.run(1)
			equal(t, name+": terms", len(every[Begin](r)), 1)
			equal(t, name+": lists", r.lists(), 1)
		}
	})

	t.Run("a_list_that_is_never_answered_is_given_up", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.start()
		for r.pending[0].Verb != List {
			s := r.take(r.pending[0].Record.Name)
			o, rec := r.apply(s)
			r.answer(s, o, rec)
		}
		list := r.take(driver.MemberPrefix)
		r.run(ListTimeouts * list.Timeout)
		equal(t, "awaits", r.c.Awaits(list.ID), false)
	})

	t.Run("decisions_of_one_moment_need_one_list_and_later_ones_another", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		for i := range 10 {
			r.step(Campaign{fmt.Sprint("f", i)})
		}
		r.start()
		r.serve()
		equal(t, "terms", len(every[Begin](r)), 11)
		equal(t, "lists", r.lists(), 1)

		for i, want := range []int{1, 2} { // the first within half a second
			r.run(time.Duration(i) * 600 * time.Millisecond)
			r.step(Campaign{fmt.Sprint("g", i)})
			r.serve()
			equal(t, "lists", r.lists(), want)
		}
	})

	t.Run("nothing_is_listed_while_nothing_is_free", func(t *testing.T) {
		for _, cfg := range []Config{ranked(RankPriority), ranked(RankFirst)} {
			r := newRig(t, cfg)
			r.put(candidate("x", `,"priority":1`))
			r.lead()
			r.forget()
			r.run(10 * time.Minute)
			equal(t, "lists", r.lists(), 0)
		}
	})

	t.Run("a_better_candidate_that_leaves_is_not_waited_for_any_longer", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.put(candidate("x", `,"priority":9`))
		r.start()
		r.run(time.Second)
		equal(t, "terms", len(every[Begin](r)), 0)
		rec := r.store[driver.MemberRegister("x")]
		rec.Holder = driver.Identity{}
		r.put(rec)
		r.step(Notice{driver.Record{Name: rec.Name}})
		r.serve()
		r.run(0)
		equal(t, "terms", len(every[Begin](r)), 1)
	})

	t.Run("a_heartbeat_is_counted_from_when_it_was_first_received", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.put(candidate("x", `,"priority":9`)) // it is dead
		r.start()
		r.run(2 * time.Second) // it was listed, and waited for in vain
		equal(t, "terms", len(every[Begin](r)), 1)
		r.run(4 * time.Second)
		r.step(Campaign{"f"}) // x has been silent for its lease
		rec := r.store[driver.MemberRegister("x")]
		rec.Edits++ // which is no sign of life
		r.put(rec)
		r.run(100 * time.Millisecond)
		p := r.c.roster.peer(rec.Name)
		equal(t, "live", p.live, false)
		equal(t, "edits", p.edits, 1)
	})

	t.Run("members_that_a_list_no_longer_shows_are_forgotten", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.put(candidate("x", ""))
		r.put(candidate("y", ""))
		r.lead()
		equal(t, "members", len(r.c.roster.byName), 2)
		delete(r.store, driver.MemberRegister("x"))
		r.run(time.Second)
		r.step(Campaign{"f"})
		r.serve()
		r.run(0)
		equal(t, "members", len(r.c.roster.byName), 1)
		equal(t, "best", r.c.successor(election1), "y")
	})

	t.Run("a_list_shows_a_watched_heartbeat_as_a_read_does", func(t *testing.T) {
		r := newRig(t, ranked(RankPriority))
		r.put(beating(other, 50))
		rec := r.put(held(other, 3, remote))
		r.start()
		r.run(time.Second)
		before := r.c.sights.all[0].proof
		rec.Name = "f"
		rec.Holder = driver.Identity{}
		rec.Via = ""
		r.put(rec)
		r.step(Campaign{"f"})
		r.serve()
		if after := r.c.sights.all[0].proof; after <= before {
			t.Errorf("the list was not taken for a read: %d, %d", before, after)
		}
	})
}
