package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// became returns what the only term that began tells of the one before it.
func became(r *rig) (leader, reason string, vacant time.Duration) {
	r.t.Helper()
	equal(r.t, "terms", r.count(EventBecameLeader), 1)
	e := r.event(EventBecameLeader)
	return e.Previous, e.PreviousReason, e.Vacant
}

// follows fails the test unless the only term that began tells of the one before it, which was that of b.
func follows(r *rig, reason string, vacant time.Duration) {
	r.t.Helper()
	leader, got, since := became(r)
	equal(r.t, "leader before", leader, "b")
	equal(r.t, "reason", got, reason)
	equal(r.t, "vacant", since, vacant)
	past := r.store[election1].Past
	equal(r.t, "reason in the record", past[len(past)-1].Reason, reason)
}

// watching starts a member beside b, which leads.
func watching(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := newRig(t, cfg)
	via := ""
	if !cfg.OwnLease {
		via = remote
		r.put(beating(other, 50))
	}
	r.put(held(other, 3, via))
	r.start()
	r.run(time.Second)
	return r
}

// both runs a test with leases of their own, and with those of members.
func both(t *testing.T, name string, test func(*testing.T, Config)) {
	for kind, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
		t.Run(kind+"/"+name, func(t *testing.T) { test(t, cfg) })
	}
}

// replace changes a register as somebody else would, and lets the core know.
func (r *rig) replace(rec driver.Record) {
	r.t.Helper()
	r.put(rec)
	r.step(Notice{driver.Record{Name: rec.Name}})
	r.serve()
}

func TestEndings(t *testing.T) {
	both(t, "a_first_term_says_that_it_is_the_first", func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		r.lead()
		leader, reason, vacant := became(r)
		equal(t, "leader", leader, "")
		equal(t, "reason", reason, ReasonFirst)
		equal(t, "vacant", vacant, -1)
	})

	both(t, "a_term_of_which_the_store_knows_nothing_any_more_was_forgotten", func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		r.put(driver.Record{Name: election1, Epoch: 4, Nonce: 1, Duration: 6 * time.Second})
		r.c.learn(election1, 9)
		r.start()
		r.run(10 * time.Second)
		_, reason, vacant := became(r)
		equal(t, "reason", reason, ReasonForgotten) // of epoch 9, not of epoch 4, which the store still has
		equal(t, "vacant", vacant, -1)

		r = newRig(t, cfg)
		r.c.learn(election1, 9)
		r.start()
		r.run(10 * time.Second)
		_, reason, _ = became(r)
		equal(t, "reason", reason, ReasonForgotten)
	})

	both(t, "a_lease_that_has_expired_has_ended_when_it_did", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		r.run(10 * time.Second)
		follows(r, ReasonExpired, cfg.TakeoverDelay)
	})

	both(t, "a_process_that_is_proved_dead_has_died", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		r.dead = map[driver.Identity]bool{other: true}
		r.run(2 * time.Second) // the next read
		follows(r, ReasonDied, 0)
		if !cfg.OwnLease {
			past := r.store[remote].Past
			equal(t, "length of the past of the heartbeat", len(past), 1)
			equal(t, "reason", past[0].Reason, ReasonDied)
		}
	})

	both(t, "a_process_that_the_reaper_has_released_has_died", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		if cfg.OwnLease {
			rec := r.store[election1]
			r.replace(vacated(&rec, 80, r.c.src.Wall(), ReasonDied))
		} else {
			rec := r.store[remote]
			r.replace(vacatedBeat(&rec, 80, r.c.src.Wall(), ReasonDied))
		}
		follows(r, ReasonDied, 0)
	})

	both(t, "who_leaves_gives_its_own_reason", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		rec := r.store[election1]
		r.replace(vacated(&rec, 80, r.c.src.Wall(), string(SteppedDown)))
		follows(r, string(SteppedDown), 0)
	})

	t.Run("a_lock_that_the_store_has_expired_by_itself_has_ended_when_it_did", func(t *testing.T) {
		r := watching(t, lockConfig())
		rec := r.store[election1]
		rec.Holder = driver.Identity{}
		r.now = r.now.Add(6 * time.Second)
		r.replace(rec)
		follows(r, ReasonExpired, time.Second) // it was received one second before it was seen next
	})

	t.Run("a_heartbeat_that_the_store_has_expired_by_itself_has_ended_when_it_did", func(t *testing.T) {
		for after, vacant := range map[time.Duration]time.Duration{
			6 * time.Second: time.Second, // it was received one second before
			2 * time.Second: 0,           // the store's clock is ahead
		} {
			r := watching(t, clusterConfig())
			rec := r.store[remote]
			rec.Holder = driver.Identity{}
			r.now = r.now.Add(after)
			r.put(rec)
			r.step(Tick{}) // whatever else is due by now
			r.step(Notice{driver.Record{Name: remote}})
			r.serve()
			follows(r, ReasonExpired, vacant)
		}
	})

	t.Run("of_a_record_that_the_store_has_cleared_it_is_not_known_when_its_term_ended", func(t *testing.T) {
		r := watching(t, clusterConfig())
		rec := r.store[election1]
		rec.Holder = driver.Identity{}
		r.replace(rec)
		follows(r, ReasonExpired, -1)
	})

	t.Run("a_register_that_was_vacated_says_why_to_those_who_come_later", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		rec := beating(other, 50)
		r.put(vacatedBeat(&rec, 80, r.c.src.Wall(), ReasonDied))
		r.put(held(other, 3, remote))
		r.start()
		r.serve()
		follows(r, ReasonDied, 0)
	})

	t.Run("a_reason_that_was_seen_is_not_forgotten_when_the_member_joins_again", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.CheckHealth = true // so that it does not claim for now
		r := watching(t, cfg)
		rec := r.store[remote]
		died := r.c.src.Wall()
		r.replace(vacatedBeat(&rec, 80, died, ReasonDied))
		again := beating(driver.Identity{ID: "b", Incarnation: "2.y"}, 60)
		again.Epoch = 2
		r.replace(again)
		r.step(Health{Healthy: true})
		r.run(2 * time.Second)
		follows(r, ReasonDied, r.store[election1].Since.Sub(died))
	})

	t.Run("a_leader_that_the_store_has_forgotten_is_not_the_first", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.c.learn(election1, 9)
		r.put(beating(other, 50))
		r.put(held(other, 1, remote))
		r.start()
		r.serve()
		equal(t, "reason", r.event(EventLeaderChanged).PreviousReason, ReasonForgotten)
	})

	t.Run("a_member_that_has_joined_again_is_not_called_expired", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		again := beating(driver.Identity{ID: "b", Incarnation: "2.y"}, 60)
		again.Epoch = 2
		r.put(again)
		r.put(held(other, 3, remote))
		r.start()
		r.run(2 * time.Second)
		follows(r, ReasonRejoined, -1)
	})

	t.Run("a_member_that_has_joined_again_after_its_lease_is_known_to_have_ended_by_then", func(t *testing.T) {
		r := watching(t, clusterConfig())
		r.pass(6500 * time.Millisecond) // nobody can read anything
		r.pending = nil
		again := beating(driver.Identity{ID: "b", Incarnation: "2.y"}, 60)
		again.Epoch = 2
		r.put(again)
		r.run(4 * time.Second)
		_, reason, vacant := became(r)
		equal(t, "reason", reason, ReasonRejoined)
		if vacant < time.Second || vacant > 6*time.Second {
			t.Errorf("nobody led for %v", vacant)
		}
	})

	t.Run("the_first_heartbeat_of_an_incarnation_tells_how_the_one_before_ended", func(t *testing.T) {
		r := watching(t, clusterConfig())
		again := beating(driver.Identity{ID: "b", Incarnation: "2.y"}, 60)
		again.Epoch = 2
		again.Past = []driver.Past{{Epoch: 1, Holder: "b", Ended: r.c.src.Wall(), Reason: string(Partitioned)}}
		r.replace(again)
		later := again // the next one tells it no more
		later.Past = nil
		later.Nonce++
		r.replace(later)
		r.run(2 * time.Second)
		follows(r, string(Partitioned), 1500*time.Millisecond) // its head start
	})
}

func TestOwnEndings(t *testing.T) {
	both(t, "a_leader_that_leads_again_tells_how_long_nobody_led", func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		b := r.lead()
		r.run(time.Second)
		r.forget()
		r.pass(10 * time.Second) // the store does not answer
		r.pending = nil
		equal(t, "cause", find[End](r).Cause, Partitioned)
		r.step(DutyStopped{election1, b.Epoch})
		r.pass(10 * time.Second)
		r.pending = nil
		r.forget()
		r.run(10 * time.Second)
		leader, reason, vacant := became(r)
		equal(t, "leader", leader, "a")
		equal(t, "reason", reason, string(Partitioned))
		if vacant < 14*time.Second || vacant > 20*time.Second {
			t.Errorf("nobody led for %v", vacant)
		}
		for _, e := range every[Event](r) {
			if e.Node != "" {
				t.Errorf("%+v: it has told of that itself", e)
			}
		}
	})

	both(t, "a_process_that_was_frozen_has_ended_at_its_deadline", func(t *testing.T, cfg Config) {
		r := newRig(t, cfg)
		b := r.lead()
		r.now = r.now.Add(30 * time.Second)
		r.step(Tick{})
		r.pending = nil
		r.forget()
		r.step(DutyStopped{election1, b.Epoch})
		r.run(10 * time.Second)
		_, _, vacant := became(r)
		if vacant < 25*time.Second {
			t.Errorf("nobody led for %v", vacant)
		}
	})

	t.Run("what_the_store_does_not_tell_any_more_is_known_to_the_process", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.Register = true
		r := newRig(t, cfg)
		b := r.lead()
		r.pass(10 * time.Second)
		r.pending = nil
		r.step(Withdraw{election1})
		r.step(DutyStopped{election1, b.Epoch})
		r.run(10 * time.Second) // it joins again, and heartbeats
		r.forget()
		r.step(Campaign{election1})
		r.serve()
		_, reason, _ := became(r)
		equal(t, "reason", reason, string(Partitioned))
	})

	t.Run("the_first_heartbeat_of_the_next_incarnation_tells_it_and_no_other", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.pass(10 * time.Second)
		r.pending = nil
		r.step(DutyStopped{election1, b.Epoch})
		r.run(time.Second)
		past := r.store[own].Past
		equal(t, "length", len(past), 1)
		equal(t, "count", past[0].Epoch, 1)
		equal(t, "reason", past[0].Reason, string(Partitioned))
		if lost := past[0].Ended.Sub(wallStart) - time.Hour; lost < 4*time.Second || lost > 5*time.Second {
			t.Errorf("it has ended %v after it joined", lost)
		}
		r.run(2 * time.Second)
		equal(t, "length of the past after the next heartbeat", len(r.store[own].Past), 0)
	})

	t.Run("a_member_that_leaves_says_so", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.step(Close{})
		r.step(DutyStopped{election1, b.Epoch})
		r.serve()
		past := r.store[own].Past
		equal(t, "length", len(past), 1)
		equal(t, "reason", past[0].Reason, string(Shutdown))
	})

	t.Run("a_term_that_could_not_be_released_is_given_back_for_its_own_reason", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.step(StepDown{ID: 5, Election: election1})
		r.step(DutyStopped{election1, b.Epoch})
		for range 100 { // the store refuses everything at once
			for len(r.pending) > 0 {
				r.answer(r.take(election1), Unknown, driver.Record{})
			}
			r.pass(20 * time.Millisecond)
		}
		equal(t, "kept", find[Finished](r).Kept, true)
		r.run(5 * time.Second)
		past := r.store[election1].Past
		equal(t, "reason", past[0].Reason, string(SteppedDown))
	})
}

// TestUnsaid is about leaders that cannot tell of their own end: whoever follows them does, once.
func TestUnsaid(t *testing.T) {
	told := func(r *rig) []Event {
		var all []Event
		for _, e := range every[Event](r) {
			if e.Kind == EventLostLeadership {
				all = append(all, e)
			}
		}
		return all
	}

	both(t, "a_leader_that_fell_silent", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		r.run(10 * time.Second)
		all := told(r)
		equal(t, "events", len(all), 1)
		e := all[0]
		equal(t, "node", e.Node, "b")
		equal(t, "reported by", e.ReportedBy, "a")
		equal(t, "epoch", e.Epoch, 3)
		equal(t, "reason", e.Reason, ReasonExpired)
	})

	both(t, "a_leader_that_died", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		r.dead = map[driver.Identity]bool{other: true}
		r.run(2 * time.Second)
		equal(t, "events", len(told(r)), 1)
		equal(t, "reason", told(r)[0].Reason, ReasonDied)
	})

	both(t, "not_a_leader_that_has_told_it_itself", func(t *testing.T, cfg Config) {
		r := watching(t, cfg)
		rec := r.store[election1]
		r.replace(vacated(&rec, 80, r.c.src.Wall(), string(Shutdown)))
		equal(t, "epoch", find[Begin](r).Epoch, 4)
		equal(t, "events", len(told(r)), 0)
	})

	t.Run("not_this_member_whose_lock_the_store_has_expired", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.pass(10 * time.Second) // the store does not answer
		r.pending = nil
		r.step(DutyStopped{election1, b.Epoch})
		r.pass(10 * time.Second)
		r.pending = nil
		rec := r.store[election1]
		rec.Holder = driver.Identity{}
		r.put(rec)
		r.run(10 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 2)
		equal(t, "events", len(told(r)), 1)
		equal(t, "told by itself", told(r)[0].Node, "")
		past := r.store[election1].Past
		equal(t, "reason", past[0].Reason, string(Partitioned))
	})

	t.Run("not_an_incarnation_that_this_process_has_ended_nor_a_term_that_it_has_reported", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		e := r.c.elections.all[0]
		rec := r.store[election1]
		past := ended(&rec, wallStart, ReasonExpired)
		equal(t, "unsaid", r.c.unsaid(e, &rec, past).Epoch, b.Epoch)
		r.step(StepDown{ID: 5, Election: election1})
		r.step(DutyStopped{election1, b.Epoch})
		r.serve()
		equal(t, "unsaid", r.c.unsaid(e, &rec, past).Epoch, 0)

		other := held(other, 7, "")
		past = ended(&other, wallStart, ReasonExpired)
		equal(t, "unsaid", r.c.unsaid(e, &other, past).Epoch, 7)
		r.c.hasEnded(other.Holder)
		equal(t, "unsaid", r.c.unsaid(e, &other, past).Epoch, 0)
	})
}
