package health

import (
	"fmt"
	"strings"
)

// named is how many members a reason names.
const named = 10

// assess says how the cluster is, and why. The members are those that are listed.
func assess(members []*member, self, election string, trouble error) (Status, []string) {
	var sick, cut, present int
	var those, standbys, leavers []*member
	covered := false
	for _, m := range members {
		switch m.status {
		case Degraded:
			sick++
			those = append(those, m)
		case Partitioned, Unreachable:
			cut++
			those = append(those, m)
		}
		if m.status != Gone {
			present++
		}
		switch {
		case m.view.ID == self || !m.standsFor(election):
		case m.status == Gone && !m.died:
			leavers = append(leavers, m)
		default:
			standbys = append(standbys, m)
			covered = covered || m.couldLead(election)
		}
	}
	status, reasons := Healthy, []string{}
	worsen := func(to Status, format string, args ...any) {
		if status != Critical {
			status = to
		}
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	if len(standbys) > 0 && !covered {
		worsen(Critical, "no other member could take over: %s", list(standbys))
	}
	if cut > 0 && 2*cut >= present {
		worsen(Critical, "%d of %d members are cut off", cut, present)
	}
	if len(standbys) == 0 && len(leavers) > 0 {
		worsen(Degraded, "no standby is left: %s", list(leavers))
	}
	if sick+cut > 0 {
		worsen(Degraded, "%d of %d members %s not healthy: %s", sick+cut, present, are(sick+cut), list(those))
	}
	if trouble != nil {
		worsen(Degraded, "the members cannot be listed: %v", trouble)
	}
	if len(members) == 0 && trouble == nil {
		reasons = append(reasons, "no member registers itself, so that only this leader is known")
	}
	return status, reasons
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func list(members []*member) string {
	var b strings.Builder
	for i, m := range members {
		if i == named {
			fmt.Fprintf(&b, " and %d more", len(members)-named)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s", m.view.ID, m.status)
		if m.why != "" {
			fmt.Fprintf(&b, ": %s", m.why)
		}
		b.WriteString(")")
	}
	return b.String()
}
