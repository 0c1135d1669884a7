package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// lostFloor returns a rig that retires an election in epoch 10, whose store has just lost the write that raised the
// floor for it. The rig reads the floor from time to time.
func lostFloor(t *testing.T) *rig {
	r := newRig(t, restingConfig())
	r.put(driver.Record{Name: "job", Epoch: 10, Nonce: 9, Duration: time.Second})
	r.step(Campaign{"other"})
	r.step(Join{})
	r.serve()
	r.step(Retire{ID: 1, Register: "job"})
	r.serve()

	lost := r.store[driver.FloorRegister]
	equal(t, "floor", lost.Epoch, 10)
	lost.Epoch = 0
	r.put(lost)
	return r
}

func TestRetirementOverALostFloor(t *testing.T) {
	t.Run("rests_anew_from_when_the_floor_stands_again", func(t *testing.T) {
		r := lostFloor(t)
		start := r.now
		raised := Never
		for range 30 * 60 {
			r.run(time.Second)
			if raised == Never && r.store[driver.FloorRegister].Epoch >= 10 {
				raised = r.now
			}
			if _, ok := r.store["job"]; !ok {
				break
			}
		}
		if rested := r.now - raised; rested < Time(10*time.Minute) {
			t.Errorf("removed after %v, %v after the floor stood again", time.Duration(r.now-start),
				time.Duration(rested))
		}
		r.want(OK)
	})

	t.Run("is_no_reason_to_claim_below_it", func(t *testing.T) {
		a := lostFloor(t)
		a.run(4*time.Minute + 25*time.Second)

		// Another process reads the floor now, before it is raised again.
		cfg := restingConfig()
		cfg.ID = "b"
		b := newRig(t, cfg)
		b.store = a.store
		b.rev = 100_000
		b.now = a.now
		b.step(Watch{"w"})
		b.step(Campaign{"z"})
		b.step(Join{})
		b.serve()
		equal(t, "floor", b.c.floor.epoch, 0)
		b.step(Withdraw{"z"})
		b.step(DutyStopped{"z", find[Begin](b).Epoch})
		b.serve()
		b.forget()

		for range 6 * 60 {
			a.run(time.Second)
			b.now = a.now
			b.step(Tick{})
			b.serve()
		}
		b.step(Campaign{"job"})
		b.serve()
		for _, e := range every[Begin](b) {
			if e.Epoch <= 10 {
				t.Errorf("%s is led in epoch %d, after epoch 10", e.Election, e.Epoch)
			}
		}
	})
}

func TestRetirementGivesUp(t *testing.T) {
	r := newRig(t, restingConfig())
	r.step(Join{})
	r.serve()
	r.step(Retire{ID: 1, Register: "job"})
	for range 10 * 60 {
		for len(r.pending) > 0 {
			s := r.pending[0]
			r.pending = r.pending[1:]
			r.answer(s, Unknown, driver.Record{})
		}
		r.pass(time.Second)
	}
	r.want(Unanswered)
}

func TestInheritedFloor(t *testing.T) {
	r := newRig(t, restingConfig())
	r.put(driver.Record{Name: driver.FloorRegister, Epoch: 10})
	r.step(Campaign{election1})
	r.step(Join{})
	r.serve()

	next := newRig(t, restingConfig()) // its store has lost everything
	next.c.Inherit(r.c)
	next.step(Campaign{"job"})
	next.step(Join{})
	next.serve()
	if epoch := find[Begin](next).Epoch; epoch <= 10 {
		t.Errorf("epoch %d, below the floor that this process had seen", epoch)
	}
}

func TestAnElectionThatIsUsedAgainAndAgainIsNotedOnce(t *testing.T) {
	r := newRig(t, restingConfig())
	r.step(Join{})
	r.serve()
	for range 50 {
		r.forget()
		r.step(Campaign{"job"})
		r.serve()
		epoch := find[Begin](r).Epoch
		r.step(Withdraw{"job"})
		r.step(DutyStopped{"job", epoch})
		r.serve()
		r.pass(time.Second)
		r.serve()
	}
	equal(t, "noted", len(r.c.dropped), 1)
}

// What a retirement was shown counts for the member's own claims (rule 5).
func TestWhatARetirementWasShownCounts(t *testing.T) {
	r := newRig(t, restingConfig())
	job := held(other, 5, "")
	job.Name = "job"
	r.put(job)
	r.step(Join{})
	r.serve()
	r.step(Retire{ID: 1, Register: "job"})
	r.serve()
	r.want(InUse)

	delete(r.store, "job") // the store has lost it
	r.step(Campaign{"job"})
	r.run(20 * time.Second)
	if epoch := find[Begin](r).Epoch; epoch != 6 {
		t.Errorf("epoch %d, want 6", epoch)
	}
}

// An election that was held a moment ago cannot have been retired since, also if this member has dropped it meanwhile.
func TestALostRegisterOfADroppedElection(t *testing.T) {
	r := newRig(t, restingConfig())
	r.put(driver.Record{Name: driver.FloorRegister, Epoch: 7})
	job := held(other, 3, "")
	job.Name = "job"
	r.put(job)
	r.step(Watch{"job"})
	r.step(Join{})
	r.run(time.Second)
	r.step(Unwatch{"job"})
	r.run(time.Second)

	delete(r.store, "job") // the store has lost it
	r.forget()
	r.step(Campaign{"job"})
	r.run(5 * time.Second)
	r.event(EventRegressed)
	equal(t, "terms", len(every[Begin](r)), 0)
}

// A removal covers the epochs up to that of the record which it removes. A later one that the member was shown, and
// that the store has lost since, still has to be waited for (rule 5).
func TestARemovalCoversNoLaterEpoch(t *testing.T) {
	r := newRig(t, restingConfig())
	r.put(driver.Record{Name: driver.FloorRegister, Epoch: 9})
	rested := r.put(driver.Record{Name: election1, Epoch: 5, Nonce: 1, Duration: time.Second})
	r.step(Join{})
	r.serve()
	r.step(Retire{ID: 1, Register: election1})
	r.run(10*time.Minute - 2*time.Second)

	r.put(held(other, 6, ""))
	r.step(Watch{election1})
	r.serve()
	r.step(Unwatch{election1})
	r.serve()
	r.store[election1] = rested // the store has lost the claim
	r.run(3 * time.Second)
	r.want(OK)

	r.forget()
	r.step(Campaign{election1})
	r.run(5 * time.Second)
	r.event(EventRegressed)
	equal(t, "terms", len(every[Begin](r)), 0)
	r.run(2 * time.Second)
	equal(t, "epoch", find[Begin](r).Epoch, 10)
}

// However many registers are removed at once, few requests are under way, and nobody gives up because others have
// their turn first.
func TestVeryManyRetirementsTakeTurns(t *testing.T) {
	const registers = 10_000
	r := newRig(t, restingConfig())
	for i := range registers {
		r.put(driver.Record{Name: lockName(i), Epoch: 1, Nonce: 9, Duration: time.Second})
	}
	r.step(Join{})
	for i := range registers {
		r.step(Retire{ID: uint64(i + 1), Register: lockName(i)})
	}

	most := 0
	for range 30 * 60 { // the store answers 100 requests in a second
		r.pass(time.Second)
		most = max(most, len(r.pending))
		pending := r.pending
		r.pending = nil
		for i, s := range pending {
			if i < 100 {
				o, rec := r.apply(s)
				r.answer(s, o, rec)
			} else {
				r.answer(s, NotSent, driver.Record{})
			}
		}
	}
	r.serve()
	if most > maxRetiring+2 { // and the member's own
		t.Errorf("%d requests at once", most)
	}
	done := 0
	for _, e := range every[Result](r) {
		if e.Result == OK {
			done++
		}
	}
	equal(t, "registers that were removed", done, registers)
}

// manyWaiting returns a rig in which as many retirements as may wait for the store, and two more for their turn.
func manyWaiting(t *testing.T) *rig {
	r := newRig(t, restingConfig())
	r.step(Join{})
	r.serve()
	for i := range maxRetiring + 2 {
		r.put(driver.Record{Name: lockName(i), Epoch: 1, Nonce: 9, Duration: time.Second})
		r.step(Retire{ID: uint64(i + 1), Register: lockName(i)})
	}
	equal(t, "requests", len(r.pending), maxRetiring)
	equal(t, "waiting", len(r.c.retiring.waiting), 2)
	return r
}

func TestTurnsOfRetirements(t *testing.T) {
	t.Run("an_answer_gives_the_turn_to_the_next", func(t *testing.T) {
		r := manyWaiting(t)
		r.answer(r.take(lockName(0)), NotFound, driver.Record{})
		r.take(lockName(maxRetiring))
		r.none(lockName(maxRetiring + 1))
	})

	t.Run("who_waits_is_listed_once", func(t *testing.T) {
		r := manyWaiting(t)
		last := r.c.retirements.all[maxRetiring+1]
		r.c.enqueue(last.ref)
		r.step(Tick{})
		equal(t, "waiting", len(r.c.retiring.waiting), 2)
	})

	t.Run("who_has_to_wait_for_the_floor_passes_the_turn_on", func(t *testing.T) {
		r := manyWaiting(t)
		first := r.c.retirements.all[maxRetiring]
		first.phase = retireRemove // and the floor was never read
		r.answer(r.take(lockName(0)), NotFound, driver.Record{})
		r.none(lockName(maxRetiring))
		r.take(lockName(maxRetiring + 1))
	})
}
