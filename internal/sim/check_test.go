package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	election = "seat"
	beatA    = "regent/member/a"
	beatB    = "regent/member/b"
	second   = time.Second
)

// good is a history in which a leads, falls silent, and b takes over as it should. Each case below
// bends it.
func good() *History {
	p := Proc{Rate: 1, Lease: 10 * second, Trust: 8 * second, Stop: second, Delay: second, Jitter: second}
	h := &History{Elections: []string{election}, Procs: []Proc{p, p}, Bound: 20 * second}
	for _, e := range []Event{
		{At: 0, Kind: Started, Proc: 0},
		{At: 0, Kind: Started, Proc: 1},
		{At: 1 * second, Kind: Request, Proc: 0},
		{At: 1 * second, Kind: Sent, Op: Join, Proc: 0, Name: beatA, Who: "A1", Nonce: 1, Epoch: 1},
		{At: 1 * second, Kind: Applied, Op: Join, Proc: 0, Name: beatA, Who: "A1", Nonce: 1, Epoch: 1},
		{At: 1 * second, Kind: Known, Proc: 0, Name: beatA, Who: "A1", Nonce: 1, Epoch: 1},
		{At: 2 * second, Kind: Sent, Op: Claim, Proc: 0, Name: election, Who: "A1", Nonce: 2, Epoch: 1, Via: beatA},
		{At: 2 * second, Kind: Applied, Op: Claim, Proc: 0, Name: election, Who: "A1", Nonce: 2, Epoch: 1, Via: beatA},
		{At: 2 * second, Kind: Granted, Proc: 0, Name: election, Epoch: 1, Who: "A1", Valid: true},
		{At: 3 * second, Kind: Acting, Proc: 0, Name: election, Epoch: 1, Who: "A1", Valid: true},
		{At: 4 * second, Kind: Accepted, Proc: 0, Name: election, Epoch: 1, Who: "A1"},
		{At: 4 * second, Kind: Sent, Op: Join, Proc: 1, Name: beatB, Who: "B1", Nonce: 3, Epoch: 1},
		{At: 4 * second, Kind: Applied, Op: Join, Proc: 1, Name: beatB, Who: "B1", Nonce: 3, Epoch: 1},
		{At: 4 * second, Kind: Known, Proc: 1, Name: beatB, Who: "B1", Nonce: 3, Epoch: 1},
		{At: 9 * second, Kind: Ended, Proc: 0, Name: election, Epoch: 1, Who: "A1"},
		{At: 11 * second, Kind: Sent, Op: Beat, Proc: 1, Name: beatB, Who: "B1", Nonce: 4, Epoch: 1},
		{At: 11 * second, Kind: Applied, Op: Beat, Proc: 1, Name: beatB, Old: "B1", Who: "B1", Nonce: 4, OldEpoch: 1,
			Epoch: 1},
		{At: 11 * second, Kind: Known, Proc: 1, Name: beatB, Who: "B1", Nonce: 4, Epoch: 1},
		{At: 15 * second, Kind: Applied, Op: Revoke, Proc: 1, Name: beatA, Old: "A1", OldEpoch: 1, Epoch: 1,
			OldLease: 10 * second, Watched: 11 * second, Confirmed: 11 * second},
		{At: 16 * second, Kind: Sent, Op: Claim, Proc: 1, Name: election, Who: "B1", Nonce: 5, Epoch: 2, Via: beatB},
		{At: 16 * second, Kind: Applied, Op: Claim, Proc: 1, Name: election, Old: "A1", OldVia: beatA, OldEpoch: 1,
			Who: "B1", Nonce: 5, Epoch: 2, Via: beatB},
		{At: 16 * second, Kind: Granted, Proc: 1, Name: election, Epoch: 2, Who: "B1", Valid: true},
		{At: 17 * second, Kind: Believed, Proc: 1, Name: election, Epoch: 2, Who: "B1"},
		{At: 17 * second, Kind: Accepted, Proc: 1, Name: election, Epoch: 2, Who: "B1"},
		{At: 18 * second, Kind: Settled, Proc: -1},
		{At: 18 * second, Kind: Led, Proc: 1, Name: election, Epoch: 2, Who: "B1"},
	} {
		e.Local = e.At
		h.Events = append(h.Events, e)
	}
	return h
}

// put inserts an event at its time, after what happened then.
func put(h *History, e Event) {
	e.Local = e.At
	i := 0
	for i < len(h.Events) && h.Events[i].At <= e.At {
		i++
	}
	h.Events = slices.Insert(h.Events, i, e)
}

// change edits the events of a kind and purpose.
func change(h *History, k Kind, op Op, proc int, f func(*Event)) {
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == k && e.Op == op && e.Proc == proc {
			f(e)
		}
	}
}

func TestTheCheckerPassesAGoodHistory(t *testing.T) {
	if v := Check(good()); len(v) > 0 {
		t.Errorf("it finds %v", v)
	}
}

// Each bent history breaks what its name says, and the checker says just that.
func TestTheCheckerFinds(t *testing.T) {
	for _, c := range []struct {
		name string
		want string // the invariants that are broken, in order
		bend func(*History)
	}{
		{"an_epoch_claimed_twice", "I1 I4", func(h *History) {
			put(h, Event{At: 2 * second, Kind: Applied, Op: Claim, Proc: 0, Name: election, Who: "A1", Nonce: 9,
				Epoch: 1, OldEpoch: 1, Via: beatA})
		}},
		{"an_epoch_that_changes_within_a_term", "I1", func(h *History) {
			put(h, Event{At: 3 * second, Kind: Applied, Op: Beat, Proc: 0, Name: election, Old: "A1", Who: "A1",
				Nonce: 9, OldEpoch: 1, Epoch: 2})
		}},
		{"a_belief_in_an_older_epoch", "I2 I12 I6", func(h *History) {
			put(h, Event{At: 16 * second, Kind: Believed, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"a_duty_that_acts_in_an_older_epoch", "I2", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Acting, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"no_fault_in_a_duty_that_is_stuck", "", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Acting, Proc: 0, Name: election, Epoch: 1, Who: "A1", Stuck: true})
		}},
		{"no_fault_in_a_duty_that_was_frozen", "", func(h *History) {
			put(h, Event{At: 5 * second, Kind: Frozen, Proc: 0, Took: 12 * second})
			put(h, Event{At: 17*second + second/2, Kind: Acting, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"a_fence_that_falls", "I3", func(h *History) {
			put(h, Event{At: 18 * second, Kind: Accepted, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"no_fault_in_another_workers_fence", "", func(h *History) {
			put(h, Event{At: 18 * second, Kind: Accepted, Proc: 0, Name: election, Epoch: 1, Who: "A1", Worker: 1})
		}},
		{"a_claim_with_a_smaller_epoch", "I4", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Applied, Op: Claim, Proc: 1, Name: election, Who: "B1", Nonce: 9,
				Epoch: 0, OldEpoch: 2, Via: beatB})
		}},
		{"a_term_that_begins_after_a_newer_one", "I4", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Granted, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"an_accepted_epoch_that_nobody_has", "I5", func(h *History) {
			put(h, Event{At: 18 * second, Kind: Accepted, Proc: 1, Name: election, Epoch: 3, Who: "B1"})
		}},
		{"an_accepted_epoch_of_another", "I13 I5", func(h *History) {
			put(h, Event{At: 18 * second, Kind: Accepted, Proc: 0, Name: election, Epoch: 2, Who: "A1"})
		}},
		{"a_term_that_was_not_given", "I5", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Granted, Proc: 0, Name: election, Epoch: 3, Who: "A1"})
		}},
		{"a_heartbeat_sent_after_the_deadline", "I6", func(h *History) {
			put(h, Event{At: 9 * second, Kind: Sent, Op: Beat, Proc: 0, Name: beatA, Who: "A1", Nonce: 9, Epoch: 1})
		}},
		{"a_checkpoint_sent_after_the_deadline_of_the_heartbeat_that_keeps_the_election", "I6", func(h *History) {
			put(h, Event{At: 9 * second, Kind: Sent, Op: Save, Proc: 0, Name: election, Who: "A1", Nonce: 2, Epoch: 1,
				Via: beatA})
		}},
		{"a_claim_sent_after_the_deadline", "I6", func(h *History) {
			put(h, Event{At: 9 * second, Kind: Sent, Op: Claim, Proc: 0, Name: "other", Who: "A1", Nonce: 9, Epoch: 1,
				Via: beatA})
		}},
		{"a_belief_after_the_deadline", "I6", func(h *History) {
			put(h, Event{At: 9 * second, Kind: Believed, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"no_fault_in_a_heartbeat_sent_before_the_deadline", "", func(h *History) {
			put(h, Event{At: 9*second - 1, Kind: Sent, Op: Beat, Proc: 0, Name: beatA, Who: "A1", Nonce: 9, Epoch: 1})
		}},
		{"no_leader_in_time", "I7", func(h *History) {
			put(h, Event{At: 18 * second, Kind: Led, Proc: -1, Name: election})
		}},
		{"a_release_of_anothers_election", "I8", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Applied, Op: Revoke, Proc: 0, Name: election, Old: "B1", OldEpoch: 2,
				Epoch: 2, OldLease: 10 * second, Watched: 20 * second, Confirmed: 20 * second})
		}},
		{"a_heartbeat_revoked_unseen", "I8 R10", func(h *History) {
			change(h, Applied, Revoke, 1, func(e *Event) { e.Watched, e.Confirmed = 0, 0 })
		}},
		{"a_release_that_resets_the_epoch", "I8", func(h *History) {
			put(h, Event{At: 18 * second, Kind: Applied, Op: Release, Proc: 1, Name: election, Old: "B1", OldEpoch: 2})
		}},
		{"a_claim_that_loses_the_checkpoint", "I8", func(h *History) {
			change(h, Applied, Claim, 1, func(e *Event) { e.Lost = true })
		}},
		{"a_heartbeat_revoked_early", "R2 R10", func(h *History) {
			change(h, Applied, Revoke, 1, func(e *Event) { e.Watched, e.Confirmed = 9*second, 9*second })
		}},
		{"a_claim_from_a_living_incarnation", "R6", func(h *History) {
			h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Op == Revoke })
		}},
		{"a_join_over_another_process", "R6", func(h *History) {
			put(h, Event{At: 5 * second, Kind: Applied, Op: Join, Proc: 1, Name: beatA, Old: "A1", Who: "A2",
				Nonce: 9, OldEpoch: 1, Epoch: 2})
		}},
		{"a_release_before_the_duty_has_stopped", "R7", func(h *History) {
			put(h, Event{At: 5 * second, Kind: Sent, Op: Release, Proc: 0, Name: election, Epoch: 1})
		}},
		{"a_takeover_without_its_delay", "R10", func(h *History) {
			change(h, Applied, Revoke, 1, func(e *Event) { e.Confirmed = 10 * second })
		}},
		{"a_request_before_the_jitter", "R11", func(h *History) {
			put(h, Event{At: second / 2, Kind: Request, Proc: 1})
		}},
		{"no_overlap_where_clocks_are_beyond_the_assumed_error", "", func(h *History) {
			h.Class = Beyond
			put(h, Event{At: 17 * second, Kind: Believed, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"a_fence_that_falls_where_clocks_are_beyond_the_assumed_error", "I3", func(h *History) {
			h.Class = Beyond
			put(h, Event{At: 18 * second, Kind: Accepted, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
	} {
		t.Run(c.name, func(t *testing.T) { finds(t, c.want, c.bend) })
	}
}

// finds wants the checker to find just these invariants broken in a bent history.
func finds(t *testing.T, want string, bend func(*History)) {
	t.Helper()
	h := good()
	bend(h)
	var got []string
	for _, v := range Check(h) {
		got = append(got, v.Invariant)
	}
	if g := strings.Join(got, " "); g != want {
		t.Errorf("it finds %q, and should find %q: %v", g, want, Check(h))
	}
}
