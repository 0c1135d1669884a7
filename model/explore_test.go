package model

import (
	"fmt"
	"testing"
)

// counter is a machine whose state is a number: it grows, is halved by a fault, and is led at goal.
type counter struct {
	top   int
	goal  int
	crowd int // two believe here
	trap  int // no fault-free step leads out of here
}

func (c counter) Start() int { return 0 }

func (c counter) Steps(s *int, emit func(Step, *int)) {
	up, down := min(*s+1, c.top), *s/2
	emit(Step{Verb: Tick, Fair: *s != c.trap}, &up)
	emit(Step{Verb: Crash}, &down)
}

func (c counter) Canon(*int) {}

func (c counter) Believers(s *int, _ int) int {
	switch *s {
	case c.crowd:
		return 2
	case c.goal:
		return 1
	}
	return 0
}

func (c counter) Elections() int             { return 1 }
func (c counter) Tell(_ *int, s Step) string { return fmt.Sprint(s.Verb) }
func (c counter) Show(s *int) string         { return fmt.Sprint(*s) }

func TestExplore(t *testing.T) {
	t.Run("visits_every_state_once", func(t *testing.T) {
		r := Explore(counter{top: 10_000, goal: 10_000, crowd: -1, trap: -1}, 1<<20)
		if r.States != 10_001 || !r.Whole || r.Failure != nil || r.Depth != 10_000 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("finds_the_shortest_way_to_a_violation", func(t *testing.T) {
		r := Explore(counter{top: 100, goal: 100, crowd: 7, trap: -1}, 1<<20)
		if r.Failure == nil || r.Failure.Property != OneLeader || len(r.Failure.Trace) != 8 ||
			r.Failure.Trace[7].State != "7" {
			t.Errorf("got %v", r.Failure)
		}
	})
	t.Run("finds_a_state_that_only_a_fault_leads_out_of", func(t *testing.T) {
		r := Explore(counter{top: 100, goal: 100, crowd: -1, trap: 50}, 1<<20)
		if r.Failure == nil || r.Failure.Property != NeverStuck || r.Failure.Trace[0].State != "0" {
			t.Errorf("got %v", r.Failure)
		}
	})
	t.Run("says_that_it_did_not_see_everything", func(t *testing.T) {
		if r := Explore(counter{top: 100, goal: 100, crowd: -1, trap: -1}, 50); r.Whole {
			t.Errorf("got %+v", r)
		}
	})
}
