package health

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
)

func TestVerdict(t *testing.T) {
	well := answer{asked: true, report: Report{Role: "standby", Epoch: 7, Healthy: true}, latency: time.Millisecond}
	refused := answer{asked: true, err: errors.New("connection refused")}
	// with returns a good answer that differs.
	with := func(change func(*answer)) answer {
		a := well
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		change func(*member)
		age    time.Duration
		answer answer
		want   Status
		why    string
	}{
		"one_that_beats_and_answers_is_healthy":          {answer: well, want: Healthy},
		"one_without_an_address_is_judged_by_its_beat":   {want: Healthy},
		"one_that_is_new_and_answers_is_healthy":         {change: func(m *member) { m.proven = false }, answer: well, want: Healthy},
		"one_that_is_new_and_does_not_answer_is_unknown": {change: func(m *member) { m.proven = false }, answer: refused, want: Unknown, why: "awaited"},
		"one_that_is_new_without_an_address_is_unknown":  {change: func(m *member) { m.proven = false }, want: Unknown, why: "awaited"},
		"one_that_calls_itself_sick_is_degraded": {change: func(m *member) { m.view.Healthy = false }, answer: well, want: Degraded,
			why: "it says that it is not healthy"},
		"one_that_answers_so_is_degraded": {answer: with(func(a *answer) { a.report.Healthy = false }), want: Degraded, why: "it answers that it is not healthy"},
		"one_whose_checks_fail_is_degraded": {answer: with(func(a *answer) { a.report.Healthy, a.report.Problems = false, []string{"store: no answer"} }),
			want: Degraded, why: "store: no answer"},
		"one_that_is_as_quick_as_it_must_be_is_healthy": {answer: with(func(a *answer) { a.latency = 500 * time.Millisecond }), want: Healthy},
		"one_that_is_slower_is_degraded":                {answer: with(func(a *answer) { a.latency = 501 * time.Millisecond }), want: Degraded, why: "501ms to answer"},
		"an_old_epoch_is_fine_right_after_a_change":     {age: 90 * time.Second, answer: with(func(a *answer) { a.report.Epoch = 6 }), want: Healthy},
		"an_old_epoch_is_not_for_ever":                  {age: 91 * time.Second, answer: with(func(a *answer) { a.report.Epoch = 6 }), want: Degraded, why: "it knows epoch 6, where 7 began"},
		"an_epoch_of_another_election_is_nothing": {age: time.Hour, answer: with(func(a *answer) { a.report.Epoch, a.report.Election = 2, "other" }),
			want: Healthy},
		"no_epoch_is_nothing":                                        {age: time.Hour, answer: with(func(a *answer) { a.report.Epoch = 0 }), want: Healthy},
		"a_second_leader_is_degraded":                                {answer: with(func(a *answer) { a.report.Role = "leader" }), want: Degraded, why: "it says that it leads, in epoch 7"},
		"a_leader_of_another_election_is_well":                       {answer: with(func(a *answer) { a.report.Role, a.report.Election = "leader", "other" }), want: Healthy},
		"one_that_is_late_is_degraded":                               {change: quiet(3 * time.Second), answer: well, want: Degraded, why: "no heartbeat for 3s"},
		"one_that_is_not_reached_is_degraded_until_its_beat_is_seen": {answer: refused, want: Degraded, why: "it cannot be reached at b:1: connection refused"},
		"one_that_is_not_reached_and_beats_is_partitioned": {change: func(m *member) { m.cutBeat = true }, answer: refused, want: Partitioned,
			why: "its heartbeat goes on, but it cannot be reached at b:1: connection refused"},
		"one_whose_lease_has_run_out_is_unreachable": {change: quiet(lease), want: Unreachable, why: "no heartbeat for 6s, its lease is 6s"},
		"and_stays_so":       {change: quiet(10*time.Minute - 1), want: Unreachable},
		"but_not_for_ever":   {change: quiet(10 * time.Minute), want: Gone, why: "no heartbeat for 10m0s"},
		"a_lease_comes_last": {change: func(m *member) { quiet(11 * time.Minute)(m); m.view.Lease = time.Hour }, answer: well, want: Healthy},
		"a_vacant_register_is_gone": {change: func(m *member) { m.vacant = true; m.part() }, want: Gone,
			why: "it left"},
		"a_vacant_register_after_silence_was_revoked": {change: func(m *member) { m.vacant, m.status = true, Unreachable; m.part() }, want: Gone,
			why: "its heartbeat ran out, and was revoked"},
		"everything_that_is_wrong_is_said": {change: func(m *member) { quiet(4 * time.Second)(m); m.view.Healthy = false },
			answer: with(func(a *answer) { a.latency = time.Second }), want: Degraded,
			why: "no heartbeat for 4s; it says that it is not healthy; it took 1s to answer, more than 500ms"},
		"the_leader_itself_is_there":                    {change: self, want: Healthy},
		"the_leader_itself_may_say_that_it_leads":       {change: self, answer: with(func(a *answer) { a.report.Role = "leader" }), want: Healthy},
		"the_leader_itself_is_never_partitioned":        {change: func(m *member) { self(m); m.proven, m.cutBeat = true, true }, answer: refused, want: Degraded, why: "cannot be reached"},
		"the_leader_itself_is_never_unreachable":        {change: func(m *member) { self(m); quiet(time.Minute)(m) }, want: Degraded, why: "no heartbeat"},
		"the_leader_itself_need_not_see_its_own_beat":   {change: self, answer: refused, want: Degraded, why: "cannot be reached"},
		"the_leader_itself_is_asked_for_its_own_health": {change: self, answer: with(func(a *answer) { a.report.Problems = []string{"loop: overdue"} }), want: Degraded, why: "loop: overdue"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			m := &member{status: Healthy, sight: sight{rev: "1", proven: true, began: start, looked: start, stood: start, view: regent.MemberView{
				ID: "b", Addr: "b:1", Incarnation: "1", Rev: "1", Lease: lease, MemberInfo: regent.MemberInfo{Healthy: true}}}}
			if c.change != nil {
				c.change(m)
			}
			j := judge{opts: Options{Self: "a", HeartbeatInterval: heartbeat}.orDefault(), term: regent.Term{Election: "seat", Epoch: 7}, age: c.age}
			got := j.verdict(m, c.answer)
			if got.status != c.want || c.why == "" && c.want == Healthy && got.why != "" || !strings.Contains(got.why, c.why) {
				t.Errorf("got %q, want %s: %q", got, c.want, c.why)
			}
		})
	}
}

// quiet lets a revision stand still.
func quiet(d time.Duration) func(*member) { return func(m *member) { m.stood = m.began.Add(-d) } }

func self(m *member) { m.view.ID, m.proven = "a", false }
