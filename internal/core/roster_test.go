package core

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// What the explorer needs of the roster: copies that share nothing, and encodings that tell states apart.

// listed returns a rig that has listed three members, and waits for the best of them.
func listed(t *testing.T, rank string) *rig {
	r := newRig(t, ranked(rank))
	r.put(candidate("x", `,"priority":9`))
	r.put(candidate("y", `,"priority":8`))
	r.put(anywhere("z"))
	r.start()
	r.run(100 * time.Millisecond)
	r.c.listSoon()
	r.run(0)
	return r
}

// content returns everything that a roster holds of the members.
func content(r *roster) string {
	text := fmt.Sprintln(r.byName, r.everywhere, r.named, r.waiting, r.waking)
	for _, p := range r.peers.all {
		text += fmt.Sprintf("%+v\n", p)
	}
	for _, b := range r.ring.buckets {
		if len(b) > 0 {
			text += fmt.Sprintln(b)
		}
	}
	return text
}

func TestRosterClone(t *testing.T) {
	for _, rank := range []string{RankFirst, RankPriority} {
		r := listed(t, rank)
		r.run(time.Second)
		before := content(&r.c.roster)

		// In the clone two of them leave, and another one joins.
		d := r.c.Clone(&counter{last: 1000})
		d.Step(r.now, Tick{})
		d.listSoon()
		d.Step(r.now, Tick{})
		joins := anywhere("b")
		joins.Rev = "1"
		now := []driver.Record{joins, r.store[driver.MemberRegister("y")]}
		d.Step(r.now, Answer{ID: d.roster.call.id, Outcome: Done, Records: now})
		equal(t, "members of the clone", len(d.roster.byName), 2)
		equal(t, "content", content(&r.c.roster), before)
	}
}

func TestRosterEncoding(t *testing.T) {
	r := listed(t, RankPriority)
	base := r.c.Encode(nil, r.now, plain{})
	for name, change := range map[string]func(c *Core){
		"a_duty_fails":                     func(c *Core) { c.failing = true },
		"a_list_is_wanted":                 func(c *Core) { c.roster.wanted = true },
		"a_list_is_old":                    func(c *Core) { c.roster.listedAt = 0 },
		"a_list_is_to_be_taken_in":         func(c *Core) { c.roster.coming = []driver.Record{candidate("b", "")} },
		"a_list_has_failed":                func(c *Core) { c.roster.retryAt = r.now.Add(time.Second) },
		"nobody_waits_for_a_list":          func(c *Core) { c.roster.waiting = nil },
		"somebody_is_woken_by_a_list":      func(c *Core) { c.roster.waking = []ref{1} },
		"attend_waits_for_a_list":          func(c *Core) { c.roster.attending = true },
		"attend_has_not_finished":          func(c *Core) { c.roster.left = 1 },
		"a_handover_is_looked_at_later":    func(c *Core) { c.roster.handoverAt = r.now.Add(time.Second) },
		"preemption_is_looked_at_later":    func(c *Core) { c.roster.preemptAt = r.now.Add(time.Second) },
		"a_member_is_dead":                 func(c *Core) { c.roster.peers.all[0].live = false },
		"a_member_says_something_else":     func(c *Core) { c.roster.peers.all[0].data = nil },
		"a_member_is_another_run":          func(c *Core) { c.roster.peers.all[0].who.Incarnation = "another" },
		"a_member_is_seen_for_less_long":   func(c *Core) { c.roster.peers.all[0].since += 1000 },
		"a_member_has_sent_a_heartbeat":    func(c *Core) { c.roster.peers.all[0].nonce++ },
		"a_member_has_gone":                func(c *Core) { c.dropPeer(0) },
		"a_smaller_id_was_named":           func(c *Core) { c.outranked = true },
		"the_shell_has_not_subscribed":     func(c *Core) { c.subscribed = false },
		"an_election_stands_back":          func(c *Core) { c.elections.all[0].standBack = r.now.Add(time.Second) },
		"an_election_has_changed":          func(c *Core) { c.elections.all[0].claimed = true },
		"an_election_is_open_for_longer":   func(c *Core) { c.elections.all[0].openSince -= 1000 },
		"an_election_was_held_by_somebody": func(c *Core) { c.elections.all[0].lastHeld.Holder = other },
		"an_election_waits_for_no_list":    func(c *Core) { c.elections.all[0].lists = false },
		"an_election_is_not_free":          func(c *Core) { c.judged(c.elections.all[0], false) },
	} {
		t.Run(name, func(t *testing.T) {
			c := r.c.Clone(&counter{last: 1000})
			change(c)
			if bytes.Equal(base, c.Encode(nil, r.now, plain{})) {
				t.Error("it is encoded alike")
			}
		})
	}
}
