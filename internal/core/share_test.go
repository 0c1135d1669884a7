package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// The sharing of many free elections, and what a choice among many candidates costs.

// anywhere returns the register of a member that runs for everything, or for the elections that are named.
func anywhere(id string, elections ...string) driver.Record {
	if len(elections) == 0 {
		elections = []string{everyElection}
	}
	r := candidate(id, "")
	r.Data, _ = json.Marshal(map[string]any{"eligible": true, "healthy": true, "elections": elections})
	return r
}

// acquainted returns a core that has listed members.
func acquainted(t *testing.T, cfg Config, members ...driver.Record) *Core {
	t.Helper()
	r := newRig(t, cfg)
	for _, m := range members {
		r.put(m)
	}
	r.start()
	r.c.listSoon()
	r.run(100 * time.Millisecond)
	equal(t, "members", len(r.c.roster.byName), len(members))
	return r.c
}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("election ", i)
	}
	return all
}

func TestShares(t *testing.T) {
	const members = 10
	const elections = 20_000
	all := names(elections)
	for name, runs := range map[string][]string{"everywhere": nil, "named": all[:90]} {
		t.Run("each_election_is_the_share_of_one_candidate_and_shares_are_about_equal/"+name, func(t *testing.T) {
			shares := map[string]int{}
			asked := all
			if runs != nil {
				asked = runs
			}
			var cores []*Core
			for i := range members {
				cfg := clusterConfig()
				cfg.ID = fmt.Sprint("n", i)
				var others []driver.Record
				for k := range members {
					if k != i {
						others = append(others, anywhere(fmt.Sprint("n", k), runs...))
					}
				}
				cores = append(cores, acquainted(t, cfg, others...))
			}
			for _, name := range asked {
				var owners []string
				for _, c := range cores {
					if c.choose(&election{name: name}, driver.Identity{}) == firstChoice {
						owners = append(owners, c.cfg.ID)
					}
				}
				if len(owners) != 1 {
					t.Fatalf("%s is the share of %v", name, owners)
				}
				shares[owners[0]]++
			}
			for id, n := range shares {
				if len(shares) < members || runs == nil && (n < elections/members*7/8 || n > elections/members*9/8) {
					t.Errorf("%s has %d of %d: %v", id, n, len(asked), shares)
				}
			}
		})
	}

	t.Run("without_one_candidate_only_its_own_elections_have_another_owner", func(t *testing.T) {
		c := acquainted(t, clusterConfig(), anywhere("b"), anywhere("c"), anywhere("d"))
		gone := driver.Identity{ID: "c", Incarnation: "1.c"}
		more := 0
		for _, name := range all {
			before := c.choose(&election{name: name}, driver.Identity{}) != firstChoice
			after := c.choose(&election{name: name}, gone) != firstChoice
			if !before && after {
				t.Fatalf("%s was this member's share, and is not without c", name)
			}
			if before && !after {
				more++
			}
		}
		if more < elections/30 || more > elections/6 {
			t.Errorf("%d elections of c fall to this member", more)
		}
	})

	t.Run("alone_everything_is_the_share_of_this_member", func(t *testing.T) {
		c := acquainted(t, clusterConfig(), anywhere("b"))
		for _, name := range all {
			if c.choose(&election{name: name}, driver.Identity{ID: "b", Incarnation: "1.b"}) != firstChoice {
				t.Fatal(name)
			}
		}
	})
}

// deadLeader returns a rig whose elections another member leads that is dead, and after which nothing was released.
func deadLeader(t *testing.T, elections int, members ...driver.Record) *rig {
	r := newRig(t, clusterConfig())
	r.put(beating(other, 50))
	for _, m := range members {
		r.put(m)
	}
	for _, name := range names(elections) {
		rec := held(other, 3, remote)
		rec.Name = name
		r.put(rec)
		r.step(Campaign{name})
	}
	r.step(Join{})
	return r
}

func TestCrowd(t *testing.T) {
	t.Run("the_many_elections_of_a_dead_leader_are_shared_and_taken_after_a_heartbeat_interval", func(t *testing.T) {
		const many = 200
		r := deadLeader(t, many, anywhere("c"), anywhere("d"), anywhere("e"), anywhere("f"), anywhere("g"))
		r.alive(7400*time.Millisecond, "c", "d", "e", "f", "g")
		n := len(every[Begin](r))
		if n < many/20 || n > manyFree-4 {
			t.Fatalf("it takes %d of %d at first", n, many)
		}
		equal(t, "lists", r.lists(), 1)
		r.alive(1600*time.Millisecond, "c", "d", "e", "f", "g")
		equal(t, "terms", len(every[Begin](r)), many)
	})

	t.Run("what_is_left_is_claimed_when_the_others_have_claimed_their_shares", func(t *testing.T) {
		const many = 200
		r := deadLeader(t, many, anywhere("c"), anywhere("d"), anywhere("e"))
		r.alive(7400*time.Millisecond, "c", "d", "e")
		shared := len(every[Begin](r))
		left := slices.DeleteFunc(names(many), func(name string) bool { return r.store[name].Holder != other })
		for i := range 4 { // another member claims its share for longer than a head start
			rec := held(driver.Identity{ID: "c", Incarnation: "1.c"}, 4, "regent/member/c")
			rec.Name = left[i]
			r.put(rec)
			r.step(Notice{r.store[rec.Name]})
			r.alive(500*time.Millisecond, "c", "d", "e")
		}

		equal(t, "terms while the others claim", len(every[Begin](r)), shared)
		r.alive(900*time.Millisecond, "c", "d", "e")
		second := len(every[Begin](r))
		if second <= shared || second >= many*2/3 {
			t.Errorf("it takes %d, and %d when nobody claims for half a head start", shared, second)
		}

		r.alive(time.Second, "c", "d", "e")
		equal(t, "terms in the end", len(every[Begin](r)), many-4)
	})

	t.Run("what_is_left_is_claimed_in_the_end_however_long_the_others_claim", func(t *testing.T) {
		const many = 200
		r := deadLeader(t, many, anywhere("c"), anywhere("d"), anywhere("e"))
		r.alive(7400*time.Millisecond, "c", "d", "e")
		left := slices.DeleteFunc(names(many), func(name string) bool { return r.store[name].Holder != other })
		for i := range 10 {
			rec := held(driver.Identity{ID: "c", Incarnation: "1.c"}, 4, "regent/member/c")
			rec.Name = left[i]
			r.put(rec)
			r.step(Notice{r.store[rec.Name]})
			r.alive(500*time.Millisecond, "c", "d", "e")
		}

		r.alive(800*time.Millisecond, "c", "d", "e")
		equal(t, "terms", len(every[Begin](r)), many-10)
	})

	t.Run("claims_of_others_are_read_together", func(t *testing.T) {
		const many = 200
		r := deadLeader(t, many, anywhere("c"), anywhere("d"), anywhere("e"))
		r.alive(7400*time.Millisecond, "c", "d", "e")
		left := slices.DeleteFunc(names(many), func(name string) bool { return r.store[name].Holder != other })
		r.forget()
		for _, name := range left[:20] {
			rec := held(driver.Identity{ID: "c", Incarnation: "1.c"}, 4, "regent/member/c")
			rec.Name = name
			r.put(rec)
			r.step(Notice{r.store[name]})
		}

		if n := len(every[Send](r)); n > 1 {
			t.Errorf("%d of 20 are read at once", n)
		}
	})

	t.Run("a_few_are_taken_at_once", func(t *testing.T) {
		r := deadLeader(t, manyFree, anywhere("c"))
		r.alive(7100*time.Millisecond, "c")
		equal(t, "terms", len(every[Begin](r)), manyFree)
		equal(t, "lists", r.lists(), 0)
	})

	t.Run("elections_that_were_never_judged_may_be_free", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(anywhere("c"))
		for _, name := range names(200) {
			r.step(Campaign{name})
		}
		r.step(Join{})
		r.run(time.Millisecond)
		if n := len(every[Begin](r)); n < 40 || n > 160 {
			t.Errorf("it takes %d of 200 at first", n)
		}
		equal(t, "lists", r.lists(), 1)
	})

	t.Run("the_count_of_free_elections_is_right_in_the_end", func(t *testing.T) {
		r := deadLeader(t, 200)
		r.run(10 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 200)
		equal(t, "free", r.c.loose, 0)
		for _, name := range names(200) {
			r.step(Withdraw{name})
		}
		r.step(Watch{"another"})
		equal(t, "free", r.c.loose, 1)
		r.step(Unwatch{"another"})
		r.run(0)
		equal(t, "free", r.c.loose, 0)
	})
}
