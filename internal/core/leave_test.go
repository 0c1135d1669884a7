package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// TestLeft closes a core in every state of its member register. Left says that the register is known to be vacant or
// was never written, and nothing less.
func TestLeft(t *testing.T) {
	twin := driver.Identity{ID: "a", Incarnation: "1.twin"}
	closed := func(r *rig) bool {
		r.forget()
		r.step(Close{})
		r.run(10 * time.Second)
		return find[Closed](r).Left
	}

	t.Run("a_register_that_was_never_written_was_left", func(t *testing.T) {
		for name, cfg := range map[string]Config{"own": lockConfig(), "member": clusterConfig()} {
			r := newRig(t, cfg)
			r.step(Join{})
			r.run(time.Second)
			equal(t, name, closed(r), true)
		}
	})

	t.Run("after_a_drop_it_still_shows_this_process", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		b := r.lead()
		r.pass(10 * time.Second) // the store does not answer
		r.pending = nil
		r.event(EventDropped)
		r.step(DutyStopped{election1, b.Epoch})
		r.pass(10 * time.Second)
		r.pending = nil
		r.forget()
		r.step(Close{})
		r.pass(10 * time.Second)
		equal(t, "left", find[Closed](r).Left, false)
		rec := r.store[own]
		equal(t, "vacant", rec.Vacant(), false)
	})

	t.Run("while_another_process_has_it", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.put(beating(twin, 77))
		r.start()
		r.run(time.Second)
		r.event(EventWaiting)
		equal(t, "left", closed(r), false)
	})

	t.Run("after_a_first_heartbeat_of_unknown_outcome", func(t *testing.T) {
		r := newRig(t, clusterConfig())
		r.start()
		r.answer(r.take(own), NotFound, driver.Record{})
		join := r.take(own)
		equal(t, "verb", join.Verb, Swap)
		r.apply(join)
		r.answer(join, Unknown, driver.Record{})
		r.answer(r.take(own), Unknown, driver.Record{})
		r.forget()
		r.step(Close{})
		r.pass(10 * time.Second)
		equal(t, "left", find[Closed](r).Left, false)
	})

	t.Run("after_a_leave_of_unknown_outcome_when_another_process_has_it_by_now", func(t *testing.T) {
		for _, vacant := range []bool{true, false} {
			r := newRig(t, clusterConfig())
			b := r.lead()
			r.step(Close{})
			r.step(DutyStopped{election1, b.Epoch})
			r.serveOne(election1)
			leave := r.take(own)
			equal(t, "verb", leave.Verb, Swap)
			r.apply(leave)
			if !vacant {
				r.put(beating(twin, 77))
			}
			r.answer(leave, Unknown, driver.Record{})
			r.serve()
			equal(t, "left", find[Closed](r).Left, vacant)
			lines := every[Lifeline](r)
			equal(t, "over", lines[len(lines)-1].Over, true)
		}
	})
}

// serveOne answers the request about one register as the store would.
func (r *rig) serveOne(name string) {
	r.t.Helper()
	s := r.take(name)
	o, rec := r.apply(s)
	r.answer(s, o, rec)
}
