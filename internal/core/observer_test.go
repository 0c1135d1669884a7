package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// The observer's side: rules 2, 5, 6, 10, 11 and 12.

func TestExpiry(t *testing.T) {
	t.Run("an_own_lease_expires_after_w_from_the_answer", func(t *testing.T) {
		r := newRig(t, lockConfig())
		rec := r.put(held(other, 3, ""))
		r.start()
		read := r.take(election1)
		r.now = r.now.Add(time.Second)
		r.answer(read, Done, rec)
		r.run(6*time.Second - 1)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(time.Millisecond)
		equal(t, "epoch", find[Begin](r).Epoch, 4)
	})

	t.Run("a_heartbeat_gives_time_and_an_edit_does_not", func(t *testing.T) {
		for _, edit := range []bool{true, false} {
			r := newRig(t, lockConfig())
			r.put(held(other, 3, ""))
			r.start()
			r.run(4 * time.Second)
			rec := r.store[election1]
			if edit {
				rec.Edits++
			} else {
				rec.Nonce++
			}
			r.put(rec)
			r.run(4 * time.Second)
			equal(t, "took over", len(every[Begin](r)) == 1, edit)
		}
	})

	t.Run("a_heartbeat_of_a_member_is_revoked_after_w_and_the_takeover_delay_and_read_before_that", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(7*time.Second - 1)
		rec := r.store[remote]
		equal(t, "vacant", rec.Vacant(), false)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(time.Millisecond)
		rec = r.store[remote]
		equal(t, "vacant", rec.Vacant(), true)
		equal(t, "epoch", find[Begin](r).Epoch, 4)
	})

	t.Run("a_holder_that_has_left_is_followed_without_delay", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(driver.Record{Name: remote, Epoch: 1, Nonce: 60, Duration: 6 * time.Second})
		r.put(held(other, 3, remote))
		r.start()
		r.run(time.Millisecond)
		equal(t, "epoch", find[Begin](r).Epoch, 4)
	})

	t.Run("a_holder_that_has_joined_again_has_a_head_start", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		again := beating(driver.Identity{ID: "b", Incarnation: "2.y"}, 60)
		again.Epoch = 2
		r.put(again)
		r.put(held(other, 3, remote))
		r.start()
		r.run(1400 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(200 * time.Millisecond)
		equal(t, "epoch", find[Begin](r).Epoch, 4)
	})

	t.Run("a_death_is_taken_only_from_a_read_that_was_sent_after_the_record_was_received", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(other, 50))
		r.put(held(other, 3, remote))
		r.start()
		r.run(time.Second)

		// The holder leaves and joins again; its new incarnation takes the election. A read of its register that
		// was sent before the new record was received shows the register in between.
		r.step(Notice{driver.Record{Name: remote}})
		before := r.take(remote)
		again := driver.Identity{ID: "b", Incarnation: "2.y"}
		vacant := driver.Record{Name: remote, Rev: "old", Epoch: 2, Nonce: 61, Duration: 6 * time.Second}
		next := beating(again, 62)
		next.Epoch = 2
		r.put(next)
		r.put(held(again, 4, remote))
		r.step(Notice{driver.Record{Name: election1}})
		r.answer(r.take(election1), Done, r.store[election1])
		r.answer(before, Done, vacant)
		equal(t, "verb", r.take(remote).Verb, Get)
		r.none(election1)
		r.absent(EventRegressed)
	})
}

func TestRollback(t *testing.T) {
	t.Run("a_claim_goes_beyond_every_epoch_seen", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.start()
		r.step(Observed{election1, 41})
		r.run(8 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 42)
	})

	t.Run("a_report_from_nowhere_is_not_believed", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.start()
		r.step(Observed{election1, 1 << 40})
		r.run(8 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 1)
	})

	t.Run("a_lower_epoch_is_reported_and_waited_for", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		r.put(driver.Record{Name: election1, Epoch: 3, Nonce: 70, Duration: 6 * time.Second})
		r.step(Notice{driver.Record{Name: election1}})
		r.serve()
		equal(t, "highest", r.event(EventRegressed).Epoch, 5)
		r.run(6*time.Second - 1)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(2 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 6)
	})

	t.Run("two_holders_of_one_epoch_bar_the_election", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		third := driver.Record{Name: election1, Epoch: 5, Nonce: 71, Duration: 6 * time.Second}
		third.Past = []driver.Past{{Epoch: 5, Holder: "c"}}
		r.put(third)
		r.step(Notice{driver.Record{Name: election1}})
		r.serve()
		r.event(EventRegressed)
		r.run(5 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 0)
	})

	t.Run("a_register_that_has_forgotten_a_join_proves_no_death", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(held(driver.Identity{ID: "b", Incarnation: "3.z"}, 5, remote))
		r.put(driver.Record{Name: remote, Epoch: 2, Nonce: 60, Duration: 6 * time.Second})
		r.start()
		r.run(time.Second)
		r.event(EventRegressed)
		r.run(4900 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(6 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 6)
	})

	t.Run("an_epoch_that_an_answer_showed_too_late_was_seen", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		late := r.take(election1)
		r.pass(3 * time.Second) // far beyond the timeout
		r.pending = nil
		seen := held(other, 7, "")
		seen.Rev = "lost"
		r.answer(late, Done, seen)
		r.run(20 * time.Second)
		r.event(EventRegressed)
		equal(t, "epoch", find[Begin](r).Epoch, 8)
	})

	t.Run("a_store_that_goes_back_again_is_waited_for_again_if_only_a_late_answer_showed_what_it_had",
		func(t *testing.T) {
			r := newRig(t, lockConfig())
			r.put(held(other, 7, ""))
			r.start()
			r.run(time.Second)
			vacant := driver.Record{Name: election1, Epoch: 5, Nonce: 70, Duration: 6 * time.Second}
			vacant.Next = "c" // so that it is not claimed at once
			r.put(vacant)
			r.step(Notice{driver.Record{Name: election1}})
			r.serve()
			equal(t, "highest", r.event(EventRegressed).Epoch, 7)

			// It shows epoch 7 once more, and 5 again. Epoch 7 is known, and was waited for.
			r.run(5 * time.Second)
			r.forget()
			r.step(Notice{driver.Record{Name: election1}})
			late := r.take(election1)
			r.pass(2300 * time.Millisecond) // longer than its timeout: another read is under way
			back := held(other, 7, "")
			back.Rev = "lost"
			r.answer(late, Done, back)
			r.answer(r.take(election1), Done, r.store[election1])
			r.absent(EventRegressed) // that read may be older
			r.run(time.Second)
			equal(t, "highest", r.event(EventRegressed).Epoch, 7)
			r.run(5 * time.Second)
			equal(t, "terms", len(every[Begin](r)), 0)
		})

	t.Run("a_store_that_goes_back_again_is_waited_for_again_if_a_notification_came_before_the_answer",
		func(t *testing.T) {
			r := newRig(t, lockConfig())
			r.put(held(other, 7, ""))
			r.start()
			r.run(time.Second)
			vacant := driver.Record{Name: election1, Epoch: 5, Nonce: 70, Duration: 6 * time.Second}
			vacant.Next = "c" // so that it is not claimed at once
			r.put(vacant)
			r.step(Notice{driver.Record{Name: election1}})
			r.serve()
			r.run(5 * time.Second)
			r.forget()

			r.step(Notice{driver.Record{Name: election1}})
			read := r.take(election1)
			r.step(Notice{driver.Record{Name: election1}}) // so the read may be older
			lost := held(other, 6, "")
			lost.Rev = "lost"
			r.answer(read, Done, lost)
			r.absent(EventRegressed)
			r.serve()
			r.event(EventRegressed)
			r.run(5 * time.Second)
			equal(t, "terms", len(every[Begin](r)), 0)
		})

	t.Run("an_epoch_that_no_term_can_follow_is_reported_once_and_not_remembered", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(driver.Record{Name: election1, Epoch: maxEpoch - 1, Nonce: 70, Duration: 6 * time.Second})
		r.start()
		r.run(20 * time.Second)
		report := r.event(EventUnreadable)
		equal(t, "election", report.Election, election1)
		equal(t, "reports", r.count(EventUnreadable), 1)
		equal(t, "terms", len(every[Begin](r)), 0)

		delete(r.store, election1) // somebody removes the register
		r.run(20 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 1)
		r.put(driver.Record{Name: election1, Epoch: maxEpoch, Nonce: 70, Duration: 6 * time.Second})
		r.run(20 * time.Second)
		equal(t, "reports", r.count(EventUnreadable), 2)
	})

	t.Run("an_answer_from_before_an_observed_epoch_is_no_rollback", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		read := r.take(election1)
		r.step(Observed{election1, 6})
		r.answer(read, Done, r.store[election1])
		r.absent(EventRegressed)
		equal(t, "verb", r.take(election1).Verb, Get)
	})
}

func TestNotices(t *testing.T) {
	released := func(r *rig) driver.Record {
		rec := r.store[election1]
		return r.put(vacated(&rec, 80, time.Time{}, string(Shutdown)))
	}

	t.Run("a_release_is_claimed_without_a_read", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		r.step(Notice{released(r)})
		claim := r.take(election1)
		equal(t, "verb", claim.Verb, Swap)
		equal(t, "epoch", claim.Record.Epoch, 6)
	})

	t.Run("an_older_one_is_not_claimed_on", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		old := driver.Record{Name: election1, Rev: "0", Epoch: 4, Nonce: 81, Duration: 6 * time.Second}
		r.step(Notice{old})
		equal(t, "verb", r.take(election1).Verb, Get)
	})

	t.Run("a_reservation_for_somebody_else_is_respected", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		rec := released(r)
		rec.Next = "c"
		r.step(Notice{r.put(rec)})
		r.run(1400 * time.Millisecond)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(200 * time.Millisecond)
		equal(t, "epoch", find[Begin](r).Epoch, 6)
	})

	t.Run("with_every_one_lost_a_release_is_found_by_polling", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		released(r)
		r.run(5 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 6)
	})

	t.Run("one_of_its_own_claim_does_not_delay_the_term", func(t *testing.T) {
		for _, bare := range []bool{false, true} {
			r := newRig(t, clusterConfig())
			r.start()
			for r.pending[0].Verb == Get || r.pending[0].Record.Name != election1 {
				s := r.pending[0]
				r.pending = r.pending[1:]
				o, rec := r.apply(s)
				r.answer(s, o, rec)
			}
			claim := r.take(election1)
			_, applied := r.apply(claim)
			if bare {
				r.step(Notice{driver.Record{Name: election1}})
			} else {
				r.step(Notice{applied})
			}
			r.answer(claim, Done, applied)
			equal(t, "epoch", find[Begin](r).Epoch, 1)
		}
	})

	t.Run("one_that_names_nothing_has_everything_read", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.put(held(other, 5, ""))
		r.start()
		r.run(time.Second)
		r.step(Notice{})
		equal(t, "verb", r.take(election1).Verb, Get)
	})
}

func TestStartUp(t *testing.T) {
	cfg := clusterConfig()
	cfg.StartDelay = 3 * time.Second
	r := newRig(t, cfg)
	r.start()
	r.step(Watch{"another"})
	r.step(Notice{})
	r.pass(3*time.Second - 1)
	equal(t, "requests", len(r.pending), 0)
	r.pass(1)
	if len(r.pending) == 0 {
		t.Fatal("nothing is sent after the start delay")
	}
}

func TestCandidacy(t *testing.T) {
	t.Run("who_is_not_eligible_or_unhealthy_does_not_claim", func(t *testing.T) {
		cfg := lockConfig()
		cfg.Eligible = false
		r := newRig(t, cfg)
		r.start()
		r.run(10 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 0)

		cfg = lockConfig()
		cfg.CheckHealth = true
		r = newRig(t, cfg)
		r.start()
		r.run(10 * time.Second)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.step(Health{Healthy: true})
		r.serve()
		equal(t, "epoch", find[Begin](r).Epoch, 1)
	})

	t.Run("who_withdraws_releases", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.step(Withdraw{election1})
		equal(t, "cause", find[End](r).Cause, Shutdown)
		r.step(DutyStopped{election1, b.Epoch})
		r.serve()
		find[Withdrawn](r)
		rec := r.store[election1]
		equal(t, "vacant", rec.Vacant(), true)
	})

	t.Run("who_campaigns_again_before_the_term_is_over_has_withdrawn", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.step(Withdraw{election1})
		r.step(Campaign{election1})
		equal(t, "withdrawn", len(every[Withdrawn](r)), 0)
		r.step(DutyStopped{election1, b.Epoch})
		r.run(10 * time.Second)
		find[Withdrawn](r)
		terms := every[Begin](r)
		equal(t, "terms", len(terms), 2)
		equal(t, "epoch", terms[1].Epoch, b.Epoch+1)
	})

	t.Run("who_withdraws_twice_has_withdrawn_once_and_not_before_the_term_is_over", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.step(Withdraw{election1})
		r.step(Withdraw{election1})
		r.run(500 * time.Millisecond)
		equal(t, "withdrawn", len(every[Withdrawn](r)), 0)
		r.step(DutyStopped{election1, b.Epoch})
		r.step(Withdraw{election1})
		r.serve()
		find[Withdrawn](r)
	})

	t.Run("a_duty_that_returns_by_itself_has_not_been_withdrawn", func(t *testing.T) {
		r := newRig(t, lockConfig())
		b := r.lead()
		r.step(DutyStopped{election1, b.Epoch})
		r.run(10 * time.Second)
		equal(t, "cause", find[End](r).Cause, Returned)
		equal(t, "finished", find[Finished](r).Epoch, b.Epoch)
		equal(t, "withdrawn", len(every[Withdrawn](r)), 0)
		r.step(Withdraw{election1})
		find[Withdrawn](r)
	})

	t.Run("who_only_watches_writes_nothing", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.step(Watch{election1})
		r.step(Join{})
		r.run(20 * time.Second)
		equal(t, "registers", len(r.store), 0)
	})

	t.Run("a_register_that_cannot_be_read_holds_up_no_other_election", func(t *testing.T) {
		r := newRig(t, lockConfig())
		r.step(Campaign{"broken"})
		r.start()
		for range 200 {
			for len(r.pending) > 0 {
				s := r.pending[0]
				r.pending = r.pending[1:]
				o, rec := r.apply(s)
				if s.Record.Name == "broken" {
					o = Unknown
				}
				r.answer(s, o, rec)
			}
			r.pass(100 * time.Millisecond)
		}
		equal(t, "election", find[Begin](r).Election, election1)
		equal(t, "register", r.event(EventUnreadable).Register, "broken")
	})
}
