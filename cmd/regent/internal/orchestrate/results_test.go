package orchestrate

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/work"
)

func TestResults(t *testing.T) {
	t.Run("a_slot_that_must_not_run_twice_is_not_started_again_unless_its_worker_was_revoked", func(t *testing.T) {
		for _, revoked := range []bool{false, true} {
			tm := secondTerm(t, nil)
			e := entryOf(t, tenSeconds)
			e.poll.Kind = "exec"
			s := tm.addSlot(e, tm.began)
			s.worker = "w"
			tm.members["w"] = regent.MemberView{ID: "w", Incarnation: "1"}
			if revoked {
				tm.members["w"] = regent.MemberView{ID: "w"}
			}

			tm.attemptEnded(s, 0, work.Result{}, work.ErrGone)
			if again := !s.settled && s.Attempt == 1; again != revoked {
				t.Errorf("revoked %v: started again %v, %v", revoked, again, e.runs)
			}
		}
	})

	t.Run("a_run_that_waited_too_long_goes_to_another_worker", func(t *testing.T) {
		tm := secondTerm(t, nil)
		e := entryOf(t, tenSeconds)
		s := tm.addSlot(e, tm.began)
		e.markSent(s, tm.began)
		s.worker = "w"
		tm.attemptEnded(s, 0, work.Result{Outcome: work.Expired}, nil)
		if s.settled || s.Attempt != 1 || len(s.refused) != 1 || len(e.queue) != 1 {
			t.Errorf("got %+v", s)
		}
	})

	for kind, want := range map[string]string{"tcp": "", "exec": outcomeUnknown} {
		t.Run("a_slot_of_a_worker_that_cannot_be_reached_is_given_up_after_a_while/"+kind, func(t *testing.T) {
			tm := secondTerm(t, nil)
			e := entryOf(t, tenSeconds)
			e.poll.Kind = kind
			s := tm.addSlot(e, tm.began)
			e.markSent(s, tm.began)
			s.worker = "w"
			s.sent = time.Now().Add(-time.Duration(e.poll.Timeout) - unreachableFor)
			tm.step(tm.began)

			if again := !s.settled && s.Attempt == 1; again != (want == "") {
				t.Errorf("started again %v, %v", again, e.runs)
			}
			if want != "" && (len(e.runs) != 1 || e.runs[0].Outcome != want) {
				t.Errorf("runs %v", e.runs)
			}
		})
	}

	t.Run("a_late_result_of_a_passed_check_settles_a_slot_that_was_started_again", func(t *testing.T) {
		tm := secondTerm(t, nil)
		e := entryOf(t, tenSeconds)
		s := tm.addSlot(e, tm.began)
		s.Attempt = 1 // its worker was lost
		id := fmt.Sprintf("p/%d", s.Due)
		tm.foundResult("w", work.Result{ID: id, Outcome: work.Done, Data: []byte(`{"ok":false}`)})
		if s.settled {
			t.Error("a failed check settles it")
		}

		tm.foundResult("w", work.Result{ID: id, Outcome: work.Done, Data: []byte(`{"ok":true}`)})
		if !s.settled || len(e.runs) != 1 || e.runs[0].Outcome != outcomeOK {
			t.Errorf("got %+v, %v", s, e.runs)
		}
	})
}
