package core

import (
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

func restingConfig() Config {
	cfg := lockConfig()
	cfg.Rest = 10 * time.Minute
	return cfg
}

// want fails the test unless the only request has ended with that result.
func (r *rig) want(code ResultCode) {
	r.t.Helper()
	equal(r.t, "the result", find[Result](r).Result, code)
}

func TestFloor(t *testing.T) {
	t.Run("every_claim_is_above_it", func(t *testing.T) {
		r := newRig(t, restingConfig())
		r.put(driver.Record{Name: driver.FloorRegister, Epoch: 7})
		r.put(driver.Record{Name: "old", Epoch: 3, Duration: time.Second})
		r.step(Campaign{"new"})
		r.step(Campaign{"old"})
		r.step(Join{})
		r.serve()
		for _, name := range []string{"new", "old"} {
			if got := r.store[name].Epoch; got != 8 {
				t.Errorf("%s is claimed in epoch %d, want 8", name, got)
			}
		}
	})

	t.Run("nothing_is_claimed_before_it_was_read", func(t *testing.T) {
		r := newRig(t, restingConfig())
		r.step(Campaign{election1})
		r.step(Join{})
		read := r.take(driver.FloorRegister)
		r.serve()
		if _, ok := r.store[election1]; ok {
			t.Fatal("the election is claimed, and the floor is not known")
		}
		r.answer(read, NotFound, driver.Record{})
		r.serve()
		if got := r.store[election1].Epoch; got != 1 {
			t.Fatalf("epoch %d, want 1", got)
		}
	})

	t.Run("a_register_that_was_held_a_moment_ago_was_lost_and_not_removed", func(t *testing.T) {
		r := newRig(t, restingConfig())
		r.put(driver.Record{Name: driver.FloorRegister, Epoch: 7})
		r.put(held(other, 3, ""))
		r.start()
		r.run(time.Second)
		delete(r.store, election1)
		r.forget()
		r.step(Notice{})
		r.run(5 * time.Second)
		r.event(EventRegressed)
		equal(t, "terms", len(every[Begin](r)), 0)
		r.run(2 * time.Second)
		equal(t, "epoch", find[Begin](r).Epoch, 8)
	})

	t.Run("a_claim_counts_from_when_its_read_was_sent", func(t *testing.T) {
		for after, begins := range map[time.Duration]bool{4 * time.Minute: true, 10 * time.Minute: false} {
			cfg := restingConfig()
			cfg.LeaseDuration = time.Hour
			cfg.ElectionInterval = time.Hour
			cfg.ElectionIntervalMax = time.Hour
			r := newRig(t, cfg)
			r.step(Campaign{election1})
			r.step(Join{})
			r.answer(r.take(driver.FloorRegister), NotFound, driver.Record{})
			r.now = r.now.Add(4 * time.Minute) // the process is slow
			r.answer(r.take(election1), NotFound, driver.Record{})
			claim := r.take(election1)
			_, rec := r.apply(claim)
			r.now = r.now.Add(after - 4*time.Minute)
			r.answer(claim, Done, rec)
			if got := len(every[Begin](r)) == 1; got != begins {
				t.Errorf("%v after the floor was read: begins %v, want %v", after, got, begins)
			}
		}
	})

	t.Run("it_is_read_again_before_a_claim_needs_it", func(t *testing.T) {
		r := newRig(t, restingConfig())
		r.step(Campaign{election1})
		r.step(Join{})
		r.serve()
		reads := 0
		for range 3600 {
			r.pass(time.Second)
			for _, s := range r.pending {
				if s.Record.Name == driver.FloorRegister {
					reads++
				}
			}
			r.serve()
		}
		if reads < 12 || reads > 15 {
			t.Errorf("read %d times in an hour", reads)
		}
	})

	t.Run("one_that_the_store_has_lost_is_raised_again", func(t *testing.T) {
		r := newRig(t, restingConfig())
		floor := r.put(driver.Record{Name: driver.FloorRegister, Epoch: 7})
		r.step(Campaign{election1})
		r.step(Join{})
		r.serve()
		floor.Epoch = 2
		r.put(floor)
		r.run(10 * time.Minute)
		if got := r.store[driver.FloorRegister].Epoch; got != 7 {
			t.Errorf("the floor is %d, want 7", got)
		}
	})
}

func TestRetirement(t *testing.T) {
	start := func(t *testing.T, rec driver.Record) *rig {
		r := newRig(t, restingConfig())
		r.put(rec)
		r.step(Join{})
		r.serve()
		r.step(Retire{ID: 1, Register: rec.Name})
		r.serve()
		return r
	}
	vacant := driver.Record{Name: election1, Epoch: 5, Nonce: 9, Duration: time.Second}

	t.Run("a_register_is_removed_once_it_has_rested", func(t *testing.T) {
		r := start(t, vacant)
		if got := r.store[driver.FloorRegister].Epoch; got != 5 {
			t.Errorf("the floor is %d, want 5", got)
		}
		r.run(9 * time.Minute)
		if _, ok := r.store[election1]; !ok {
			t.Fatal("it was removed too early")
		}
		r.run(2 * time.Minute)
		r.want(OK)
		if _, ok := r.store[election1]; ok {
			t.Fatal("it is still there")
		}
	})

	t.Run("a_member_register_is_kept_if_nobody_says_in_time_who_names_it", func(t *testing.T) {
		r := start(t, driver.Record{Name: remote, Epoch: 1, Nonce: 9, Duration: time.Second})
		r.pass(11 * time.Minute)
		r.want(Unanswered)
	})

	t.Run("a_register_that_changes_is_kept", func(t *testing.T) {
		r := start(t, vacant)
		r.run(5 * time.Minute)
		r.put(vacant)
		r.run(6 * time.Minute)
		r.want(InUse)
	})

	t.Run("what_is_to_outlive_a_term_is_kept", func(t *testing.T) {
		paused := vacant
		paused.Paused = true
		saved := vacant
		saved.Data = []byte("checkpoint")
		held := vacant
		held.Holder = driver.Identity{ID: "b", Incarnation: "i"}
		for _, rec := range []driver.Record{paused, saved, held, {Name: driver.FloorRegister, Epoch: 1}} {
			start(t, rec).want(InUse)
		}
	})

	t.Run("a_member_register_that_an_election_names_is_kept", func(t *testing.T) {
		for _, named := range []bool{true, false} {
			member := driver.Record{Name: driver.MemberRegister("b"), Epoch: 2, Nonce: 9, Duration: time.Second}
			r := start(t, member)
			want := OK
			if named {
				r.put(driver.Record{Name: "x", Holder: driver.Identity{ID: "b", Incarnation: "2.i"}, Via: member.Name})
				want = InUse
			}
			r.run(11 * time.Minute)
			r.want(want)
		}
	})

	t.Run("a_removal_of_unknown_outcome_is_looked_for", func(t *testing.T) {
		for _, applied := range []bool{true, false} {
			r := start(t, vacant)
			r.run(10*time.Minute - time.Second)
			r.pass(time.Second)
			read := r.take(driver.FloorRegister) // it is old by now
			_, rec := r.apply(read)
			r.answer(read, Done, rec)
			s := r.take(election1)
			if s.Verb != Remove {
				t.Fatalf("a removal is due: %+v", s)
			}
			if applied {
				r.apply(s)
			}
			r.answer(s, Unknown, driver.Record{})
			if s := r.pending[0]; s.Verb != Get || s.Record.Name != election1 {
				t.Fatalf("the register is not read: %+v", s)
			}
			r.serve()
			r.want(OK)
		}
	})

	t.Run("a_store_that_does_not_answer_is_asked_again", func(t *testing.T) {
		r := newRig(t, restingConfig())
		r.put(vacant)
		r.step(Join{})
		r.step(Retire{ID: 1, Register: election1})
		for range 5 {
			r.answer(r.take(election1), Unknown, driver.Record{})
			r.pass(5 * time.Second)
		}
		r.serve()
		r.run(11 * time.Minute)
		r.want(OK)
	})

	t.Run("one_that_is_under_way_ends_with_the_member", func(t *testing.T) {
		r := start(t, vacant)
		r.step(Close{})
		r.serve()
		r.want(Unanswered)
	})
}
