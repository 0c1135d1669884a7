package model

import (
	"math/rand/v2"
	"testing"
)

// walk goes at random through plain states, and checks at each that its representative can do nothing that the plain
// state cannot, once it has learned of refusals, which a representative has learned of already. It returns what it
// saw.
func walk[S comparable](t *testing.T, m Machine[S], walks, length int) (seen Witness) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	canon := func(s S) S {
		m.Canon(&s)
		return s
	}
	for range walks {
		s := m.Start()
		for range length {
			c := canon(s)
			if canon(c) != c {
				t.Fatalf("Canon is not idempotent:\n%s\n%v\n%v", m.Show(&s), c, canon(c))
			}
			can := map[S]bool{}
			var nexts []S
			var plain func(s S, depth int)
			plain = func(s S, depth int) {
				m.Steps(&s, func(step Step, n *S) {
					seen |= step.Seen
					if depth == 0 {
						nexts = append(nexts, *n)
					}
					k := canon(*n)
					can[k] = true
					if k == c && (step.Verb == Apply || step.Verb == Answer) && depth < 6 {
						plain(*n, depth+1)
					}
				})
			}
			plain(s, 0)
			m.Steps(&c, func(step Step, n *S) {
				if !can[canon(*n)] {
					t.Fatalf("%q is possible in the representative alone:\nplain %v\ncanon %v", m.Tell(&c, step), s, c)
				}
			})
			s = nexts[rng.IntN(len(nexts))]
		}
	}
	return seen
}

// covers goes at random through plain states, and checks that the representative of each is among those that were
// explored.
func covers[S comparable](t *testing.T, m Machine[S], walks, length int) {
	t.Helper()
	x := explorer[S]{machine: m, limit: 1 << 31, states: newSet[S]()}
	x.run()
	rng := rand.New(rand.NewPCG(3, 4))
	for range walks {
		s := m.Start()
		for range length {
			n := 0
			var next S
			m.Steps(&s, func(_ Step, to *S) {
				if n++; rng.IntN(n) == 0 {
					next = *to
				}
			})
			s = next
			c := s
			m.Canon(&c)
			if _, isNew := x.states.add(&c); isNew {
				t.Fatalf("not explored: %s\nplain %v\ncanon %v", m.Show(&s), s, c)
			}
		}
	}
}

func TestExplorationCoversPlainStates(t *testing.T) {
	large.skip(t)
	t.Run("of_the_own_lease", func(t *testing.T) {
		t.Parallel()
		covers(t, &Own{Procs: 2, D: 2, W: 3, Late: 1, Crashes: Unlimited, Losses: Unlimited, Releases: Unlimited},
			500, 80)
	})
	t.Run("of_members_with_one_id", func(t *testing.T) {
		t.Parallel()
		covers(t, &Via{Members: shared, ElectionCount: 1, D: 2, W: 3, Late: 1}, 500, 80)
	})
	t.Run("of_members_with_one_id_and_faults", func(t *testing.T) {
		t.Parallel()
		covers(t, &Via{Members: shared, ElectionCount: 1, D: 2, W: 3, Late: 1, Losses: 1, Releases: 1}, 1000, 80)
	})
	t.Run("of_members_with_two_ids", func(t *testing.T) {
		t.Parallel()
		covers(t, &Via{Members: distinct, ElectionCount: 1, D: 2, W: 3, Late: 1, Crashes: 1}, 1000, 80)
	})
}

func TestRepresentativesBehaveLikePlainStates(t *testing.T) {
	walks := 40
	switch {
	case *deep:
		walks = 2000
	case raceEnabled:
		walks = 4
	}
	for mutant := Correct; mutant <= ReusedRevision; mutant++ {
		t.Run("own_lease_with_"+mutant.String(), func(t *testing.T) {
			t.Parallel()
			m := &Own{Procs: 2, D: 2, W: 3, Late: 2, Tasks: 2, Mutant: mutant}
			m.Crashes, m.Losses, m.Releases = Unlimited, Unlimited, Unlimited
			if walk(t, m, walks, 60)&Conflicted == 0 && mutant == Correct && !raceEnabled {
				t.Error("no swap was refused")
			}
		})
	}
	for mutant := Correct; mutant <= IgnoreOwnElection; mutant++ {
		t.Run("member_heartbeat_with_"+mutant.String(), func(t *testing.T) {
			t.Parallel()
			for _, ids := range [][]uint8{distinct, shared} {
				m := &Via{Members: ids, ElectionCount: 2, D: 2, W: 3, Late: 2, Tasks: 2, Mutant: mutant}
				m.Crashes, m.Losses, m.Releases = Unlimited, Unlimited, Unlimited
				walk(t, m, walks, 60)
			}
		})
	}
}
