package explore

import (
	"testing"
	"time"

	"github.com/regentd/regent/internal/core"
)

// resting returns a configuration in which registers are removed after two ticks, and a floor counts for less.
func resting(own bool) core.Config {
	cfg := ticks(own)
	cfg.Rest = 2 * time.Second
	return cfg
}

func TestRetirementHolds(t *testing.T) {
	own := resting(true)
	beat := resting(false)
	for name, c := range map[string]setup{
		"of_an_election": {small,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 2, Retires: 1, Late: 1, Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_while_a_process_sleeps": {small,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Retires: 1, Sleeps: 1, Late: 1,
				Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_while_an_answer_is_late": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 1, Retires: 1, Sleeps: 1, Reads: LastSlow},
			Removed | BeganAgain},
		"of_an_election_when_outcomes_are_unknown": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 2, Retires: 1, Losses: 1, Late: 1,
				Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_when_a_process_crashes": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 2, Retires: 1, Crashes: 1, Late: 1,
				Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_when_the_store_loses_writes": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 2, Retires: 1, Rollbacks: 1, Undo: 2,
				Reads: InstantReads},
			Removed | BeganAgain | WaitedForRollback},
		"of_an_election_with_notifications": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 2, Retires: 1, Notices: true, Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_twice": {huge,
			Setup{IDs: two, Config: own, Prompt: true, Withdraws: 3, Retires: 2, Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_that_a_heartbeat_keeps": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Withdraws: 2, Retires: 1, Late: 1, Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_that_a_heartbeat_keeps_while_a_process_sleeps": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Withdraws: 1, Retires: 1, Sleeps: 1, Reads: InstantReads},
			Removed | BeganAgain},
		"of_a_member": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Withdraws: 1, Crashes: 1, RetiresOf: 1, Reads: InstantReads},
			Removed},
		"of_a_member_that_has_left": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Closes: 1, RetiresOf: 1, Reads: InstantReads},
			Removed | Left},
		"of_a_member_that_has_crashed": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Crashes: 1, RetiresOf: 1, Silent: true, Reads: InstantReads},
			Removed | RevokedSilent},
		"of_a_member_that_sleeps": {small,
			Setup{IDs: two, Config: beat, Prompt: true, Sleeps: 1, RetiresOf: 1, Silent: true, Reads: InstantReads},
			Revoked},
		"of_a_member_that_has_crashed_when_outcomes_are_unknown": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Crashes: 1, Losses: 1, RetiresOf: 1, Silent: true, Late: 1,
				Reads: InstantReads},
			Removed | RevokedSilent},
		"of_a_member_when_outcomes_are_unknown": {huge,
			Setup{IDs: two, Config: beat, Prompt: true, Crashes: 1, RetiresOf: 1, Losses: 1, Reads: InstantReads},
			Removed},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, true)
		})
	}
}
