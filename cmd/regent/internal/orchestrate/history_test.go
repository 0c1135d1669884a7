package orchestrate

import (
	"testing"
	"time"
)

func TestHistory(t *testing.T) {
	at := time.Unix(1000, 0)
	run := func(n int, outcome string) Run {
		d := time.Duration(n)
		return Run{Slot: d.String(), Due: at.Add(d * time.Second), Outcome: outcome, LatencyMs: float64(d)}
	}

	var h history
	for i, c := range []struct {
		outcome string
		from    State
		changed bool
	}{
		{outcomeOK, Unknown, false},
		{outcomeOK, Up, false},
		{outcomeFailed, Up, true},
		{outcomeError, Down, false},
		{outcomeOK, Down, true},
	} {
		if from, changed := h.add(run(i, c.outcome)); from != c.from || changed != c.changed {
			t.Errorf("run %d: from %s, changed %v", i, from, changed)
		}
	}

	t.Run("a_repeated_or_late_run_changes_nothing", func(t *testing.T) {
		if _, changed := h.add(run(2, outcomeFailed)); changed || h.state != Up {
			t.Error("it does")
		}
		var late history
		late.add(run(5, outcomeOK))
		if _, changed := late.add(run(4, outcomeFailed)); changed || late.state != Up {
			t.Error("an older run decides")
		}
	})

	t.Run("the_first_failure_is_a_change", func(t *testing.T) {
		var h history
		if _, changed := h.add(run(0, outcomeFailed)); !changed {
			t.Error("it is not")
		}
	})

	t.Run("the_last_ten_runs_are_kept", func(t *testing.T) {
		for i := range 40 {
			h.add(run(i, outcomeOK))
		}
		if len(h.runs) != keptRuns || h.runs[0].Slot != run(30, "").Slot || h.runs[9].Slot != run(39, "").Slot {
			t.Errorf("got %v", h.runs)
		}
	})

	t.Run("a_run_that_says_nothing_about_the_target_does_not_change_its_state", func(t *testing.T) {
		for _, outcome := range []string{outcomeError, outcomeUnknown} {
			var h history
			h.add(Run{Slot: "p/1", Due: time.UnixMilli(1), Outcome: outcomeOK})
			_, changed := h.add(Run{Slot: "p/2", Due: time.UnixMilli(2), Outcome: outcome})
			if changed || h.state != Up || len(h.runs) != 2 {
				t.Errorf("%s: changed %v, %s, %d runs", outcome, changed, h.state, len(h.runs))
			}
		}
	})
}
