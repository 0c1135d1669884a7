package graph

import (
	"slices"
	"testing"
)

// chain returns 0 -> 1 -> 2 -> 1, 0 -> 2, and 3 without a transition.
func chain() *Graph {
	var g Graph
	for _, to := range [][]uint32{{1, 2}, {2}, {1}, {}} {
		for _, t := range to {
			g.Edge(t)
		}
		g.EndNode()
	}
	return &g
}

func TestReversed(t *testing.T) {
	back := chain().Reversed()
	for i, want := range [][]uint32{{}, {0, 2}, {0, 1}, {}} {
		if got := back.node(uint32(i)); !slices.Equal(got, want) {
			t.Errorf("to %d lead %v, want %v", i, got, want)
		}
	}
}

func TestReach(t *testing.T) {
	for _, c := range []struct {
		g         *Graph
		from      []bool
		unreached uint32
		any       bool
	}{
		{chain(), []bool{true, false, false, false}, 3, true},
		{chain(), []bool{true, false, false, true}, 0, false},
		{chain().Reversed(), []bool{false, false, true, true}, 0, false},
		{chain(), []bool{false, true, false, true}, 0, true},
	} {
		from := slices.Clone(c.from)
		if unreached, any := c.g.Reach(from); unreached != c.unreached || any != c.any {
			t.Errorf("from %v: %d is not reached (%t), want %d (%t)", c.from, unreached, any, c.unreached, c.any)
		}
	}
}
