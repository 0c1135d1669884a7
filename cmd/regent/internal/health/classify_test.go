package health

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// classification is a case of a member and its answer.
type classification struct {
	change func(*member) // of a healthy member b
	age    time.Duration // of the term
	answer answer
	want   Status
	why    string // part of the reason
}

// healthyAnswer is the answer of a healthy standby.
var healthyAnswer = answer{
	asked:   true,
	report:  Report{Role: "standby", Epoch: 7, Healthy: true},
	latency: time.Millisecond,
}

// refusedAnswer is the answer of a closed port.
var refusedAnswer = answer{asked: true, err: errors.New("connection refused")}

// answerWith returns a healthy answer with a change.
func answerWith(change func(*answer)) answer {
	a := healthyAnswer
	change(&a)
	return a
}

// runClassifications checks all cases.
func runClassifications(t *testing.T, cases map[string]classification) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var h heartbeat
			healthy := state(2, 0)
			healthy.Addr = "b:1"
			healthy.Healthy = true
			h.update(healthy, time.Now(), time.Now())
			m := &member{status: Healthy, heartbeat: h}
			if c.change != nil {
				c.change(m)
			}

			got := criteria{
				opts: Options{Self: "a", HeartbeatInterval: interval}.withDefaults(),
				term: regent.Term{Election: "seat", Epoch: 7},
				age:  c.age,
			}.classify(m, c.answer)
			if got.status != c.want || !strings.Contains(got.why, c.why) {
				t.Errorf("got %q, want %s: %q", got, c.want, c.why)
			}
			if got.status == Healthy && got.why != "" {
				t.Errorf("healthy, because %q", got.why)
			}
		})
	}
}

// silentFor makes the heartbeat of a member silent for some time.
func silentFor(d time.Duration) func(*member) {
	return func(m *member) {
		m.state.HeartbeatAge = d
		m.state.Alive = d < m.lease()
	}
}

// unconfirmed makes a member new to the term.
func unconfirmed(m *member) { m.state.Heartbeats = 1 }

// self makes a member the leader itself.
func self(m *member) {
	m.view.ID = "a"
	unconfirmed(m)
}

func TestClassifyByAnswer(t *testing.T) {
	runClassifications(t, map[string]classification{
		"a_member_with_a_heartbeat_that_answers_is_healthy": {
			answer: healthyAnswer,
			want:   Healthy,
		},
		"a_member_without_an_address_is_classified_by_its_heartbeat": {want: Healthy},
		"a_new_member_that_answers_is_healthy": {
			change: unconfirmed,
			answer: healthyAnswer,
			want:   Healthy,
		},
		"a_new_member_that_does_not_answer_is_unknown": {
			change: unconfirmed,
			answer: refusedAnswer,
			want:   Unknown,
			why:    "its first heartbeat is awaited; it cannot be reached at b:1",
		},
		"a_new_member_without_an_address_is_unknown": {change: unconfirmed, want: Unknown, why: "awaited"},
		"a_member_that_is_unhealthy_in_its_register_is_degraded": {
			change: func(m *member) { m.view.Healthy = false },
			answer: healthyAnswer,
			want:   Degraded,
			why:    "it reports itself unhealthy",
		},
		"a_member_that_answers_that_it_is_unhealthy_is_degraded": {
			answer: answerWith(func(a *answer) { a.report.Healthy = false }),
			want:   Degraded,
			why:    "it answers that it is unhealthy",
		},
		"a_member_whose_checks_fail_is_degraded": {
			answer: answerWith(func(a *answer) {
				a.report.Healthy = false
				a.report.Problems = []string{"store: no answer"}
			}),
			want: Degraded,
			why:  "store: no answer",
		},
		"a_member_that_answers_just_in_time_is_healthy": {
			answer: answerWith(func(a *answer) { a.latency = 500 * time.Millisecond }),
			want:   Healthy,
		},
		"a_slower_member_is_degraded": {
			answer: answerWith(func(a *answer) { a.latency = 501 * time.Millisecond }),
			want:   Degraded,
			why:    "501ms to answer",
		},
		"a_member_that_cannot_be_reached_is_degraded_at_first": {
			answer: refusedAnswer,
			want:   Degraded,
			why:    "it cannot be reached at b:1: connection refused",
		},
		"a_member_that_cannot_be_reached_and_has_a_heartbeat_is_partitioned": {
			change: func(m *member) { m.afterFailure = true },
			answer: refusedAnswer,
			want:   Partitioned,
			why:    "its heartbeat continues, but it cannot be reached at b:1: connection refused",
		},
		"every_problem_is_a_reason": {
			change: func(m *member) {
				silentFor(4 * time.Second)(m)
				m.view.Healthy = false
			},
			answer: answerWith(func(a *answer) { a.latency = time.Second }),
			want:   Degraded,
			why: "no heartbeat for 4s; it reports itself unhealthy; " +
				"it took 1s to answer, more than 500ms",
		},
	})
}

func TestClassifyByEpoch(t *testing.T) {
	oldEpoch := answerWith(func(a *answer) { a.report.Epoch = 6 })
	runClassifications(t, map[string]classification{
		"an_old_epoch_is_healthy_soon_after_a_change": {age: 90 * time.Second, answer: oldEpoch, want: Healthy},
		"an_old_epoch_is_degraded_later": {
			age:    91 * time.Second,
			answer: oldEpoch,
			want:   Degraded,
			why:    "it knows epoch 6, but epoch 7 began",
		},
		"an_epoch_of_another_election_is_ignored": {
			age: time.Hour,
			answer: answerWith(func(a *answer) {
				a.report.Epoch = 2
				a.report.Election = "other"
			}),
			want: Healthy,
		},
		"no_epoch_is_ignored": {
			age:    time.Hour,
			answer: answerWith(func(a *answer) { a.report.Epoch = 0 }),
			want:   Healthy,
		},
		"a_second_leader_is_degraded": {
			answer: answerWith(func(a *answer) { a.report.Role = "leader" }),
			want:   Degraded,
			why:    "it claims to lead, in epoch 7",
		},
		"a_leader_of_another_election_is_healthy": {
			answer: answerWith(func(a *answer) {
				a.report.Role = "leader"
				a.report.Election = "other"
			}),
			want: Healthy,
		},
	})
}

func TestClassifyByHeartbeat(t *testing.T) {
	runClassifications(t, map[string]classification{
		"a_late_heartbeat_is_degraded": {
			change: silentFor(3 * time.Second),
			answer: healthyAnswer,
			want:   Degraded,
			why:    "no heartbeat for 3s",
		},
		"an_expired_heartbeat_is_unreachable": {
			change: silentFor(lease),
			want:   Unreachable,
			why:    "no heartbeat for 6s, its lease is 6s",
		},
		"an_expired_heartbeat_is_unreachable_for_ten_minutes": {
			change: silentFor(10*time.Minute - 1),
			want:   Unreachable,
		},
		"after_ten_minutes_it_is_gone": {
			change: silentFor(10 * time.Minute),
			want:   Gone,
			why:    "no heartbeat for 10m0s",
		},
		"a_lease_that_is_longer_than_that_counts": {
			change: func(m *member) {
				m.view.Lease = time.Hour
				silentFor(11 * time.Minute)(m)
			},
			answer: healthyAnswer,
			want:   Healthy,
		},
		"a_vacant_register_is_gone": {
			change: func(m *member) {
				m.vacant = true
				m.depart()
			},
			want: Gone,
			why:  "it left",
		},
		"a_vacant_register_after_silence_was_revoked": {
			change: func(m *member) {
				m.vacant = true
				m.status = Unreachable
				m.depart()
			},
			want: Gone,
			why:  "its heartbeat expired, and it was revoked",
		},
	})
}

func TestClassifySelf(t *testing.T) {
	runClassifications(t, map[string]classification{
		"the_leader_itself_is_present": {change: self, want: Healthy},
		"the_leader_itself_leads": {
			change: self,
			answer: answerWith(func(a *answer) { a.report.Role = "leader" }),
			want:   Healthy,
		},
		"the_leader_itself_is_never_partitioned": {
			change: func(m *member) {
				self(m)
				m.state.Heartbeats = 2
				m.afterFailure = true
			},
			answer: refusedAnswer,
			want:   Degraded,
			why:    "cannot be reached",
		},
		"the_leader_itself_is_never_unreachable": {
			change: func(m *member) {
				self(m)
				silentFor(time.Minute)(m)
			},
			want: Degraded,
			why:  "no heartbeat",
		},
		"the_leader_itself_need_not_see_its_own_heartbeat": {
			change: self,
			answer: refusedAnswer,
			want:   Degraded,
			why:    "cannot be reached",
		},
		"the_leader_itself_is_asked_for_its_health": {
			change: self,
			answer: answerWith(func(a *answer) { a.report.Problems = []string{"loop: overdue"} }),
			want:   Degraded,
			why:    "loop: overdue",
		},
	})
}
