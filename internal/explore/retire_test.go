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
	for name, c := range map[string]setup{
		"of_an_election": {small,
			Setup{IDs: two, Config: resting(true), Prompt: true, Withdraws: 2, Retires: 1, Late: 1, Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_while_a_process_sleeps": {small,
			Setup{IDs: two, Config: resting(true), Prompt: true, Withdraws: 1, Retires: 1, Sleeps: 1, Late: 1, Reads: InstantReads},
			Removed | BeganAgain},
		"of_an_election_while_an_answer_is_late": {small,
			Setup{IDs: two, Config: resting(true), Prompt: true, Withdraws: 1, Retires: 1, Sleeps: 1},
			Removed | BeganAgain},
		"of_an_election_that_a_heartbeat_keeps": {small,
			Setup{IDs: two, Config: resting(false), Prompt: true, Withdraws: 2, Retires: 1, Late: 1, Losses: 1, Reads: InstantReads},
			Removed | BeganAgain},
		"of_a_member": {small,
			Setup{IDs: two, Config: resting(false), Prompt: true, Crashes: 1, RetiresOf: 1, Reads: InstantReads},
			Removed},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.Limit = 600_000
			c.holds(t, true)
		})
	}
}
