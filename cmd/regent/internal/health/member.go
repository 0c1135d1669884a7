package health

import (
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/millis"
)

// member is what a monitor knows about a member during a term.
type member struct {
	heartbeat
	status    Status
	why       string
	since     time.Time // of the status
	last      finding   // of the check before
	died      bool      // it is gone, and did not leave
	departure string    // why its register is vacant, as far as is known
	dropped   bool      // it was gone for so long that it is not listed any more

	report  Report
	latency time.Duration // negative if it has not answered

	emitted  Status // up, partitioned or down, according to the last event; empty if there was none
	previous Status // before it was unknown
}

// severity orders the statuses of members. Unknown is the lowest, so that every finding changes it.
func (s Status) severity() int {
	return slices.Index([]Status{Unknown, Healthy, Degraded, Partitioned, Unreachable, Gone}, s)
}

// proved reports whether a status follows from the register alone, so that one finding is enough.
func (s Status) proved() bool { return s == Unreachable || s == Gone }

// apply changes the status by a finding. It reports whether another finding is needed to confirm it.
func (m *member) apply(f finding, now time.Time) (pending bool) {
	if f.status == Unknown { // the check has found nothing
		if m.status == Unknown {
			m.why = f.why
		}
		return false
	}

	next := m.nextStatus(f)
	m.last = f
	if next.status != m.status {
		m.since = now
	}

	m.status = next.status
	m.why = next.why
	return m.status != f.status
}

// nextStatus returns the status after a finding: the median of the status and the last two findings, unless one finding
// is enough.
func (m *member) nextStatus(f finding) finding {
	firstHealthy := m.status == Unknown && f.status == Healthy
	if f.status.proved() || firstHealthy {
		return f
	}

	next := finding{m.status, m.why}
	if m.last.status != "" {
		next = median(next, m.last, f)
	}
	if next.status == f.status {
		return f // with the newest reason
	}
	if next.status == Unknown {
		next.why = f.why
	}

	return next
}

func median(a, b, c finding) finding {
	all := []finding{a, b, c}
	slices.SortStableFunc(all, func(x, y finding) int { return x.status.severity() - y.status.severity() })
	return all[1]
}

// reset makes the member unknown, for a new incarnation.
func (m *member) reset(now time.Time) {
	if m.status != Unknown {
		m.previous = m.status
	}

	*m = member{
		heartbeat: m.heartbeat,
		status:    Unknown,
		since:     now,
		latency:   -1,
		emitted:   m.emitted,
		previous:  m.previous,
	}
}

// depart notes that the register has become vacant.
func (m *member) depart() {
	m.died = m.died || m.status == Unreachable || silent(m.state.Ended)
	switch {
	case proved[m.state.Ended] != "":
		m.departure = proved[m.state.Ended]
	case m.died:
		m.departure = "its heartbeat expired, and it was revoked"
	default:
		m.departure = "it left"
	}
}

// proved are the ends of a process that somebody has seen.
var proved = map[regent.Reason]string{
	regent.ReasonDied:   "its process died",
	regent.ReasonKilled: "its process was frozen past its deadline, and its reaper killed it",
}

// silent reports whether an incarnation, or a term, ended without a word of its own process, or because that had lost
// the store.
func silent(r regent.Reason) bool {
	return slices.Contains([]regent.Reason{regent.ReasonExpired, regent.ReasonDied, regent.ReasonKilled,
		regent.ReasonLost, regent.ReasonPartitioned}, r)
}

// candidateOf reports whether the member is, or was, a candidate of the election.
func (m *member) candidateOf(election string) bool {
	elections := m.view.Elections
	return m.view.Eligible && (slices.Contains(elections, election) || slices.Contains(elections, "*"))
}

// couldLead reports whether the member could take over. A slow or late member could, and so could one with unknown
// status. One that is unhealthy according to its register does not campaign.
func (m *member) couldLead(election string) bool {
	if !m.candidateOf(election) {
		return false
	}

	return m.status == Healthy || m.status == Unknown || m.status == Degraded && m.view.Healthy
}

// public returns the member as it is shown to users.
func (m *member) public() Member {
	p := Member{
		ID:         m.view.ID,
		Addr:       m.view.Addr,
		Status:     m.status,
		Why:        m.why,
		Role:       m.report.Role,
		Version:    m.report.Version,
		Region:     m.view.Region,
		Labels:     m.view.Labels,
		Priority:   m.view.Priority,
		Elections:  m.view.Elections,
		Eligible:   m.view.Eligible,
		Healthy:    m.view.Healthy,
		LastSeenMs: -1,
		Since:      m.since.Round(0),

		ProbeLatencyMs: -1,
		HeartbeatP50Ms: m.report.HeartbeatP50Ms,
		HeartbeatP99Ms: m.report.HeartbeatP99Ms,
	}
	if m.confirmed() {
		p.LastSeenMs = m.silentFor().Milliseconds()
	}
	if m.latency >= 0 {
		p.ProbeLatencyMs = millis.Of(m.latency)
	}

	return p
}
