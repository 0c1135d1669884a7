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
