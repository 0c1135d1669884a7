package sim

import (
	"slices"
	"testing"
	"time"
)

// written is an event of a checkpoint that is written into the election's record.
func written(proc int, who, data, old string, epoch uint64) Event {
	return Event{At: 3 * second, Kind: Applied, Op: Save, Proc: proc, Name: election, Old: who, Who: who,
		OldEpoch: epoch, Epoch: epoch,
		Via: beatA, OldVia: beatA, Data: data, OldData: old}
}

// lost makes a history one in which the store has lost b's claim, at 17 s, and b goes on believing
// in it until then.
func lost(h *History, until int) {
	h.Class = Lossy
	put(h, Event{At: 17 * second, Kind: Rolled, Proc: -1})
	put(h, Event{At: 17 * second, Kind: Undone, Proc: -1, Name: election, Who: "A1", Epoch: 1, Old: "B1", OldEpoch: 2})
	for at := 18; at < until; at += 3 { // its heartbeats go on
		beat := Event{At: timeOf(at), Proc: 1, Name: beatB, Who: "B1", Nonce: uint64(100 + at), Epoch: 1, Old: "B1",
			OldEpoch: 1}
		for _, k := range []Kind{Sent, Applied, Known} {
			beat.Kind, beat.Op = k, Beat
			put(h, beat)
		}
	}
	put(h, Event{At: timeOf(until), Kind: Believed, Proc: 1, Name: election, Epoch: 2, Who: "B1"})
}

// killedAfterDuty makes a history one in which a is killed so long after its duty has returned.
func killedAfterDuty(h *History, after time.Duration) {
	i := slices.IndexFunc(h.Events, func(e Event) bool { return e.Kind == Ended && e.Proc == 0 })
	put(h, Event{At: h.Events[i].At + after, Kind: Killed, Proc: 0, Name: beatA, Who: "A1"})
}

// timeOf returns so many seconds.
func timeOf(seconds int) time.Duration { return time.Duration(seconds) * second }

func TestTheCheckerFindsMore(t *testing.T) {
	for _, c := range []struct {
		name string
		want string
		bend func(*History)
	}{
		{"an_incarnation_that_is_counted_twice", "I4", func(h *History) {
			put(h, Event{At: 16 * second, Kind: Applied, Op: Join, Proc: 0, Name: beatA, Who: "A2", Nonce: 9,
				OldEpoch: 1,
				Epoch:    1})
		}},
		{"a_process_that_nobody_ended", "I7", func(h *History) {
			put(h, Event{At: 16 * second, Kind: Died, Proc: 1})
		}},
		{"a_checkpoint_that_another_process_writes", "I9", func(h *History) {
			put(h, written(1, "A1", "A1 1 x", "", 1))
			put(h, written(0, "A1", "", "A1 1 x", 1)) // and back, for what follows
		}},
		{"a_checkpoint_of_another_term", "I9", func(h *History) {
			put(h, written(0, "A1", "A0 1 x", "", 1))
		}},
		{"no_fault_in_a_checkpoint_of_the_holder", "", func(h *History) {
			put(h, written(0, "A1", "A1 1 x", "", 1))
			put(h, Event{At: 3 * second, Kind: Saved, Proc: 0, Name: election, Epoch: 1, Who: "A1", Data: "A1 1 x"})
			change(h, Applied, Claim, 1, func(e *Event) { e.OldData, e.Data = "A1 1 x", "A1 1 x" })
			change(h, Granted, NoOp, 1, func(e *Event) { e.Data = "A1 1 x" })
		}},
		{"a_term_that_reads_another_checkpoint", "I9", func(h *History) {
			change(h, Granted, NoOp, 1, func(e *Event) { e.Data = "A1 1 x" })
		}},
		{"a_checkpoint_that_was_never_stored", "I9", func(h *History) {
			put(h, Event{At: 3 * second, Kind: Saved, Proc: 0, Name: election, Epoch: 1, Who: "A1", Data: "A1 1 x"})
		}},
		{"a_process_killed_that_holds_nothing", "I10", func(h *History) {
			put(h, Event{At: 15 * second, Kind: Killed, Proc: 1, Name: beatB, Who: "B1"})
		}},
		{"a_process_killed_that_has_ended_its_terms", "I10", func(h *History) {
			put(h, Event{At: 10 * second, Kind: Killed, Proc: 0, Name: beatA, Who: "A1"})
		}},
		{"a_process_killed_that_has_said_that_its_duties_have_stopped", "I10", func(h *History) {
			h.Procs[0].Pipe = time.Millisecond
			killedAfterDuty(h, 2*time.Millisecond)
		}},
		{"no_fault_in_killing_a_process_whose_message_is_in_the_pipe", "", func(h *History) {
			h.Procs[0].Pipe = time.Millisecond
			killedAfterDuty(h, time.Millisecond)
		}},
		{"a_frozen_process_killed_that_holds_nothing", "I10", func(h *History) {
			put(h, Event{At: 5 * second, Kind: Frozen, Proc: 1, Took: 20 * second})
			put(h, Event{At: 15 * second, Kind: Killed, Proc: 1, Name: beatB, Who: "B1"})
		}},
		{"no_fault_in_killing_a_frozen_process", "", func(h *History) {
			put(h, Event{At: 5 * second, Kind: Frozen, Proc: 0, Took: 20 * second})
			put(h, Event{At: 10 * second, Kind: Killed, Proc: 0, Name: beatA, Who: "A1"})
		}},
		{"no_fault_in_killing_a_process_whose_duty_runs", "", func(h *History) {
			h.Events = slices.DeleteFunc(h.Events, func(e Event) bool { return e.Kind == Ended })
			put(h, Event{At: 10 * second, Kind: Killed, Proc: 0, Name: beatA, Who: "A1"})
		}},
		{"a_process_killed_whose_lease_was_renewed", "I10", func(h *History) {
			put(h, Event{At: 8 * second, Kind: Killed, Proc: 0, Name: beatA, Who: "A1", Valid: true})
		}},
		{"a_release_for_a_process_that_lives", "I10", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Applied, Op: Reap, Proc: 1, Name: beatB, Old: "B1", OldEpoch: 1,
				Epoch: 1})
		}},
		{"no_fault_in_a_release_for_a_dead_process", "", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Crashed, Proc: 1})
			put(h, Event{At: 17 * second, Kind: Applied, Op: Reap, Proc: 1, Name: beatB, Old: "B1", OldEpoch: 1,
				Epoch: 1})
		}},
		{"a_request_that_outlives_its_context", "I11", func(h *History) {
			put(h, Event{At: 15 * second, Kind: Answered, Proc: 0, Took: 3 * second})
		}},
		{"no_fault_in_a_request_of_a_frozen_process", "", func(h *History) {
			put(h, Event{At: 10 * second, Kind: Frozen, Proc: 0, Took: 4 * second})
			put(h, Event{At: 15 * second, Kind: Answered, Proc: 0, Took: 3 * second})
		}},
		{"a_request_to_a_leader_that_is_never_obeyed", "I11", func(h *History) {
			asked(h, true)
		}},
		{"no_fault_in_a_request_that_the_leader_cannot_know_of", "", func(h *History) {
			asked(h, false)
		}},
		{"a_lost_claim_that_is_believed_for_too_long", "I12", func(h *History) {
			lost(h, 30)
		}},
		{"no_fault_in_a_lost_claim_that_is_found_within_a_lease", "", func(h *History) {
			lost(h, 28)
		}},
		{"no_fault_in_a_lost_claim_while_nothing_is_answered", "", func(h *History) {
			lost(h, 30)
			put(h, Event{At: 18 * second, Kind: Disturbed, Proc: -1, Took: 2 * second})
		}},
		{"a_belief_that_the_store_does_not_show_although_it_lost_nothing", "I12", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Applied, Op: Release, Proc: 1, Name: election, Old: "B1", OldEpoch: 2,
				Epoch: 2, Via: beatB})
			put(h, Event{At: 17 * second, Kind: Believed, Proc: 1, Name: election, Epoch: 2, Who: "B1"})
		}},
		{"an_epoch_accepted_for_two_terms", "I13", func(h *History) {
			h.Class = Lossy
			put(h, Event{At: 17 * second, Kind: Applied, Op: Claim, Proc: 0, Name: election, Who: "A1", Nonce: 9,
				OldEpoch: 1,
				Epoch:    2, Via: beatA})
			put(h, Event{At: 18 * second, Kind: Accepted, Proc: 0, Name: election, Epoch: 2, Who: "A1"})
		}},
		{"a_process_that_spins", "I14", func(h *History) {
			h.Procs[1].Spins = 90
		}},
		{"a_claim_on_less_than_was_seen", "R5", func(h *History) {
			change(h, Applied, Claim, 1, func(e *Event) { e.Fell, e.Waited = true, 9*second })
		}},
		{"no_fault_in_a_claim_on_less_after_a_lease", "", func(h *History) {
			change(h, Applied, Claim, 1, func(e *Event) { e.Fell, e.Waited = true, 10*second })
		}},
		{"a_context_that_ends_after_the_deadline", "R7", func(h *History) {
			put(h, Event{At: 9*second + 1, Kind: Stopping, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"no_fault_in_a_context_that_ends_late_in_a_frozen_process", "", func(h *History) {
			put(h, Event{At: 5 * second, Kind: Frozen, Proc: 0, Took: 7 * second})
			put(h, Event{At: 12 * second, Kind: Stopping, Proc: 0, Name: election, Epoch: 1, Who: "A1"})
		}},
		{"a_duty_that_begins_beside_another_one_of_its_process", "R7", func(h *History) {
			put(h, Event{At: 17 * second, Kind: Applied, Op: Claim, Proc: 1, Name: election, Who: "B1", Nonce: 9,
				OldEpoch: 2,
				Epoch:    3, Via: beatB})
			put(h, Event{At: 17 * second, Kind: Granted, Proc: 1, Name: election, Epoch: 3, Who: "B1", Valid: true})
			change(h, Led, NoOp, 1, func(e *Event) { e.Epoch = 3 })
			h.Events = slices.DeleteFunc(h.Events, func(e Event) bool {
				return e.At >= 17*second &&
					e.Kind == Accepted
			})
		}},
		{"no_overlap_where_the_store_loses_writes", "", func(h *History) {
			lost(h, 27)
			put(h, Event{At: 18 * second, Kind: Applied, Op: Claim, Proc: 0, Name: election, Who: "A1", Nonce: 9,
				OldEpoch: 1,
				Epoch:    2, Via: beatA})
		}},
	} {
		t.Run(c.name, func(t *testing.T) { finds(t, c.want, c.bend) })
	}
}

// asked makes a history one in which b is asked to step down, and its heartbeat register is touched
// if it is told, and in which it leads to the end.
func asked(h *History, told bool) {
	put(h, Event{At: 17 * second, Kind: Applied, Op: Edit, Proc: 0, Name: election, Old: "B1", Who: "B1", OldEpoch: 2,
		Epoch: 2, Via: beatB, Next: "*"})
	if told {
		put(h, Event{At: 17 * second, Kind: Applied, Op: Edit, Proc: 0, Name: beatB, Old: "B1", Who: "B1", OldEpoch: 1,
			Epoch: 1})
	}
	last := Event{At: 49 * second, Kind: Led, Proc: 1, Name: election, Epoch: 2, Who: "B1"}
	put(h, last)
}
