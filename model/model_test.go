package model

import (
	"flag"
	"testing"
)

var deep = flag.Bool("model.deep", false,
	"explore the large configurations too: some hundred million steps, and some GiB")

// size is how long a configuration takes.
type size uint8

const (
	small size = iota // always
	large             // not with -short or -race
	huge              // with -model.deep only
)

func (s size) skip(t *testing.T) {
	t.Helper()
	switch {
	case s == huge && !*deep:
		t.Skip("explored with -model.deep")
	case s == large && (testing.Short() || raceEnabled) && !*deep:
		t.Skip("explored without -short and -race")
	}
}

// holds explores a machine that must have no violation, and must show what it is there to show.
func holds[S comparable](t *testing.T, m Machine[S], shows Witness) {
	t.Helper()
	r := Explore(m, 1<<31)
	t.Logf("%d states, %d steps, depth %d, in %v", r.States, r.Steps, r.Depth, r.Elapsed.Round(1e6))
	if r.Failure != nil {
		t.Fatal(r.Failure)
	}
	if !r.Whole {
		t.Fatal("the state space was not exhausted")
	}
	for _, w := range (shows &^ r.Seen).split() {
		t.Errorf("not reachable: %s", w)
	}
}

// breaks explores a mutant, which must violate the property.
func breaks[S comparable](t *testing.T, m Machine[S], want Property) {
	t.Helper()
	r := Explore(m, 4_000_000)
	t.Logf("%d states, %d steps, depth %d, in %v", r.States, r.Steps, r.Depth, r.Elapsed.Round(1e6))
	if r.Failure == nil {
		t.Fatal("no violation was found")
	}
	t.Log(r.Failure)
	if r.Failure.Property != want {
		t.Errorf("got %q, want %q", r.Failure.Property, want)
	}
	if len(r.Failure.Trace) < 2 {
		t.Error("the trace is empty")
	}
}
