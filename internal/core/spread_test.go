package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// What keeps the members of a fleet out of step.

func fleet() Config {
	cfg := clusterConfig()
	cfg.ID = "m"
	cfg.LeaseDuration = 20 * time.Second
	cfg.HeartbeatInterval = 5 * time.Second
	cfg.RenewInterval = 5 * time.Second
	cfg.StartDelay = 2 * time.Second
	cfg.StartDelayMax = 5 * time.Second
	cfg.Phase = 0.25
	cfg.Rank = RankLexicographic
	return cfg
}

// readsOf returns when a register was read, from a moment on. The store answers everything at once.
func (r *rig) readsOf(name string, d time.Duration) []Time {
	r.t.Helper()
	var all []Time
	for end := r.now.Add(d); ; {
		r.forget()
		next := r.c.Next()
		if next > end {
			r.now = end
			return all
		}
		r.now = max(r.now, next)
		r.step(Tick{})
		r.serve()
		for _, s := range every[Send](r) {
			if s.Verb == Get && s.Record.Name == name {
				all = append(all, r.now)
			}
		}
	}
}

func TestFleet(t *testing.T) {
	t.Run("nothing_is_sent_before_the_start_delay_and_then_the_member_joins", func(t *testing.T) {
		r := newRig(t, fleet())
		r.start()
		r.pass(2*time.Second - 1)
		equal(t, "requests", len(every[Send](r)), 0)
		equal(t, "subscriptions", len(every[Subscribe](r)), 0)
		r.absent(EventStarted)
		r.pass(1)
		equal(t, "request", r.pending[0].Record.Name, driver.MemberRegister("m"))
		r.event(EventStarted)
	})

	t.Run("elections_are_first_read_and_subscribed_to_in_the_members_phase", func(t *testing.T) {
		r := newRig(t, fleet())
		r.start()
		r.run(2*time.Second + 250*time.Millisecond - 1) // a third of the spread of 3s is 1s
		equal(t, "subscriptions", len(every[Subscribe](r)), 0)
		for _, s := range every[Send](r) {
			equal(t, "register", s.Record.Name, driver.MemberRegister("m"))
		}
		r.run(1)
		equal(t, "subscriptions", len(every[Subscribe](r)), 1)
		last := every[Send](r)[len(every[Send](r))-1]
		equal(t, "register", last.Record.Name, election1)
	})

	t.Run("without_a_fleet_they_are_read_at_once", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.step(Join{})
		equal(t, "subscriptions", len(every[Subscribe](r)), 1)
		r.absent(EventStarted)
	})

	t.Run("polls_have_the_members_phase", func(t *testing.T) {
		r := newRig(t, fleet())
		rec := beating(other, 50)
		rec.Duration = time.Hour
		r.put(rec)
		r.put(held(other, 3, remote))
		r.start()
		r.run(10 * time.Second)
		reads := r.readsOf(election1, 9*time.Second)
		equal(t, "polls", len(reads), 2)
		for _, at := range reads {
			equal(t, "phase of the poll", time.Duration(at)%(5*time.Second), 1250*time.Millisecond)
		}
	})

	t.Run("heartbeats_of_others_are_read_in_the_members_phase", func(t *testing.T) {
		r := newRig(t, fleet())
		rec := beating(other, 50)
		rec.Duration = 60 * time.Second
		r.put(rec)
		r.put(held(other, 3, remote))
		r.start()
		r.run(10 * time.Second)
		reads := r.readsOf(remote, 39*time.Second)
		equal(t, "reads", len(reads), 2)
		equal(t, "phase of the read", time.Duration(reads[1])%(20*time.Second), 5*time.Second)
	})

	t.Run("a_claim_by_another_is_read_at_the_next_poll_and_a_release_at_once", func(t *testing.T) {
		r := newRig(t, fleet())
		r.c.cfg.Eligible = false
		r.start()
		r.run(4 * time.Second)
		claimed := held(other, 1, remote)
		claimed.Rev = "99"
		r.step(Notice{claimed})
		r.none(election1)
		reads := r.readsOf(election1, 5*time.Second)
		equal(t, "phase of the read", time.Duration(reads[0])%(5*time.Second), 1250*time.Millisecond)

		r.step(Notice{driver.Record{Name: election1, Rev: "100", Epoch: 1}})
		r.take(election1)
		r = newRig(t, fleet())
		r.c.cfg.Eligible = false
		r.start()
		r.run(4 * time.Second)
		claimed.Next = "m"
		r.step(Notice{claimed})
		r.take(election1)
	})

	t.Run("the_smallest_id_claims_when_everybody_has_joined_and_in_its_turn", func(t *testing.T) {
		r := newRig(t, fleet())
		equal(t, "claims after", r.claimsAfter(), 6750*time.Millisecond) // 5s, 1s to join, and a quarter of 3s
		r = newRig(t, fleet())
		r.step(Notice{driver.Record{Name: driver.MemberRegister("b")}})
		equal(t, "claims after, outranked", r.claimsAfter(), 9750*time.Millisecond)
		r = newRig(t, fleet())
		r.step(Notice{driver.Record{Name: driver.MemberRegister("x")}})
		equal(t, "claims after, not outranked", r.claimsAfter(), 6750*time.Millisecond)
	})

	t.Run("a_core_that_follows_one_that_died_does_not_wait", func(t *testing.T) {
		cfg := fleet()
		cfg.Restarted = true
		cfg.StartDelay = 0
		r := newRig(t, cfg)
		equal(t, "claims after", r.claimsAfter(), 0)
		r.absent(EventStarted)
	})

	t.Run("the_wait_begins_anew_after_a_leader_that_was_never_seen_alive", func(t *testing.T) {
		for _, alive := range []bool{false, true} {
			r := newRig(t, fleet())
			rec := beating(driver.Identity{ID: "x", Incarnation: "1.x"}, 50)
			rec.Duration = 20 * time.Second
			r.put(rec)
			r.put(held(rec.Holder, 3, rec.Name))
			r.start()
			if alive {
				r.alive(20*time.Second, "x")
			}
			r.run(21 * time.Second)
			for r.store[rec.Name].Holder.ID != "" {
				r.run(10 * time.Millisecond)
			}
			from := r.now
			for len(every[Begin](r)) == 0 {
				r.run(10 * time.Millisecond)
			}
			wait := time.Duration(r.now - from).Round(50 * time.Millisecond)
			want := 6750 * time.Millisecond
			if alive {
				want = 0
			}
			equal(t, "claims after", wait, want)
		}
	})

	t.Run("one_who_waits_for_a_better_candidate_lists_again_after_a_while_however_many_join", func(t *testing.T) {
		r := newRig(t, fleet())
		r.put(candidate("b", ""))
		r.start()
		r.alive(6800*time.Millisecond, "b")
		equal(t, "lists", r.lists(), 1)
		for range 20 {
			r.step(Notice{driver.Record{Name: driver.MemberRegister("c")}})
			r.alive(100*time.Millisecond, "b")
		}
		equal(t, "lists", r.lists(), 1)
		r.alive(1900*time.Millisecond, "b") // its phase comes on top
		equal(t, "lists", r.lists(), 2)
		equal(t, "terms", len(every[Begin](r)), 0)
	})
}
