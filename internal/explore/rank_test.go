package explore

import (
	"fmt"
	"testing"

	"github.com/regentd/regent/internal/core"
)

// ranked returns a configuration of members that rank each other by priority.
func ranked(preempt bool) core.Config {
	cfg := ticks(false)
	cfg.Rank = core.RankPriority
	cfg.Preempt = preempt
	return cfg
}

// priorities gives each process a priority: the last one has the highest.
func priorities(i int, cfg *core.Config) {
	cfg.Priority = i
	cfg.Info = fmt.Appendf(nil, `{"eligible":true,"healthy":true,"priority":%d,"elections":["*"]}`, i)
}

// idle makes the last process one that says it is a candidate and never claims, as one that hangs does.
func idle(i int, cfg *core.Config) {
	priorities(i, cfg)
	cfg.Eligible = i == 0
}

func TestRanksHold(t *testing.T) {
	for name, c := range map[string]setup{
		"for_two_members_of_different_rank": {small,
			Setup{IDs: two, Config: ranked(false), Vary: priorities, Prompt: true, Late: 1, Reads: InstantReads},
			Listed | TookOverReleased},
		"when_the_better_one_never_claims": {small,
			Setup{IDs: two, Config: ranked(false), Vary: idle, Prompt: true, Late: 1, Reads: InstantReads},
			Listed | TookOverReleased},
		"when_the_better_one_crashes": {small,
			Setup{IDs: two, Config: ranked(false), Vary: priorities, Prompt: true, Crashes: 1, Late: 1,
				Reads: InstantReads},
			Listed | TookOverExpired | Revoked},
		"with_lists_that_take_their_time": {small,
			Setup{IDs: two, Config: ranked(false), Vary: priorities, Prompt: true, Reads: AtomicReads},
			Listed | TookOverReleased},
		"when_the_better_one_asks_for_the_election": {small,
			Setup{IDs: two, Config: ranked(true), Vary: priorities, Prompt: true, Late: 1, Reads: InstantReads},
			Listed | HandedOver},
		"when_the_better_one_asks_for_the_election_and_freezes": {huge,
			Setup{IDs: two, Config: ranked(true), Vary: priorities, Prompt: true, Freezes: 1, Late: 1,
				Reads: InstantReads},
			Listed | HandedOver | TookOverExpired},
	} {
		t.Run(name, func(t *testing.T) {
			c.skip(t)
			c.holds(t, false)
		})
	}
}
