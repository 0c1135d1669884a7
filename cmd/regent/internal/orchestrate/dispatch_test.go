package orchestrate

import (
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/work"
)

func TestDispatch(t *testing.T) {
	const afterHold = 45 * time.Second // slots are no longer held back for workers that do not answer

	t.Run("a_slot_that_no_worker_takes_is_offered_again_later", func(t *testing.T) {
		tm := secondTerm(t, nil)
		tm.unanswered["w"] = true
		tm.addSlot(entryOf(t, tenSeconds), tm.began)
		now := tm.beganMono.Add(afterHold)
		if next := tm.dispatchLocked(now, now); !next.Equal(now.Add(retryInterval)) {
			t.Errorf("the next step is at %v, now is %v", next, now)
		}
	})

	t.Run("a_slot_that_must_not_run_twice_ends_as_unknown", func(t *testing.T) {
		tm := secondTerm(t, nil)
		tm.unanswered["w"] = true
		e := entryOf(t, tenSeconds)
		e.poll.Kind = "exec"
		tm.addSlot(e, tm.began)
		tm.dispatchLocked(tm.began.Add(afterHold), tm.beganMono.Add(afterHold))
		if len(e.runs) != 1 || e.runs[0].Outcome != outcomeUnknown || len(tm.open) != 0 || e.state != "" {
			t.Errorf("runs %v, %d open, state %s", e.runs, len(tm.open), e.state)
		}
	})
}

func TestPick(t *testing.T) {
	t.Run("the_leader_has_its_own_worker_run_only_what_no_other_can", func(t *testing.T) {
		turn := 0
		ws := &workers{
			all: []work.WorkerView{
				{ID: "self", Ready: true},
				{ID: "w1", Ready: true, Tasks: 5},
				{ID: "w2", Ready: true, Busy: true},
			},
			members: map[string]regent.MemberView{"self": {}, "w1": {}, "w2": {}},
			self:    "self",
			turn:    &turn,
		}
		s := &slot{entry: entryOf(t, tenSeconds)}
		if w := ws.pick(s); w == nil || w.ID != "w1" {
			t.Errorf("got %+v", w)
		}

		s.refused = []string{"w1"}
		if w := ws.pick(s); w == nil || w.ID != "self" {
			t.Errorf("got %+v", w)
		}
	})
}
