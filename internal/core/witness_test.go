package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestWitness is about a store that can prove the death of a process. TestEndings has leaders that die.
func TestWitness(t *testing.T) {
	twin := driver.Identity{ID: "a", Incarnation: "1.twin"}

	t.Run("a_member_joins_at_once_over_a_process_with_its_id_that_is_dead", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(twin, 77))
		r.dead = map[driver.Identity]bool{twin: true}
		r.start()
		r.run(time.Millisecond)
		equal(t, "count", r.store[own].Epoch, 2)
		past := r.store[own].Past
		equal(t, "reason", past[0].Reason, ReasonDied)
	})

	t.Run("is_asked_about_others_only", func(t *testing.T) {
		for _, cfg := range []Config{lockConfig(), clusterConfig()} {
			r := newRig(t, cfg)
			r.lead()
			for _, s := range every[Send](r) {
				equal(t, "asked", s.Witness, s.Verb == Get)
			}
			r.forget()
			r.step(Notice{driver.Record{Name: election1}})
			r.run(10 * time.Second)
			for _, s := range every[Send](r) {
				equal(t, "asked about this member", s.Witness, false)
			}
		}
	})

	t.Run("a_proof_about_another_record_counts_for_nothing", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.CheckHealth = true // so that it does not claim for now
		r := watching(t, cfg)
		r.dead = map[driver.Identity]bool{other: true}
		r.run(2 * time.Second)
		s := r.c.sights.all[r.c.sighted[remote]]
		equal(t, "dead", s.watch.gone, true)
		rec := r.store[remote]
		r.c.takeMember(&rec)
		equal(t, "live", r.c.roster.peer(remote).live, false)

		rec.Nonce++
		rec = r.put(rec)
		r.c.takeMember(&rec)
		equal(t, "live", r.c.roster.peer(remote).live, true)
		r.dead = nil
		r.step(Notice{driver.Record{Name: remote}})
		r.serve()
		equal(t, "dead", s.watch.gone, false)
	})
}

func TestPublish(t *testing.T) {
	cfg := clusterConfig()
	cfg.Info = []byte("first")
	r := newRig(t, cfg)
	r.lead()
	equal(t, "info", string(r.store[own].Data), "first")
	before := r.c.Encode(nil, r.now, plain{})
	r.step(Publish{[]byte("second")})
	r.none(own) // others are told with the next heartbeat
	if string(before) == string(r.c.Encode(nil, r.now, plain{})) {
		t.Error("what is published does not show in the state")
	}
	r.run(1500 * time.Millisecond)
	equal(t, "info", string(r.store[own].Data), "second")
	r.pass(10 * time.Second) // it joins again
	r.pending = nil
	r.step(DutyStopped{election1, 1})
	r.run(time.Second)
	equal(t, "count", r.store[own].Epoch, 2)
	equal(t, "info", string(r.store[own].Data), "second")
}

// TestPolls is about when elections are read without notifications: at moments that they share.
func TestPolls(t *testing.T) {
	cfg := lockConfig()
	cfg.LeaseDuration = time.Hour
	cfg.ElectionIntervalMax = 20 * time.Second
	r := newRig(t, cfg)
	names := []string{"x", "y", "z"}
	for i, name := range names {
		r.put(driver.Record{Name: name, Holder: other, Epoch: 1, Nonce: 1, Duration: time.Hour})
		r.step(Campaign{name})
		if i == 0 {
			r.step(Join{})
		}
		r.serve()
		r.run(1300 * time.Millisecond)
	}

	began := r.now
	moments := map[Time]int{}
	for r.now < began.Add(2*time.Minute) {
		r.pass(time.Duration(max(1, r.c.Next()-r.now)))
		if len(r.pending) > 0 {
			moments[r.now] = len(r.pending)
		}
		r.serve()
	}
	if n := len(moments); n < 6 || n > 9 {
		t.Errorf("%d polls in 2 minutes", n)
	}
	for at, n := range moments {
		if after := time.Duration(at - began); after > 40*time.Second && n != len(names) {
			t.Errorf("%d elections are read after %v", n, after)
		}
	}

	// One that has changed is polled again soon, and at one of those moments.
	rec := r.store["y"]
	rec.Epoch++
	rec.Nonce++
	r.replace(rec)
	r.pending = nil
	next := r.c.elections.all[r.c.names["y"]].pollAt
	equal(t, "polls without news", r.c.elections.all[r.c.names["y"]].quiet, 0)
	if wait := time.Duration(next - r.now); wait <= 0 || wait > 5*time.Second {
		t.Errorf("it is polled after %v", wait)
	}
	equal(t, "out of step by", (next-r.c.elections.all[0].pollAt)%Time(5*time.Second), 0)
}

func TestShown(t *testing.T) {
	t.Run("what_somebody_is_shown_through_this_member_counts", func(t *testing.T) {
		for _, cfg := range []Config{lockConfig(), clusterConfig()} {
			r := watching(t, cfg)
			register := remote
			if cfg.OwnLease {
				register = election1
			}
			renewed := r.store[register]
			renewed.Rev = "lost"
			renewed.Nonce++
			r.run(4 * time.Second)
			r.step(Shown{renewed})
			r.run(5900 * time.Millisecond)
			equal(t, "terms", len(every[Begin](r)), 0)
			r.run(3 * time.Second)
			equal(t, "terms", len(every[Begin](r)), 1)
		}
	})

	t.Run("an_epoch_too", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.step(Shown{held(other, 6, "")})
		r.start()
		r.run(10 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 7)
	})
}

func TestInherit(t *testing.T) {
	r := newRig(t, clusterConfig())
	b := r.lead()
	r.run(2 * time.Second)
	r.pass(10 * time.Second)
	r.pending = nil
	r.step(DutyStopped{election1, b.Epoch})
	r.step(Close{})
	r.pass(10 * time.Second)
	find[Closed](r)

	old := r.c
	r.c = New(clusterConfig(), old.src)
	r.c.Inherit(old)
	r.pending = nil
	r.forget()
	r.start()
	first := r.pending[0].ID
	if first>>32 <= old.seq {
		t.Errorf("request %d was sent before", first>>32)
	}
	r.serve() // over its own last incarnation, without a wait
	r.run(time.Second)
	_, reason, _ := became(r)
	equal(t, "reason", reason, string(Partitioned))
	equal(t, "epoch", find[Begin](r).Epoch, b.Epoch+1)
	equal(t, "transitions", r.c.Stats().Transitions, 2)
}

func TestView(t *testing.T) {
	t.Run("says_how_old_a_heartbeat_is_and_whether_it_has_expired", func(t *testing.T) {
		for _, cfg := range []Config{lockConfig(), clusterConfig()} {
			cfg.Eligible = false
			r := watching(t, cfg)
			r.c.learn(election1, 9)
			v, ok := r.c.View(election1, r.now)
			equal(t, "known", ok, true)
			equal(t, "leader", v.Record.Holder, other)
			equal(t, "highest epoch", v.Known, 9)
			equal(t, "watched", v.Watched, true)
			equal(t, "age", v.Age, time.Second)
			equal(t, "expired", v.Expired, false)
			equal(t, "heartbeat", v.Heartbeat.Holder == other, !cfg.OwnLease)
			r.run(10 * time.Second)
			v, _ = r.c.View(election1, r.now)
			equal(t, "expired", v.Expired, true)
		}
	})

	t.Run("of_a_paused_election_whose_leader_has_ended_says_that_nobody_leads", func(t *testing.T) {
		for name, c := range map[string]struct {
			heartbeat driver.Record
			reason    string
		}{
			"vacant": {driver.Record{Name: remote, Epoch: 1, Nonce: 51, Duration: 6 * time.Second,
				Past: []driver.Past{{Epoch: 1, Holder: "b", Reason: ReasonDied}}}, ReasonDied},
			"another incarnation": {driver.Record{Name: remote, Epoch: 2, Nonce: 51, Duration: 6 * time.Second,
				Holder: driver.Identity{ID: "b", Incarnation: "2.y"}}, ReasonRejoined},
			"forgotten": {driver.Record{Name: remote, Nonce: 51, Duration: 6 * time.Second}, ""},
		} {
			r := watching(t, clusterConfig())
			paused := held(other, 3, remote)
			paused.Paused = true
			r.replace(paused)
			r.run(time.Second)
			v, _ := r.c.View(election1, r.now)
			equal(t, name+": expired while it leads", v.Expired, false)
			r.put(c.heartbeat)
			r.run(10 * time.Second)
			v, _ = r.c.View(election1, r.now)
			equal(t, name+": leader", v.Record.Holder, other)
			equal(t, name+": expired", v.Expired, c.reason != "")
			equal(t, name+": reason", v.Reason, c.reason)
		}
	})

	t.Run("of_a_term_of_its_own_that_ended_unreleased_says_that_nobody_leads", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.pass(20 * time.Second) // no request is answered
		r.step(DutyStopped{election1, b.Epoch})
		v, _ := r.c.View(election1, r.now)
		equal(t, "leader", v.Record.Holder.ID, "a")
		equal(t, "expired", v.Expired, true)
		equal(t, "reason", v.Reason, string(Partitioned))
	})

	t.Run("says_nothing_of_what_was_never_received_and_no_age_of_its_own_heartbeat", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		_, ok := r.c.View(election1, r.now)
		equal(t, "known", ok, false)
		r.lead()
		v, ok := r.c.View(election1, r.now)
		equal(t, "known", ok, true)
		equal(t, "leader", v.Record.Holder.ID, "a")
		equal(t, "watched", v.Watched, false)
	})
}
