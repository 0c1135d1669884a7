package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent"
)

// judge is what a member is measured by.
type judge struct {
	opts Options
	term regent.Term
	age  time.Duration // of the term, on this node's clock
}

// answer is what became of a probe.
type answer struct {
	asked   bool
	report  Report
	err     error
	latency time.Duration
}

// verdict says how a member is, by its heartbeat and by its answer.
func (j judge) verdict(m *member, a answer) verdict {
	v := j.byHeartbeat(m)
	if v.status == "" {
		v = j.byAnswer(m, a)
	}
	if m.view.ID == j.opts.Self && v.status.badness() > Degraded.badness() {
		v.status = Degraded // whoever observes is there
	}
	return v
}

// byHeartbeat is the verdict on a member without a heartbeat, and none on any other.
func (j judge) byHeartbeat(m *member) verdict {
	quiet := m.quiet().Round(time.Millisecond)
	switch {
	case m.vacant:
		return verdict{Gone, m.parting}
	case m.ranOut() && m.quiet() >= j.opts.GoneAfter:
		return verdict{Gone, fmt.Sprintf("no heartbeat for %v", quiet)}
	case m.ranOut():
		return verdict{Unreachable, fmt.Sprintf("no heartbeat for %v, its lease is %v", quiet, m.lease())}
	}
	return verdict{}
}

// byAnswer is the verdict on a member whose heartbeat has not run out.
func (j judge) byAnswer(m *member, a answer) verdict {
	failed := a.asked && a.err != nil
	answers := a.asked && a.err == nil
	late := m.late(j.opts.HeartbeatInterval)
	switch {
	case !m.proven && !answers && m.view.ID != j.opts.Self:
		v := verdict{Unknown, "its heartbeat is awaited"}
		if failed {
			v.why += fmt.Sprintf("; it cannot be reached at %s: %v", m.view.Addr, a.err)
		}
		return v
	case failed && m.cutBeat:
		return verdict{Partitioned, fmt.Sprintf("its heartbeat goes on, but it cannot be reached at %s: %v", m.view.Addr, a.err)}
	}
	var why []string
	say := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if late {
		say("no heartbeat for %v", m.quiet().Round(time.Millisecond))
	}
	if failed {
		say("it cannot be reached at %s: %v", m.view.Addr, a.err)
	}
	if !m.view.Healthy {
		say("it says that it is not healthy")
	}
	if answers {
		j.ofReport(m, a, say)
	}
	if len(why) == 0 {
		return verdict{Healthy, ""}
	}
	return verdict{Degraded, strings.Join(why, "; ")}
}

// ofReport says what is wrong with an answer.
func (j judge) ofReport(m *member, a answer, say func(string, ...any)) {
	r := a.report
	for _, p := range r.Problems {
		say("%s", p)
	}
	if !r.Healthy && len(r.Problems) == 0 {
		say("it answers that it is not healthy")
	}
	if a.latency > j.opts.DegradedLatency {
		say("it took %v to answer, more than %v", a.latency.Round(time.Millisecond), j.opts.DegradedLatency)
	}
	if r.Election != "" && r.Election != j.term.Election {
		return // its role and its epoch are of another election
	}
	if r.Role == roleLeader && m.view.ID != j.opts.Self {
		say("it says that it leads, in epoch %d", r.Epoch)
	}
	// Right after a change of hands nobody knows of it yet.
	if r.Epoch != 0 && r.Epoch < j.term.Epoch && j.age > j.opts.EpochLag {
		say("it knows epoch %d, where %d began %v ago", r.Epoch, j.term.Epoch, j.age.Round(time.Second))
	}
}
