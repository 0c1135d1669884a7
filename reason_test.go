package regent

import (
	"testing"

	"github.com/regentd/regent/internal/core"
)

// TestReasonsAreTheCores compares the words of reasons with those that the core writes into records.
func TestReasonsAreTheCores(t *testing.T) {
	for reason, word := range map[Reason]string{
		ReasonShutdown: string(core.Shutdown), ReasonReturned: string(core.Returned), ReasonLost: string(core.Lost),
		ReasonPartitioned: string(core.Partitioned), ReasonHandoff: string(core.HandedOff),
		ReasonSteppedDown: string(core.SteppedDown), ReasonPaused: string(core.Paused),
		ReasonUnhealthy: string(core.Unhealthy), ReasonFenced: string(core.FencedOff),
		ReasonPanicked: string(core.Panicked), ReasonExpired: core.ReasonExpired, ReasonDied: core.ReasonDied,
		ReasonRejoined: core.ReasonRejoined, ReasonAbandoned: core.ReasonAbandoned, ReasonFirst: core.ReasonFirst,
		ReasonForgotten: core.ReasonForgotten,
	} {
		if string(reason) != word {
			t.Errorf("%q is %q in records", reason, word)
		}
	}
}
