package core

import (
	"testing"
	"time"
)

// A shell whose loop was stuck ends terms by itself, and then steps the core with what has piled up: an answer that
// would have moved the deadline, and the end of the duty.
func TestExpiredByTheShell(t *testing.T) {
	for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, cfg)
			b := r.lead()
			equal(t, "guard before the deadline", b.Guard < b.Deadline, true)
			r.pass(1500 * time.Millisecond)
			renewal := r.take(b.Register)
			r.now = b.Guard
			r.forget()

			done, rec := r.apply(renewal)
			r.step(Answer{ID: renewal.ID, Outcome: done, Record: rec}) // the loop was stuck: this was received long ago
			r.step(Expired{b.Register, "another"})
			if n := len(every[End](r)); n != 0 {
				t.Fatalf("an incarnation that is not this one has ended %d terms", n)
			}

			r.step(Expired{b.Register, b.Incarnation})
			equal(t, "cause", find[End](r).Cause, Partitioned)
			last := every[Renewed](r)
			equal(t, "deadline", last[len(last)-1].Deadline, 0)
			r.step(DutyStopped{election1, b.Epoch})
			r.run(20 * time.Second)
			if again := every[Begin](r); len(again) != 1 {
				t.Errorf("the member has begun %d terms afterwards, want 1: %s", len(again), r.list())
			}
		})
	}
}

// The contexts of all terms end with the heartbeat, but the core ends the terms in portions. A duty that stops before
// its turn has come has not returned of its own accord.
func TestADutyStopsBeforeItsTermIsEnded(t *testing.T) {
	r := newRig(t, clusterConfig())
	b := r.lead()
	r.forget()
	r.c.dropMember(Lost)
	r.step(DutyStopped{election1, b.Epoch})
	equal(t, "cause", find[End](r).Cause, Lost)
	equal(t, "campaigns", r.c.elections.all[0].wanted, true)
}
