package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// The handover of an unhealthy leader, the last resort, and preemption.

// alive keeps the registers of other members alive while time passes.
func (r *rig) alive(d time.Duration, ids ...string) {
	r.t.Helper()
	for end := r.now.Add(d); r.now < end; {
		for _, id := range ids {
			if rec, ok := r.store[driver.MemberRegister(id)]; ok {
				rec.Nonce++
				r.put(rec)
			}
		}
		r.run(min(500*time.Millisecond, time.Duration(end-r.now)))
	}
}

func TestUnhealthyLeader(t *testing.T) {
	for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
		cfg.CheckHealth = true
		lead := func(t *testing.T) *rig {
			r := newRig(t, cfg)
			r.start()
			r.step(Health{Healthy: true})
			r.serve()
			find[Begin](r)
			return r
		}

		t.Run(name+"/hands_over_to_the_best_healthy_candidate", func(t *testing.T) {
			r := lead(t)
			r.put(candidate("c", ""))
			r.put(candidate("b", ""))
			r.forget()
			r.step(Health{})
			r.serve()
			end := find[End](r)
			equal(t, "cause", end.Cause, Unhealthy)
			equal(t, "next", end.Next, "b")
			r.step(DutyStopped{election1, end.Epoch})
			r.serve()
			rec := r.store[election1]
			equal(t, "vacant", rec.Vacant(), true)
			equal(t, "successor", rec.Next, "b")
			equal(t, "reason", rec.Past[0].Reason, "unhealthy")

			r.step(Health{Healthy: true}) // it holds back until the others had their chance
			r.forget()
			r.run(6400 * time.Millisecond)
			equal(t, "terms", len(every[Begin](r)), 0)
			r.run(time.Second)
			equal(t, "terms", len(every[Begin](r)), 1)
		})

		t.Run(name+"/goes_on_as_the_last_one_and_looks_at_every_heartbeat", func(t *testing.T) {
			r := lead(t)
			sick := candidate("b", "")
			sick.Data = []byte(`{"eligible":true,"elections":["e"]}`)
			r.put(sick)
			r.forget()
			r.step(Health{})
			r.alive(14900*time.Millisecond, "b")
			equal(t, "ends", len(every[End](r)), 0)
			equal(t, "lists", r.lists(), 10)
			r.put(candidate("b", ""))
			r.alive(1500*time.Millisecond, "b")
			equal(t, "next", find[End](r).Next, "b")
		})

		t.Run(name+"/goes_on_if_the_election_is_paused", func(t *testing.T) {
			r := lead(t)
			r.put(candidate("b", ""))
			r.step(Pause{ID: 7, Election: election1})
			r.serve()
			r.step(Health{})
			r.alive(5*time.Second, "b")
			equal(t, "ends", len(every[End](r)), 0)
		})

		t.Run(name+"/is_not_asked_again_when_it_is_well", func(t *testing.T) {
			r := lead(t)
			r.step(Health{})
			r.run(time.Second)
			r.step(Health{Healthy: true})
			r.forget()
			r.run(time.Minute)
			equal(t, "lists", r.lists(), 0)
		})
	}

	t.Run("one_with_a_lease_of_its_own_has_a_register_if_its_health_is_checked", func(t *testing.T) {
		cfg := lockConfig()
		r := newRig(t, cfg)
		r.lead()
		equal(t, "registers", len(r.members()), 0)
		cfg.CheckHealth = true
		r = newRig(t, cfg)
		r.start()
		r.serve()
		equal(t, "registers", len(r.members()), 1)
	})
}

func TestLastResort(t *testing.T) {
	failing := Health{Healthy: true, DutyFailing: true}

	t.Run("a_member_whose_duty_fails_claims_after_a_heartbeat_interval_if_nobody_healthy_is_there", func(t *testing.T) {
		for _, cfg := range []Config{clusterConfig(), lockConfig()} {
			r := newRig(t, cfg)
			r.step(failing)
			r.start()
			r.run(1400 * time.Millisecond)
			equal(t, "terms", len(every[Begin](r)), 0)
			r.run(200 * time.Millisecond)
			equal(t, "terms", len(every[Begin](r)), 1)
		}
	})

	t.Run("it_does_not_claim_while_somebody_healthy_is_there", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(candidate("b", ""))
		r.step(failing)
		r.start()
		r.alive(time.Minute, "b")
		equal(t, "terms", len(every[Begin](r)), 0)
		if n := r.lists(); n > 52 {
			t.Errorf("%d lists in 40 heartbeat intervals and 12 election intervals", n)
		}
		rec := r.store[remote]
		rec.Holder = driver.Identity{}
		r.put(rec)
		r.run(1600 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), 1)
	})

	t.Run("a_member_whose_health_check_fails_never_claims", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.step(Health{DutyFailing: true})
		r.start()
		r.run(time.Minute)
		equal(t, "terms", len(every[Begin](r)), 0)
		equal(t, "lists", r.lists(), 0)
	})

	t.Run("it_revokes_a_heartbeat_only_if_nobody_healthy_runs_for_what_depends_on_it", func(t *testing.T) {
		for _, healthy := range []bool{true, false} {
			r := newRig(t, clusterConfig())
			r.put(beating(other, 50))
			r.put(held(other, 3, remote))
			if healthy {
				r.put(candidate("c", ""))
			} else {
				r.put(beating(driver.Identity{ID: "c", Incarnation: "1.c"}, 5))
			}
			r.step(failing)
			r.start()
			r.alive(20*time.Second, "c")
			rec := r.store[remote]
			equal(t, "revoked", rec.Vacant(), !healthy)
			equal(t, "terms", len(every[Begin](r)) == 1, !healthy)
		}
	})

	t.Run("it_hands_over_what_it_leads_and_leads_again_once_it_is_well", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.lead()
		r.put(candidate("b", ""))
		r.step(failing)
		r.serve()
		equal(t, "cause", find[End](r).Cause, Unhealthy)
	})
}

func TestPreempt(t *testing.T) {
	preempting := func() Config {
		cfg := ranked(RankPriority)
		cfg.Preempt = true
		return cfg
	}
	// behind returns a member that follows the leader x.
	behind := func(t *testing.T, cfg Config, leader string) *rig {
		r := newRig(t, cfg)
		r.put(candidate("x", leader))
		r.put(held(driver.Identity{ID: "x", Incarnation: "1.x"}, 3, driver.MemberRegister("x")))
		return r
	}

	t.Run("a_leader_of_lower_rank_is_asked_and_its_register_is_touched", func(t *testing.T) {
		r := behind(t, preempting(), `,"priority":2`)
		r.start()
		r.serve()
		r.run(0)
		equal(t, "next", r.store[election1].Next, "m")
		equal(t, "edits of the register", r.store[driver.MemberRegister("x")].Edits, 1)
		equal(t, "lists", r.lists(), 1)
		equal(t, "results", len(every[Result](r)), 0)
	})

	t.Run("members_with_leases_of_their_own_do_so_too", func(t *testing.T) {
		cfg := preempting()
		cfg.OwnLease = true
		r := newRig(t, cfg)
		r.put(candidate("x", ""))
		r.put(held(driver.Identity{ID: "x", Incarnation: "of a lease"}, 3, ""))
		r.start()
		r.serve()
		equal(t, "next", r.store[election1].Next, "m")
	})

	t.Run("nobody_else_is_asked", func(t *testing.T) {
		with := func(change func(*Config)) Config {
			cfg := preempting()
			change(&cfg)
			return cfg
		}
		better := func(r *rig) { r.put(candidate("y", `,"priority":7`)) }
		as := func(next string, paused bool) func(r *rig) {
			return func(r *rig) {
				rec := r.store[election1]
				rec.Next = next
				rec.Paused = paused
				r.put(rec)
			}
		}
		for _, tt := range []struct {
			name   string
			cfg    Config
			leader string
			change func(*rig)
		}{
			{"who has a higher rank", preempting(), `,"priority":4`, nil},
			{"who has the same rank", preempting(), `,"priority":3`, nil},
			{"if it is not configured", with(func(c *Config) { c.Preempt = false }), "", nil},
			{"under rank first", with(func(c *Config) { c.Rank = RankFirst }), "", nil},
			{"by one who may not lead", with(func(c *Config) { c.Eligible = false }), "", nil},
			{"by one whose health is not known", with(func(c *Config) { c.CheckHealth = true }), "", nil},
			{"if a third one is better", preempting(), "", better},
			{"if it makes way already", preempting(), "", as("y", false)},
			{"if the election is paused", preempting(), "", as("", true)},
		} {
			r := behind(t, tt.cfg, tt.leader)
			if tt.change != nil {
				tt.change(r)
			}
			next := r.store[election1].Next
			r.start()
			r.alive(time.Minute, "x", "y")
			equal(t, tt.name, r.store[election1].Next, next)
		}
	})

	t.Run("the_members_are_listed_once_in_an_election_interval_and_not_if_nobody_else_leads", func(t *testing.T) {
		r := behind(t, preempting(), `,"priority":4`)
		r.start()
		r.alive(49*time.Second, "x")
		equal(t, "lists", r.lists(), 10)

		r = newRig(t, preempting())
		r.lead()
		r.forget()
		r.run(time.Minute)
		equal(t, "lists", r.lists(), 0)
	})

	t.Run("a_leader_that_does_not_make_way_is_asked_again_in_its_next_term", func(t *testing.T) {
		r := behind(t, preempting(), "")
		r.start()
		r.alive(6*time.Second, "x")
		equal(t, "next", r.store[election1].Next, "m")
		r.put(held(driver.Identity{ID: "x", Incarnation: "1.x"}, 4, driver.MemberRegister("x")))
		r.alive(11*time.Second, "x")
		equal(t, "next", r.store[election1].Next, "m")
	})
}
