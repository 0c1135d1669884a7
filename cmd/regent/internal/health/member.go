package health

import (
	"slices"
	"time"
)

// member is what a monitor keeps of a member during a term.
type member struct {
	sight
	status  Status
	why     string
	since   time.Time // when it came to have its status
	last    verdict   // of the check before
	died    bool      // it is gone, and did not leave
	parting string    // how its register came to be vacant, as far as is known
	dropped bool      // it is gone, for so long that it is not listed any more

	report  Report
	latency time.Duration // negative if it has not answered

	told Status // up, partitioned or down, as the last event said
	from Status // what it was before it was unknown
}

// verdict is what one check makes of a member.
type verdict struct {
	status Status
	why    string
}

// badness orders the statuses of members. Unknown is the least, so that everything moves away from it.
func (s Status) badness() int {
	return slices.Index([]Status{Unknown, Healthy, Degraded, Partitioned, Unreachable, Gone}, s)
}

// proved reports whether a status rests on the member's register alone, which needs no second opinion.
func (s Status) proved() bool { return s == Unreachable || s == Gone }

// settle moves the status by a verdict, and reports whether the verdict awaits a second opinion.
func (m *member) settle(v verdict, now time.Time) (pending bool) {
	if v.status == Unknown { // it says nothing, for better or worse
		if m.status == Unknown {
			m.why = v.why
		}
		return false
	}
	next := v
	if !v.status.proved() && (m.status != Unknown || v.status != Healthy) {
		next = verdict{m.status, m.why}
		if m.last.status != "" {
			next = median(next, m.last, v)
		}
		if next.status == v.status {
			next = v // in the newest words
		} else if next.status == Unknown {
			next.why = v.why
		}
	}
	m.last = v
	if next.status != m.status {
		m.since = now
	}
	m.status, m.why = next.status, next.why
	return m.status != v.status
}

func median(a, b, c verdict) verdict {
	all := []verdict{a, b, c}
	slices.SortStableFunc(all, func(x, y verdict) int { return x.status.badness() - y.status.badness() })
	return all[1]
}

// begin makes the member one that nothing is known of. A new incarnation owes nothing to the one before.
func (m *member) begin(now time.Time) {
	if m.status != Unknown {
		m.from = m.status
	}
	m.status, m.why, m.since, m.last = Unknown, "", now, verdict{}
	m.died, m.parting, m.dropped, m.latency, m.report = false, "", false, -1, Report{}
}

// part takes in that the register has become vacant.
func (m *member) part() {
	m.died = m.died || m.status == Unreachable
	m.parting = "it left"
	if m.died {
		m.parting = "its heartbeat ran out, and was revoked"
	}
}

// standsFor reports whether the member is, or was, a candidate of the election.
func (m *member) standsFor(election string) bool {
	return m.view.Eligible && (slices.Contains(m.view.Elections, election) || slices.Contains(m.view.Elections, "*"))
}

// couldLead reports whether the member could take over: a slow or late standby is one still, one that calls itself unhealthy does not
// campaign, and one that is not known yet has the benefit of the doubt.
func (m *member) couldLead(election string) bool {
	return m.standsFor(election) && (m.status == Healthy || m.status == Unknown || m.status == Degraded && m.view.Healthy)
}

// public is the member as others are told.
func (m *member) public() Member {
	p := Member{ID: m.view.ID, Addr: m.view.Addr, Status: m.status, Why: m.why, Role: m.report.Role, Version: m.report.Version,
		Region: m.view.Region, Labels: m.view.Labels, Eligible: m.view.Eligible, Healthy: m.view.Healthy,
		LastSeenMs: -1, LatencyMs: -1, Since: m.since.Round(0)}
	if m.proven {
		p.LastSeenMs = m.quiet().Milliseconds()
	}
	if m.latency >= 0 {
		p.LatencyMs = float64(m.latency.Microseconds()) / 1000
	}
	return p
}
