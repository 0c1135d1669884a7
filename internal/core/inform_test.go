package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// How members that watch seldom learn of a new leader.

// takeOver returns a core that has followed a leader as one of its watchers, and leads now, among some members.
func takeOver(t *testing.T, list string, ids ...string) *rig {
	t.Helper()

	r := follow(t, list)
	r.peersOf(ids...)
	r.heartbeats(3*time.Second, list)
	r.forget()
	left := r.store[remote]
	left.Holder = driver.Identity{}
	r.put(left)
	for range 30 {
		r.run(100 * time.Millisecond)
	}

	equal(t, "terms", len(every[Begin](r)), 1)
	return r
}

// named is a list that names this member.
var named = strings.Replace(watchedBy, `"x"`, `"a"`, 1)

func TestInform(t *testing.T) {
	t.Run("a_new_leader_touches_the_registers_of_those_that_watch_seldom", func(t *testing.T) {
		r := takeOver(t, named, "c", "d", "y", "z")
		for id, want := range map[string]int{"c": 1, "d": 1, "z": 1, "y": 0} { // y watches closely
			equal(t, "writes of "+id, r.sends(driver.MemberRegister(id), Swap), want)
		}
	})

	t.Run("all_of_many_are_informed_in_portions", func(t *testing.T) {
		var ids []string
		for i := range 100 {
			ids = append(ids, fmt.Sprintf("n%02d", i))
		}

		r := takeOver(t, named, ids...)
		for _, id := range ids {
			equal(t, "writes of "+id, r.sends(driver.MemberRegister(id), Swap), 1)
		}
	})

	t.Run("no_more_than_a_portion_is_under_way_while_the_store_is_slow", func(t *testing.T) {
		r := follow(t, named)
		for i := range 100 {
			r.peersOf(fmt.Sprintf("n%02d", i))
		}

		r.c.roster.peers = slab[peer]{}
		r.heartbeats(3*time.Second, named)
		left := r.store[remote]
		left.Holder = driver.Identity{}
		r.put(left)
		for range 40 {
			r.run(50 * time.Millisecond)
			if len(every[Begin](r)) > 0 && len(r.c.roster.uninformed) > 0 {
				break
			}
		}

		most := 0
		for range 40 { // nothing is answered any more
			r.now = r.now.Add(50 * time.Millisecond)
			r.step(Tick{})
			touched := slices.DeleteFunc(slices.Clone(r.pending), func(s Send) bool {
				return !strings.HasPrefix(s.Record.Name, driver.MemberPrefix+"n")
			})
			most = max(most, len(touched))
		}

		if most == 0 || most > informAtOnce {
			t.Errorf("%d requests under way, want 1 to %d", most, informAtOnce)
		}
	})

	t.Run("nobody_is_informed_where_the_store_notifies", func(t *testing.T) {
		r := follow(t, named)
		r.step(Notice{driver.Record{Name: driver.MemberRegister("c")}})
		r.peersOf("c", "d", "y", "z")
		r.heartbeats(3*time.Second, named)
		r.forget()
		left := r.store[remote]
		left.Holder = driver.Identity{}
		r.put(left)
		r.run(3 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 1)
		equal(t, "writes of c", r.sends(driver.MemberRegister("c"), Swap), 0)
	})

	t.Run("nobody_is_informed_by_the_first_leader", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.Watchers = 2
		r := newRig(t, cfg)
		r.peersOf("c", "d", "y", "z")
		r.lead()
		r.run(time.Second)
		equal(t, "writes of c", r.sends(driver.MemberRegister("c"), Swap), 0)
	})

	t.Run("it_names_who_was_named_until_it_knows_better", func(t *testing.T) {
		r := takeOver(t, named, "c", "d", "y", "z")
		if got := string(r.store[own].Data); !strings.Contains(got, `"ids":["y"],"enough":true,"elections":["e"],`) {
			t.Errorf("published %s", got)
		}

		for range 6 {
			r.run(1500 * time.Millisecond)
			r.peersOf("c", "d", "y", "z")
		}

		if got := string(r.store[own].Data); !strings.Contains(got, `"ids":["c","d"]`) {
			t.Errorf("published %s", got)
		}
	})

	t.Run("whoever_was_not_named_inherits_nothing", func(t *testing.T) {
		r := follow(t, strings.Replace(watchedBy, `"elections":[`, `"elections":["other",`, 1))
		r.c.roster.heardAt = r.now
		r.step(Campaign{"other"})
		r.run(time.Second)
		equal(t, "terms", len(every[Begin](r)), 1)
		equal(t, "published", string(r.c.roster.published), "")
	})

	t.Run("a_standby_that_is_informed_reads_the_election_at_once", func(t *testing.T) {
		for name, list := range map[string]string{"one_that_watches_seldom": watchedBy, "one_that_watches": named} {
			r := follow(t, list)
			r.forget()
			edited := r.store[own]
			edited.Edits++
			r.put(edited)
			r.run(1600 * time.Millisecond) // until its next heartbeat
			equal(t, name+": reads", min(1, r.sends(election1, Get)), 1)
		}
	})
}
