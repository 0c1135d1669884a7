package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// The holder's side: rules 1, 3, 7 and 9.

func TestDeadlines(t *testing.T) {
	d := 6*time.Second - 12*time.Millisecond - time.Second // D of rule 1

	t.Run("a_claim_counts_from_before_it_was_sent", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.start()
		r.answer(r.take(election1), NotFound, driver.Record{})
		sent := r.now
		claim := r.take(election1)
		r.now = r.now.Add(time.Second)
		_, rec := r.apply(claim)
		r.answer(claim, Done, rec)
		equal(t, "deadline", find[Begin](r).Deadline, sent.Add(d))
	})

	t.Run("a_heartbeat_counts_from_before_it_was_sent", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.lead()
		r.forget()
		r.pass(1500 * time.Millisecond)
		sent := r.now
		beat := r.take(own)
		r.now = r.now.Add(700 * time.Millisecond)
		_, rec := r.apply(beat)
		r.answer(beat, Done, rec)
		equal(t, "deadline", find[Renewed](r).Deadline, sent.Add(d))
	})

	t.Run("a_claim_does_not_count_under_a_later_incarnation", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.start()
		r.answer(r.take(own), NotFound, driver.Record{})
		join := r.take(own)
		_, rec := r.apply(join)
		r.answer(join, Done, rec)
		read := r.take(election1)
		r.answer(read, NotFound, driver.Record{})
		claim := r.take(election1)
		r.apply(claim) // the answer is lost

		r.pass(6 * time.Second) // the heartbeat is lost, too
		r.event(EventDropped)
		r.pending = nil
		r.run(20 * time.Second)
		for _, b := range every[Begin](r) {
			if b.Incarnation == rec.Holder.Incarnation {
				t.Fatalf("the claim of %v counts: %+v", rec.Holder, b)
			}
		}
	})

	t.Run("a_claim_does_not_count_if_it_is_found_after_the_next_join", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.start()
		r.serveOnly(own)
		r.answer(r.take(election1), NotFound, driver.Record{})
		r.apply(r.take(election1)) // the answer is lost
		first := r.store[own].Holder

		r.pass(6 * time.Second) // the heartbeat is lost, too
		r.event(EventDropped)
		r.pending = nil
		r.forget()
		for n := 0; r.count(EventJoined) == 0 && n < 100; n++ {
			r.pass(100 * time.Millisecond)
			r.serveOnly(own)
		}
		r.event(EventJoined)
		equal(t, "named by the election", r.store[election1].Holder, first)
		r.run(20 * time.Second)
		if b := every[Begin](r)[0]; b.Incarnation == first.Incarnation {
			t.Fatalf("the claim of %v counts: %+v", first, b)
		}
	})

	t.Run("a_term_ends_before_its_deadline", func(t *testing.T) {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			r := newRig(t, cfg)
			b := r.lead()
			r.forget()
			r.pass(time.Duration(b.Deadline-r.now) - 1)
			equal(t, name, find[End](r).Cause, Partitioned)
		}
	})
}

func TestUnknownOutcomes(t *testing.T) {
	t.Run("a_lost_answer_of_a_claim_is_adopted_from_when_it_was_sent", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.start()
		r.answer(r.take(election1), NotFound, driver.Record{})
		sent := r.now
		claim := r.take(election1)
		r.apply(claim)
		r.answer(claim, Unknown, driver.Record{})
		r.run(2 * time.Second)
		equal(t, "deadline", find[Begin](r).Deadline, sent.Add(r.c.cfg.trust(6*time.Second)))
	})

	t.Run("a_claim_that_is_found_after_its_deadline_is_given_back", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.start()
		r.answer(r.take(election1), NotFound, driver.Record{})
		claim := r.take(election1)
		r.pass(5500 * time.Millisecond)
		r.pending = nil
		r.apply(claim)
		r.run(5 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 1) // the next one
		past := r.store[election1].Past
		equal(t, "reason", past[0].Reason, ReasonAbandoned)
	})

	t.Run("an_earlier_attempt_that_a_read_shows_counts_from_when_it_was_sent", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		r.pass(1500 * time.Millisecond)
		first := r.now
		beat := r.take(election1)
		_, rec := r.apply(beat)
		r.answer(beat, Unknown, driver.Record{})
		r.answer(r.take(election1), Unknown, driver.Record{}) // the read after it
		r.pass(500 * time.Millisecond)
		r.answer(r.take(election1), Unknown, driver.Record{}) // the second try, which never arrives
		r.forget()
		r.answer(r.take(election1), Done, rec)
		equal(t, "deadline", find[Renewed](r).Deadline, first.Add(r.c.cfg.trust(6*time.Second)))
	})

	t.Run("an_attempt_of_nobody_is_not_held", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		r.pass(1500 * time.Millisecond)
		r.answer(r.take(election1), Conflict, driver.Record{})
		forgotten := r.store[election1]
		forgotten.Nonce = 4711
		r.answer(r.take(election1), Done, r.put(forgotten))
		equal(t, "cause", find[End](r).Cause, Lost)
	})

	t.Run("an_edit_is_met_and_the_next_heartbeat_is_sent_at_once", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		edited := r.store[election1]
		edited.Paused = true
		edited.Edits++
		r.put(edited)
		r.pass(1500 * time.Millisecond)
		r.serve()
		equal(t, "ended", len(every[End](r)), 0)
		equal(t, "edits", r.store[election1].Edits, 0)
		equal(t, "paused", r.store[election1].Paused, true)
	})
}

func TestFailingRenewals(t *testing.T) {
	t.Run("are_tried_again_after_the_backoff_and_then_given_up", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		r.forget()
		began := r.now
		var waits []time.Duration
		for len(every[End](r)) == 0 && r.now < began.Add(time.Minute) {
			r.pass(time.Duration(max(1, r.c.Next()-r.now)))
			for len(r.pending) > 0 { // the store refuses everything at once
				s := r.pending[0]
				r.pending = r.pending[1:]
				if s.Verb == Swap {
					waits = append(waits, time.Duration(r.now-began))
				}
				r.answer(s, Unknown, driver.Record{})
			}
		}
		ms := time.Millisecond
		want := []time.Duration{1500 * ms, 2000 * ms, 3000 * ms, 5000 * ms}
		for i, w := range waits {
			if i < len(want) {
				equal(t, "try", w.Round(ms), want[i])
			}
		}
		equal(t, "cause", find[End](r).Cause, Partitioned)
	})

	t.Run("a_hung_request_holds_up_neither_the_end_nor_the_next_join", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.pass(1500 * time.Millisecond)
		r.take(own) // it is never answered
		r.forget()
		r.pass(time.Duration(b.Deadline - r.now))
		equal(t, "cause", find[End](r).Cause, Partitioned)
		r.pending = nil
		r.forget()
		r.step(DutyStopped{election1, b.Epoch})
		equal(t, "stopped", find[Lifeline](r).Stopped, true)
		equal(t, "verb", r.take(own).Verb, Get) // the next incarnation joins
	})
}

func TestMember(t *testing.T) {
	t.Run("a_lost_heartbeat_ends_all_terms_and_the_next_join_waits_for_the_duties", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		gone := r.store[own]
		gone.Holder = driver.Identity{}
		r.put(gone)
		r.forget()
		r.run(3 * time.Second)
		equal(t, "cause", find[End](r).Cause, Lost)
		r.absent(EventJoined)
		r.step(DutyStopped{election1, b.Epoch})
		r.run(time.Second)
		r.event(EventJoined)
		equal(t, "epoch", find[Begin](r).Epoch, b.Epoch+1)
	})

	t.Run("another_process_with_the_same_id_is_waited_for_and_revoked", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		twin := driver.Identity{ID: "a", Incarnation: "1.twin"}
		r.put(beating(twin, 77))
		r.start()
		began := r.now
		r.run(5900 * time.Millisecond)
		r.event(EventWaiting)
		r.absent(EventJoined)
		r.run(200 * time.Millisecond)
		r.event(EventJoined)
		equal(t, "count", r.store[own].Epoch, 2)
		if r.now < began.Add(6*time.Second) {
			t.Fatal("it joined too early")
		}
	})

	t.Run("what_was_won_is_read_again_after_the_next_heartbeat", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		lost := r.store[election1]
		lost.Holder = driver.Identity{}
		lost.Epoch = 0
		r.put(lost) // the store lost the claim and kept the heartbeat
		r.forget()
		r.run(1600 * time.Millisecond)
		equal(t, "ended", find[End](r).Epoch, b.Epoch)
	})

	t.Run("what_is_held_is_read_every_half_lease", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.run(10 * time.Second)
		lost := r.store[election1]
		lost.Holder = other
		lost.Epoch++
		r.put(lost)
		r.forget()
		r.run(3100 * time.Millisecond)
		equal(t, "ended", find[End](r).Epoch, b.Epoch)
	})
}

func TestEndOfTerm(t *testing.T) {
	t.Run("the_duty_stops_then_the_election_is_released_then_the_event_is_sent", func(t *testing.T) {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			r := newRig(t, cfg)
			b := r.lead()
			r.forget()
			r.step(StepDown{ID: 5, Election: election1})
			equal(t, name, find[End](r).Cause, SteppedDown)
			r.none(election1)
			r.absent(EventLostLeadership)
			r.step(DutyStopped{election1, b.Epoch})
			r.absent(EventLostLeadership)
			r.serve()
			r.event(EventLostLeadership)
			equal(t, name, find[Result](r).Result, OK)
			rec := r.store[election1]
			equal(t, name, rec.Vacant(), true)
			equal(t, name, rec.Next, anyone)
		}
	})

	t.Run("a_duty_that_does_not_stop_is_reported_and_nothing_is_released", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.lead()
		r.step(StepDown{ID: 5, Election: election1})
		r.run(999 * time.Millisecond)
		r.absent(EventDutyStuck)
		r.run(time.Minute)
		r.event(EventDutyStuck)
		rec := r.store[election1]
		equal(t, "vacant", rec.Vacant(), false)
	})

	t.Run("a_release_does_not_touch_somebody_elses_record", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		taken := r.put(held(other, b.Epoch+1, ""))
		r.step(StepDown{ID: 5, Election: election1})
		r.step(DutyStopped{election1, b.Epoch})
		r.serve()
		equal(t, "record", r.store[election1].Rev, taken.Rev)
	})

	t.Run("the_reaper_hears_of_the_term_before_it_begins_and_of_its_end_before_the_release", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		lines := every[Lifeline](r)
		equal(t, "holds", lines[len(lines)-1].Holds, true)
		r.forget()
		r.step(StepDown{ID: 5, Election: election1})
		r.step(DutyStopped{election1, b.Epoch})
		line := find[Lifeline](r)
		equal(t, "stopped", line.Stopped, true)
		equal(t, "over", line.Over, false)
		r.forget()
		r.serve()
		equal(t, "over", find[Lifeline](r).Over, true)
	})

	t.Run("closing_releases_and_leaves", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.forget()
		r.step(Close{})
		r.run(time.Second)
		r.step(DutyStopped{election1, b.Epoch})
		r.serve()
		equal(t, "left", find[Closed](r).Left, true)
		for _, name := range []string{election1, own} {
			rec := r.store[name]
			equal(t, name, rec.Vacant(), true)
		}
		equal(t, "next", r.c.Next(), Never)
	})
}
