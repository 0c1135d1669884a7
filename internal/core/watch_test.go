package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestWatch is about a heartbeat that was received at second 1 and watched since, until a swap showed that it had been
// replaced, when request 5 was the last to be sent: which read begins a new watch of it (rule 2)?
func TestWatch(t *testing.T) {
	record := driver.Record{Name: remote, Rev: "1", Holder: other, Nonce: 1}
	edit := record
	edit.Rev, edit.Edits = "2", 1

	for _, c := range []struct {
		name  string
		moved uint64
		shown driver.Record
		order uint64
		since Time
	}{
		{"none_if_it_has_not_moved", 0, record, 6, 1},
		{"one_that_was_sent_afterwards", 5, record, 6, 9},
		{"not_one_that_was_sent_before", 5, record, 4, 1},
		{"not_one_that_was_sent_before_the_newest", 0, driver.Record{Rev: "0"}, 2, 1},
		{"not_one_that_shows_an_edit_of_it", 5, edit, 6, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, lockConfig())
			r.c.now = 9
			w := watch{rec: record, seen: true, since: 1, order: 3, moved: c.moved}
			news := r.c.see(&w, &c.shown, call{id: c.order << 32, sent: 8})
			equal(t, "watched since", w.since, c.since)
			equal(t, "news", news, c.order == 6)
			equal(t, "moved", w.moved != 0, c.moved != 0 && !news)
		})
	}
}

func TestMovedWatch(t *testing.T) {
	t.Run("begins_anew_with_an_edit_if_another_heartbeat_had_replaced_it", func(t *testing.T) {
		r := newRig(t, lockConfig())
		w := watch{}
		r.c.now = 30
		r.c.see(&w, &driver.Record{Rev: "1", Holder: other, Nonce: 7, Duration: 6}, call{id: 3 << 32, sent: 20})
		w.replaced(&driver.Record{Rev: "2", Holder: other, Nonce: 8, Duration: 6}, 4, 9)
		r.c.now = 41
		r.c.see(&w, &driver.Record{Rev: "3", Holder: other, Nonce: 7, Edits: 1, Duration: 6}, call{id: 10 << 32,
			sent: 40})
		equal(t, "watched since", w.since, 41)
	})

	seen := func() watch {
		r := newRig(t, lockConfig())
		w := watch{}
		r.c.now = 30
		r.c.see(&w, &driver.Record{Rev: "1", Holder: other, Duration: 6}, call{id: 3 << 32, sent: 20})
		r.c.now = 41
		r.c.see(&w, &driver.Record{Rev: "1", Holder: other, Duration: 6}, call{id: 4 << 32, sent: 40})
		equal(t, "expired", w.expired(0), true)
		equal(t, "read at", w.readAt(0), Never)
		return w
	}

	t.Run("has_not_expired_and_is_read_at_once", func(t *testing.T) {
		w := seen()
		w.passed("1", 9)
		equal(t, "expired", w.expired(0), false)
		equal(t, "read at", w.readAt(0), 40)
	})

	t.Run("is_of_a_process_that_may_live_although_the_one_before_was_proved_dead", func(t *testing.T) {
		r := newRig(t, lockConfig())
		w := watch{}
		r.c.see(&w, &driver.Record{Rev: "1", Holder: other, Duration: 6}, call{id: 3 << 32, gone: true, witness: true})
		equal(t, "expired", w.expired(0), true)
		r.c.see(&w, &driver.Record{Rev: "2", Holder: other, Duration: 6}, call{id: 4 << 32, witness: true})
		equal(t, "expired", w.expired(0), false)
	})

	t.Run("is_not_that_of_another_revision", func(t *testing.T) {
		w := seen()
		w.passed("0", 9)
		equal(t, "expired", w.expired(0), true)
	})

	t.Run("is_known_from_a_late_answer_only_if_that_was_sent_after_the_newest", func(t *testing.T) {
		w := seen()
		equal(t, "replaced", w.replaced(&driver.Record{Rev: "0"}, 2, 9), false)
		equal(t, "replaced", w.replaced(&driver.Record{Rev: "1"}, 5, 9), false)
		equal(t, "expired", w.expired(0), true)
		equal(t, "replaced", w.replaced(&driver.Record{Rev: "2"}, 5, 9), true)
		equal(t, "expired", w.expired(0), false)
	})
}

// TestRecordsThatComeBack is about heartbeats that a request of this member has found replaced, and that the store
// brings back afterwards: what was watched until then is over (rule 2).
func TestRecordsThatComeBack(t *testing.T) {
	// waits fails the test unless the lease is given its full time from now on.
	waits := func(r *rig, taken func() bool) {
		t.Helper()
		r.run(5900 * time.Millisecond)
		equal(t, "taken over before the lease has passed", taken(), false)
		r.run(3 * time.Second)
		equal(t, "taken over", taken(), true)
	}
	leads := func(r *rig) func() bool { return func() bool { return len(every[Begin](r)) > 0 } }

	t.Run("after_a_revocation_that_met_another_one", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(7*time.Second - 1)
		r.pass(1)
		r.answer(r.take(remote), Done, r.store[remote])
		revocation := r.take(remote)
		equal(t, "verb", revocation.Verb, Swap)
		r.answer(revocation, Conflict, driver.Record{}) // and the store loses what it has met
		waits(r, leads(r))
	})

	t.Run("after_a_claim_that_met_another_one", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 3, ""))
		r.start()
		r.run(6*time.Second - 1)
		r.pass(1)
		r.answer(r.take(election1), Done, r.store[election1])
		claim := r.take(election1)
		equal(t, "verb", claim.Verb, Swap)
		r.answer(claim, Conflict, driver.Record{})
		waits(r, leads(r))
	})

	t.Run("after_a_revocation_before_joining_that_met_another_one", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77))
		r.start()
		r.run(6*time.Second - 1)
		r.pass(1)
		r.answer(r.take(own), Done, r.store[own])
		revocation := r.take(own)
		equal(t, "verb", revocation.Verb, Swap)
		r.answer(revocation, Conflict, driver.Record{})
		waits(r, func() bool { return r.c.member.phase == memberIn })
	})

	t.Run("after_an_answer_that_came_too_late", func(t *testing.T) {
		for _, cfg := range []Config{lockConfig(), clusterConfig()} {
			r := newRig(t, cfg)
			register := election1
			via := ""
			if !cfg.OwnLease {
				register, via = remote, remote
				r.put(beating(other, 50))
			}
			r.put(held(other, 3, via))
			r.start()
			r.run(4 * time.Second)
			r.step(Notice{driver.Record{Name: register}})
			late := r.take(register)
			r.pass(1300 * time.Millisecond) // longer than its timeout
			renewed := r.store[register]
			renewed.Rev, renewed.Nonce = "lost", 51
			r.answer(late, Done, renewed)
			waits(r, leads(r))
		}
	})

	t.Run("after_an_answer_that_came_too_late_for_joining", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77))
		r.start()
		r.run(2900 * time.Millisecond)
		r.pass(100 * time.Millisecond)
		late := r.take(own)
		r.pass(1300 * time.Millisecond) // longer than its timeout
		renewed := r.store[own]
		renewed.Rev, renewed.Nonce = "lost", 78
		r.answer(late, Done, renewed)
		waits(r, func() bool { return r.c.member.phase == memberIn })
	})

	t.Run("after_another_request_of_this_member_was_shown_another_one", func(t *testing.T) {
		cfg := lockConfig()
		cfg.Register = true
		r := newRig(t, cfg)
		twin := beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77)
		first := r.put(twin)
		r.put(held(twin.Holder, 3, own))
		r.start()
		r.run(time.Second)

		// The member reads its register, to join, and sees a heartbeat which nobody else does.
		twin.Nonce++
		renewed := r.put(twin)
		r.pass(500 * time.Millisecond)
		join := r.take(own)
		r.answer(join, Done, renewed)
		r.store[own] = first
		r.pending = nil
		s := r.c.sights.all[r.c.sighted[own]]
		equal(t, "the watch of the leader's heartbeat", s.watch.rec.Rev, renewed.Rev)
		waits(r, leads(r))
	})
}

// TestJoinAfterASight is about a member that waits for another process with its ID, whose heartbeat it watches as that
// of a leader, too: it joins as soon as any request has shown that the other one has left.
func TestJoinAfterASight(t *testing.T) {
	cfg := lockConfig()
	cfg.Register = true
	r := newRig(t, cfg)
	twin := beating(driver.Identity{ID: "a", Incarnation: "1.twin"}, 77)
	r.put(twin)
	r.put(held(twin.Holder, 3, own))
	r.start()
	r.run(2 * time.Second)
	r.event(EventWaiting)

	left := r.store[own]
	left.Holder = driver.Identity{}
	r.put(left)
	r.step(Notice{driver.Record{Name: own}})
	r.serve()
	r.event(EventJoined)
}

func TestReadsOfALock(t *testing.T) {
	cfg := lockConfig()
	cfg.ElectionInterval = time.Minute
	cfg.ElectionIntervalMax = time.Minute
	// reads returns when the lock is read, from the first read on.
	reads := func(r *rig, began Time) []time.Duration {
		var all []time.Duration
		for _, s := range r.pending {
			if s.Record.Name == election1 && s.Verb == Get {
				all = append(all, time.Duration(r.now-began))
			}
		}
		return all
	}

	t.Run("three_in_a_lease", func(t *testing.T) {
		r := newRig(t, cfg)
		r.put(held(other, 3, ""))
		r.start()
		r.serve()
		began := r.now
		var all []time.Duration
		for r.now < began.Add(5900*time.Millisecond) {
			r.pass(100 * time.Millisecond)
			all = append(all, reads(r, began)...)
			r.serve()
		}
		equal(t, "reads", len(all), 2)
		equal(t, "first", all[0], 2*time.Second)
		equal(t, "second", all[1], 4*time.Second)
	})

	t.Run("one_that_cannot_be_read_is_not_read_any_sooner_once_it_has_expired", func(t *testing.T) {
		r := newRig(t, cfg)
		r.put(held(other, 3, ""))
		r.start()
		r.serve()
		n := 0
		for range 300 {
			r.pass(100 * time.Millisecond)
			for len(r.pending) > 0 {
				n++
				r.answer(r.take(election1), Unknown, driver.Record{})
			}
		}
		if n < 3 || n > 60 {
			t.Errorf("%d reads in 30 s", n)
		}
	})
}

// Requests to whoever holds an election are edits of its record.
func TestEditsOfADeadHoldersRecord(t *testing.T) {
	edit := func(r *rig, rec driver.Record) driver.Record {
		t.Helper()
		rec.Edits++
		rec.Next = "x" + rec.Next
		rec = r.put(rec)
		r.step(Notice{Record: driver.Record{Name: election1}})
		r.answer(r.take(election1), Done, rec)
		return rec
	}

	t.Run("need_no_new_read_of_its_heartbeat", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		rec := r.put(held(other, 3, remote))
		r.start()
		r.run(2 * time.Second)
		edit(r, rec)
		r.none(remote)
	})

	t.Run("do_not_restart_the_time_of_better_candidates", func(t *testing.T) {
		cfg := clusterConfig()
		cfg.Rank = "lexicographic"
		r := newRig(t, cfg)
		r.put(vacated(new(beating(other, 50)), 51, time.Time{}, ReasonDied))
		rec := r.put(held(other, 3, remote))
		r.start()
		r.pass(time.Millisecond)
		for range 3 {
			r.serve()
		}
		e := r.c.elections.all[0]
		since := e.openSince
		equal(t, "found free", e.open, true)
		r.pass(10 * time.Millisecond)
		edit(r, rec)
		equal(t, "free since", e.openSince, since)
	})
}

// A list may show a heartbeat that nobody reads, and that the store loses afterwards.
func TestAHeartbeatThatOnlyAListHasShown(t *testing.T) {
	r := newRig(t, ranked(RankPriority))
	b := candidate("b", `,"priority":9`)
	first := r.put(b)
	r.put(held(b.Holder, 5, b.Name))
	r.start()
	r.run(time.Second)

	r.step(Notice{driver.Record{Name: b.Name}})
	r.take(b.Name) // it is not answered in time
	b.Nonce++
	r.put(b)
	r.c.listSoon()
	r.run(0)
	if r.lists() == 0 {
		t.Fatal("the members are not listed")
	}

	r.store[b.Name] = first // the store goes back
	r.run(b.Duration)
	if r.store[b.Name].Vacant() {
		t.Fatal("it is revoked before it was watched for a lease")
	}
	r.run(b.Duration)
	if !r.store[b.Name].Vacant() {
		t.Fatal("it is never revoked")
	}
}
