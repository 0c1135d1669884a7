package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent"
)

// criteria are what a member is classified by.
type criteria struct {
	opts Options
	term regent.Term
	age  time.Duration // of the term, by this node's clock
}

// answer is the outcome of a probe.
type answer struct {
	asked   bool
	report  Report
	err     error
	latency time.Duration
}

// finding is the result of one check of a member.
type finding struct {
	status Status
	why    string
}

// classify returns the status of a member by its heartbeat and its answer.
func (c criteria) classify(m *member, a answer) finding {
	f := c.byHeartbeat(m)
	if f.status == "" {
		f = c.byAnswer(m, a)
	}
	if m.view.ID == c.opts.Self && f.status.severity() > Degraded.severity() {
		f.status = Degraded // this node is certainly there
	}

	return f
}

// byHeartbeat classifies a member without a heartbeat. It returns the zero finding for any other.
func (c criteria) byHeartbeat(m *member) finding {
	silent := m.silentFor().Round(time.Millisecond)
	switch {
	case m.vacant:
		return finding{Gone, m.departure}
	case m.expired() && m.silentFor() >= c.opts.GoneAfter:
		return finding{Gone, fmt.Sprintf("no heartbeat for %v", silent)}
	case m.expired():
		return finding{Unreachable, fmt.Sprintf("no heartbeat for %v, its lease is %v", silent, m.lease())}
	}

	return finding{}
}

// byAnswer classifies a member whose heartbeat has not expired.
func (c criteria) byAnswer(m *member, a answer) finding {
	unreachable := ""
	if a.asked && a.err != nil {
		unreachable = fmt.Sprintf("it cannot be reached at %s: %v", m.view.Addr, a.err)
	}
	answered := a.asked && a.err == nil

	switch {
	case !m.confirmed() && !answered && m.view.ID != c.opts.Self:
		why := "its first heartbeat is awaited"
		if unreachable != "" {
			why += "; " + unreachable
		}
		return finding{Unknown, why}
	case unreachable != "" && m.afterFailure:
		return finding{Partitioned, "its heartbeat continues, but " + unreachable}
	}

	var problems []string
	if m.late(c.opts.HeartbeatInterval) {
		problems = append(problems, fmt.Sprintf("no heartbeat for %v", m.silentFor().Round(time.Millisecond)))
	}
	if unreachable != "" {
		problems = append(problems, unreachable)
	}
	if !m.view.Healthy {
		problems = append(problems, "it reports itself unhealthy")
	}
	if answered {
		problems = append(problems, c.problemsOf(m, a)...)
	}

	if len(problems) == 0 {
		return finding{Healthy, ""}
	}
	return finding{Degraded, strings.Join(problems, "; ")}
}

// problemsOf returns the problems in an answer.
func (c criteria) problemsOf(m *member, a answer) []string {
	r := a.report
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	for _, p := range r.Problems {
		add("%s", p)
	}
	if !r.Healthy && len(r.Problems) == 0 {
		add("it answers that it is unhealthy")
	}
	if a.latency > c.opts.DegradedLatency {
		add("it took %v to answer, more than %v", a.latency.Round(time.Millisecond), c.opts.DegradedLatency)
	}

	if r.Election != "" && r.Election != c.term.Election {
		return problems // its role and its epoch are of another election
	}
	if r.Role == roleLeader && m.view.ID != c.opts.Self {
		add("it claims to lead, in epoch %d", r.Epoch)
	}
	if r.Epoch != 0 && r.Epoch < c.term.Epoch && c.age > c.opts.EpochLag {
		add("it knows epoch %d, but epoch %d began %v ago", r.Epoch, c.term.Epoch, c.age.Round(time.Second))
	}

	return problems
}
