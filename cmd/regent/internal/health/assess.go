package health

import (
	"fmt"
	"strings"
)

// maxNamed is the most members that a reason names.
const maxNamed = 10

// census is how many members of each group there are.
type census struct {
	present   int       // not gone
	cutOff    int       // partitioned or unreachable
	unhealthy []*member // degraded, partitioned or unreachable
	standbys  []*member // candidates other than this node, except for those that left
	left      []*member // candidates that left
	covered   bool      // a standby could take over
}

func takeCensus(members []*member, self, election string) census {
	var c census
	for _, m := range members {
		switch m.status {
		case Degraded:
			c.unhealthy = append(c.unhealthy, m)
		case Partitioned, Unreachable:
			c.cutOff++
			c.unhealthy = append(c.unhealthy, m)
		}
		if m.status != Gone {
			c.present++
		}

		switch {
		case m.view.ID == self || !m.candidateOf(election):
		case m.status == Gone && !m.died:
			c.left = append(c.left, m)
		default:
			c.standbys = append(c.standbys, m)
			c.covered = c.covered || m.couldLead(election)
		}
	}

	return c
}

// assess returns the status of the cluster, and the reasons for it. The members are those that are listed. listErr is
// why they could not be listed again, if so.
func assess(members []*member, self, election string, listErr error) (Status, []string) {
	status := Healthy
	reasons := []string{}
	worsen := func(to Status, format string, args ...any) {
		if status != Critical {
			status = to
		}
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}

	c := takeCensus(members, self, election)
	if len(c.standbys) > 0 && !c.covered {
		worsen(Critical, "no other member could take over: %s", list(c.standbys))
	}
	if c.cutOff > 0 && 2*c.cutOff >= c.present {
		worsen(Critical, "%d of %d members are cut off", c.cutOff, c.present)
	}
	if len(c.standbys) == 0 && len(c.left) > 0 {
		worsen(Degraded, "no standby is left: %s", list(c.left))
	}
	if n := len(c.unhealthy); n > 0 {
		worsen(Degraded, "%d of %d members %s not healthy: %s", n, c.present, are(n), list(c.unhealthy))
	}
	if listErr != nil {
		worsen(Degraded, "the members cannot be listed: %v", listErr)
	}
	if len(members) == 0 && listErr == nil {
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

// list returns the names of members, with their statuses and reasons.
func list(members []*member) string {
	var b strings.Builder
	for i, m := range members {
		if i == maxNamed {
			fmt.Fprintf(&b, " and %d more", len(members)-maxNamed)
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
