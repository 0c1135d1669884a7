package explore

import "testing"

// A process that ends its candidacy, and campaigns again at any time, claims the record of its own release without a
// read.
func TestClaimWithoutReadHolds(t *testing.T) {
	own := ticks(true)
	beat := ticks(false)
	for name, c := range map[string]setup{
		"of_an_election": {small,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Returns: true, Late: 1, Reads: InstantReads},
			ClaimedKnown | Conflicted | TookOverReleased},
		"when_outcomes_are_unknown": {large,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Returns: true, Losses: 1, Late: 1,
				Reads: InstantReads},
			ClaimedKnown | Conflicted | AppliedLate | Adopted},
		"when_the_store_loses_writes": {large,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Returns: true, Rollbacks: 1, Undo: 2,
				Reads: InstantReads},
			ClaimedKnown | Conflicted | WaitedForRollback},
		"with_notifications": {large,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Returns: true, Notices: true,
				Reads: InstantReads},
			ClaimedKnown | Conflicted},
		"when_the_election_is_paused": {small,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Returns: true, Pauses: 1, Reads: InstantReads},
			ClaimedKnown | PausedIt},
		"of_an_election_that_is_retired": {large,
			Setup{IDs: two, Config: resting(true), Prompt: true, Withdraws: 1, Returns: true, Retires: 1, Sleeps: 1,
				Reads: InstantReads},
			ClaimedKnown | Removed | BeganAgain},
		"of_an_election_that_a_heartbeat_keeps": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Withdraws: 1, Returns: true, Reads: InstantReads},
			ClaimedKnown | Conflicted | TookOverReleased},
		"of_an_election_that_a_heartbeat_keeps_when_outcomes_are_unknown": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Withdraws: 1, Returns: true, Losses: 1, Late: 1,
				Reads: InstantReads},
			ClaimedKnown | Conflicted | AppliedLate},
		"of_an_election_that_a_heartbeat_keeps_when_the_store_loses_writes": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Withdraws: 1, Returns: true, Rollbacks: 1, Undo: 2,
				Reads: InstantReads},
			ClaimedKnown | WaitedForRollback},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, c.Config.OwnLease)
		})
	}
}
