package orchestrate

import (
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestUnanswered(t *testing.T) {
	worker := func(alive bool) []regent.MemberState {
		m := regent.MemberState{MemberView: regent.MemberView{ID: "w", Addr: "w:1", Incarnation: "1"}, Alive: alive}
		m.Worker = true
		return []regent.MemberState{m}
	}

	t.Run("a_new_leader_waits_for_the_workers_of_its_first_listing_until_they_die", func(t *testing.T) {
		tm := secondTerm(t, nil)
		tm.listedAt = time.Time{}
		tm.updateWorkers(worker(true), time.Now())
		if !tm.unanswered["w"] {
			t.Error("it does not wait")
		}

		tm.updateWorkers(worker(false), time.Now())
		if tm.unanswered["w"] {
			t.Error("it waits for a worker that is dead")
		}
	})

	t.Run("workers_that_join_later_have_nothing_of_the_last_leader", func(t *testing.T) {
		tm := secondTerm(t, nil)
		tm.updateWorkers(worker(true), time.Now())
		if tm.unanswered["w"] {
			t.Error("it waits")
		}
	})
}
