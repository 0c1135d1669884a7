package explore

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestExplorationCoversPlainStates goes at random through worlds as they are, and checks that each of them is among
// those that were explored, of which only one of all that are encoded alike was followed.
func TestExplorationCoversPlainStates(t *testing.T) {
	own := ticks(true)
	beat := ticks(false)
	for name, s := range map[string]Setup{
		"of_leases_of_their_own": {IDs: two, Config: own, Prompt: true, Freezes: 1, Losses: 1, Late: 1,
			Reads: InstantReads},
		"of_members":             {IDs: two, Config: beat, Prompt: true, Freezes: 1, Late: 1, Reads: InstantReads},
		"of_members_with_one_id": {IDs: shared, Config: beat, Prompt: true, Crashes: 1, Late: 1, Reads: InstantReads},
		"of_a_store_that_loses_writes": {IDs: two, Config: own, Prompt: true, Rollbacks: 1, Undo: 2, Late: 1,
			Reads: InstantReads},
		"of_registers_that_are_retired": {IDs: two, Config: resting(true), Prompt: true, Withdraws: 1, Retires: 1,
			Sleeps: 1,
			Reads:  InstantReads},
		"of_members_with_reapers": {IDs: two, Config: beat, Prompt: true, Crashes: 1, Reapers: true,
			Reads: InstantReads},
	} {
		t.Run(name, func(t *testing.T) {
			s.complete(false)
			x := newExplorer(&s)
			x.visit()
			if x.result.Failure != nil || !x.result.Whole {
				t.Fatalf("not explored: %+v", x.result)
			}
			for walk := range uint64(200) {
				x.walk(t, rand.New(rand.NewPCG(walk, 1)), 60)
			}
		})
	}
}

// walk takes steps at random. Every world on the way must have been explored.
func (x *explorer) walk(t *testing.T, rng *rand.Rand, steps int) {
	t.Helper()
	w := newWorld(x.setup)
	var trace []string
	for range steps {
		all := w.actions(nil)
		a := all[rng.IntN(len(all))]
		line := w.describe(a)
		next := w.clone()
		if err := next.do(a); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(trace, "\n"))
		}
		w = next
		trace = append(trace, line+"   | "+w.show())
		if _, ok := x.seen[x.key(w)]; !ok {
			t.Fatalf("not explored:\n%s", strings.Join(trace, "\n"))
		}
	}
}
