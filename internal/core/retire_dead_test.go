package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestRetirementOfTheDead is about the register of a member that has not left: its process may have died.
func TestRetirementOfTheDead(t *testing.T) {
	const lease = time.Minute
	silent := driver.Record{
		Name: remote, Epoch: 2, Nonce: 9, Duration: lease, Data: []byte("{}"),
		Holder: other,
	}
	start := func(t *testing.T, rec driver.Record) *rig {
		r := newRig(t, restingConfig())
		r.put(rec)
		r.step(Join{})
		r.serve()
		r.step(Retire{ID: 1, Register: rec.Name})
		r.serve()
		return r
	}

	t.Run("is_revoked_and_removed_when_it_was_silent_for_long", func(t *testing.T) {
		r := start(t, silent)
		r.run(11*time.Minute - time.Second)
		if r.store[remote].Vacant() {
			t.Fatal("it was revoked too early")
		}
		r.run(2 * time.Second)
		if !r.store[remote].Vacant() {
			t.Fatal("it was not revoked")
		}

		r.run(10*time.Minute - 2*time.Second)
		if _, ok := r.store[remote]; !ok {
			t.Fatal("it was removed too early")
		}
		r.run(2 * time.Second)
		r.want(OK)
		if _, ok := r.store[remote]; ok {
			t.Fatal("it is still there")
		}
	})

	t.Run("is_kept_after_a_heartbeat", func(t *testing.T) {
		for _, at := range []time.Duration{5 * time.Minute, 10*time.Minute + 30*time.Second} {
			r := start(t, silent)
			r.run(at)
			r.put(silent)
			r.run(12*time.Minute - at)
			r.want(InUse)
			if r.store[remote].Vacant() {
				t.Errorf("a heartbeat after %v was revoked", at)
			}
		}
	})

	t.Run("begins_anew_when_the_outcome_of_the_revocation_is_unknown", func(t *testing.T) {
		for _, applied := range []bool{true, false} {
			r := start(t, silent)
			r.run(11*time.Minute - time.Second)
			r.pass(time.Second)
			read := r.take(remote)
			_, rec := r.apply(read)
			r.answer(read, Done, rec)
			s := r.take(remote)
			if s.Verb != Swap {
				t.Fatalf("a revocation is due: %+v", s)
			}
			if applied {
				r.apply(s)
			}
			r.answer(s, Unknown, driver.Record{})
			r.run(22 * time.Minute)
			r.want(OK)
		}
	})

	t.Run("is_not_this_member_itself", func(t *testing.T) {
		own := silent
		own.Name = driver.MemberRegister("a")
		own.Holder.ID = "a"
		start(t, own).want(InUse)
	})
}
