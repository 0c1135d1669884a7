package explore

import "testing"

// TestRequestsHold is about what users ask of whoever leads, and what outlives a term.
func TestRequestsHold(t *testing.T) {
	for name, c := range map[string]setup{
		"when_an_election_with_a_lease_of_its_own_is_paused": {small,
			Setup{IDs: two, Config: ticks(true), Prompt: true, Pauses: 1, Releases: 1, Reads: InstantReads},
			PausedIt | TookOverReleased},
		"when_an_election_is_paused": {huge,
			Setup{IDs: two, Config: ticks(false), Prompt: true, Pauses: 1, Releases: 1, Reads: InstantReads},
			PausedIt | TookOverReleased},
		"when_an_election_is_paused_and_a_process_crashes": {huge,
			Setup{IDs: two, Config: ticks(false), Prompt: true, Pauses: 1, Crashes: 1, Late: 1, Reads: InstantReads},
			PausedIt | TookOverExpired},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, true)
		})
	}
}

// TestFenceHolds is about a worker that takes tasks of the leaders behind a fence.
func TestFenceHolds(t *testing.T) {
	own := ticks(true)
	beat := ticks(false)
	for name, c := range map[string]setup{
		"for_two_processes": {small,
			Setup{IDs: two, Config: own, Prompt: true, Freezes: 1, Releases: 1, Tasks: 2, Reads: InstantReads},
			Refused | TookOverReleased | TookOverExpired},
		"for_two_members": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Releases: 1, Tasks: 2, Reads: InstantReads},
			Refused | TookOverReleased},
		"for_two_processes_with_one_id": {large,
			Setup{IDs: shared, Config: beat, Prompt: true, Crashes: 1, Tasks: 2, Reads: InstantReads},
			Refused | Rejoined},
		"when_the_store_loses_writes": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Rollbacks: 1, Undo: 2, Tasks: 2, Reads: InstantReads},
			Refused | WaitedForRollback},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, true)
		})
	}
}

// TestReaperHolds is about processes that die, or are silent for too long, while their reapers live.
func TestReaperHolds(t *testing.T) {
	own := ticks(true)
	beat := ticks(false)
	for name, c := range map[string]setup{
		"of_a_process_that_dies": {small,
			Setup{IDs: two, Config: own, Prompt: true, Crashes: 1, Reapers: true, Late: 1, Reads: InstantReads},
			Reaped | TookOverReleased},
		"of_a_process_that_sleeps": {small,
			Setup{IDs: two, Config: own, Prompt: true, Sleeps: 1, Reapers: true, Reads: InstantReads},
			Killed | Reaped},
		"of_a_process_that_is_frozen": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Freezes: 3, Reapers: true, Reads: InstantReads},
			Killed | Reaped},
		"of_a_process_whose_duty_stops_late": {large,
			Setup{IDs: two, Config: own, Prompt: true, Freezes: 1, Releases: 1, SlowDuty: true, Reapers: true,
				Reads: InstantReads},
			Killed | Reaped},
		"of_a_member_that_dies": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Crashes: 1, Reapers: true, Reads: InstantReads},
			Reaped | Rejoined},
		"of_a_member_that_sleeps": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Sleeps: 1, Reapers: true, Reads: InstantReads},
			Killed | Reaped},
		"of_a_member_that_is_frozen": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Freezes: 2, Reapers: true, Reads: InstantReads},
			Killed | Reaped},
		"of_two_processes_with_one_id": {small,
			Setup{IDs: shared, Config: beat, Prompt: true, Crashes: 1, Reapers: true, Reads: InstantReads},
			Reaped},
		"of_a_member_with_every_fault_once": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Freezes: 2, Crashes: 1, Losses: 1, Reapers: true, Late: 1,
				Reads: InstantReads},
			Killed | Reaped},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, true)
		})
	}
}
