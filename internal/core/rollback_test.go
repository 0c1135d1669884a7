package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// claim lets time pass until the core claims the election, and returns when that is.
func (r *rig) claim() Time {
	r.t.Helper()
	r.forget()
	for range 6000 {
		r.run(10 * time.Millisecond)
		for _, s := range every[Send](r) {
			if s.Verb == Swap && s.Record.Name == election1 && !s.Record.Vacant() {
				return r.now
			}
		}
	}

	r.t.Fatalf("no claim in a minute: %s", r.list())
	return 0
}

// A store that has lost writes may lose more. Each loss is waited for, from when it was shown (rule 5).
func TestEachLossIsWaitedFor(t *testing.T) {
	vacant := driver.Record{
		Name: election1, Epoch: 1, Nonce: 77, Duration: 6 * time.Second,
		Past: []driver.Past{{Epoch: 1, Holder: other.ID, Reason: ReasonExpired}},
	}

	// regressed returns a candidate that knows of epoch 4, and has waited since the store has shown epoch 1 instead.
	regressed := func(t *testing.T) *rig {
		r := newRig(t, lockConfig())
		r.put(held(other, 1, ""))
		r.start()
		r.serve()
		r.step(Observed{election1, 4})
		for range 15 {
			r.run(time.Second)
			renewed := r.store[election1]
			renewed.Nonce++
			r.put(renewed)
		}

		r.event(EventRegressed)
		equal(t, "waits no more", r.now > r.c.elections.all[0].barred, true)
		return r
	}

	for name, loss := range map[string]func(*rig){
		"one_that_is_shown_while_a_notification_comes": func(r *rig) {
			r.step(Notice{driver.Record{Name: election1}})
			read := r.take(election1)
			delete(r.store, election1)
			r.step(Notice{driver.Record{Name: election1, Rev: "x", Epoch: 2, Nonce: 7}})
			r.answer(read, NotFound, driver.Record{})
			r.put(vacant)
		},
		"one_that_shows_another_incarnation_in_the_same_epoch": func(r *rig) {
			again := held(driver.Identity{ID: other.ID, Incarnation: "2.y"}, 1, "")
			r.put(again)
			r.step(Notice{driver.Record{Name: election1}})
			r.serve()
			r.put(vacant)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := regressed(t)
			lost := r.now
			loss(r)
			if waited := time.Duration(r.claim() - lost); waited < 6*time.Second {
				t.Errorf("claimed %v after the loss", waited)
			}
		})
	}

	t.Run("one_that_is_shown_while_a_term_is_released", func(t *testing.T) {
		r := newRig(t, restingConfig())
		b := r.lead()
		r.step(Fenced{Election: election1, Epoch: b.Epoch, Newest: 2})
		r.run(2 * time.Second)
		r.event(EventRegressed) // its renewal has shown epoch 1

		r.run(3 * time.Second)
		delete(r.store, election1)
		lost := r.now
		r.run(2 * time.Second)
		r.step(DutyStopped{election1, b.Epoch})
		if waited := time.Duration(r.claim() - lost); waited < 6*time.Second {
			t.Errorf("claimed %v after the loss", waited)
		}
	})
}
