package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/doctor"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
)

// adopt takes the lease and the takeover delay of the node that was asked, or longer ones of members that differ from
// it: these decide how long a takeover takes, and not the configuration here.
func (x *examination) adopt(ctx context.Context, from *cluster.Node, s cluster.Status) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()

	lease, delay, err := from.Lease(ctx)
	if err != nil || lease <= 0 {
		return
	}

	for _, d := range s.Differs {
		theirs, err := time.ParseDuration(d.Theirs)
		switch {
		case err != nil:
		case d.Key == "leaseDuration":
			lease = max(lease, theirs)
		case d.Key == "takeoverDelay":
			delay = max(delay, theirs)
		}
	}

	x.settings.Regent.LeaseDuration = lease
	x.settings.Regent.TakeoverDelay = delay
	x.lease = ", as the nodes are configured"
	if len(s.Differs) > 0 {
		x.lease += ": the longest that " + s.Node + " knows of"
	}
}

// adoptLongest takes the longest lease and takeover delay that members publish in their registers. A standby compares
// itself with the leader alone, so that it does not know of a third member that differs.
func (x *examination) adoptLongest(ctx context.Context, store driver.Store) {
	members, err := (&regent.Member{Store: store}).Members(ctx)
	if err != nil {
		return // the measurements that follow say why
	}

	leases := map[time.Duration][]string{} // the members that have each
	for _, m := range members {
		lease, delay := node.Times(m)
		if m.Incarnation == "" || lease <= 0 {
			continue
		}

		leases[lease] = append(leases[lease], m.ID)
		x.settings.Regent.TakeoverDelay = max(x.settings.Regent.TakeoverDelay, delay)
		if lease > x.settings.Regent.LeaseDuration {
			x.settings.Regent.LeaseDuration = lease
			x.lease = fmt.Sprintf(", as the register of %s shows: the longest", m.ID)
		}
	}
	if len(leases) < 2 {
		return
	}

	var each []string
	for _, lease := range slices.Sorted(maps.Keys(leases)) {
		each = append(each, fmt.Sprintf("%v at %s", lease, listed(leases[lease])))
	}
	x.report.Add("members", doctor.Wrong, "give all members the same configuration",
		"leaseDuration is %s: takeovers take as long as the lease of the leader that died", strings.Join(each, ", "))
}

// maxListed is how many names of members stand in one line.
const maxListed = 5

// listed returns names in one line.
func listed(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// countOf returns a number and what it counts.
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkNode checks the node that was asked, and the members that it knows of.
func (x *examination) checkNode(ctx context.Context, asked *cluster.Node, s cluster.Status, silent error) {
	r := x.report
	if silent != nil {
		r.Add("node", doctor.Skipped, "name a node with --addr to check its members", "%v", silent)
		return
	}

	failed := failedChecks(s)
	for _, text := range failed {
		r.Add("node", doctor.Wrong, "", "%s", text)
	}
	wrong := len(failed)
	switch {
	case wrong == 0 && len(s.Differs) > 0:
		r.Add("node", doctor.OK, "", "%s is %s, and its checks pass, but others have another configuration", s.Node,
			s.Role)
	case wrong == 0:
		r.Add("node", doctor.OK, "", "%s is %s, and all its checks pass", s.Node, s.Role)
	}

	for _, d := range s.Differs {
		r.Add("members", doctor.Wrong, "give all members the same configuration", "configuration differs: %s", d.Text)
	}
	x.checkMembers(ctx, asked)
	x.checkSkew(ctx, asked)
}

func (x *examination) checkMembers(ctx context.Context, asked *cluster.Node) {
	r := x.report
	all, err := asked.Members(ctx)
	if err != nil {
		r.Add("members", doctor.Skipped, "", "%v", err)
		return
	}

	for _, reason := range all.Reasons {
		v := doctor.Warning
		if all.Status == "critical" {
			v = doctor.Wrong
		}
		r.Add("members", v, "'regent why MEMBER' says more", "cluster %s: %s", all.Status, reason)
	}
	if here := len(all.Members) - all.Counts.Gone; len(all.Reasons) == 0 {
		r.Add("members", doctor.OK, "", "%s, all healthy", countOf(here, "member"))
	}
	for _, m := range all.Members {
		if m.Status == health.Gone {
			r.Add("members", doctor.Warning, "start it again, unless it was to stop", "%s is gone since %s: %s", m.ID,
				output.Time(m.Since), m.Why)
		}
	}
	if len(all.Members)-all.Counts.Gone == 1 {
		r.Add("members", doctor.Warning, "start another node", "there is one member alone: nobody could take over")
	}
}

// checkSkew compares the wall clock of the node with the one of this machine.
func (x *examination) checkSkew(ctx context.Context, asked *cluster.Node) {
	sent := time.Now()
	all, err := asked.Elections(ctx)
	if err != nil {
		return
	}

	theirs := all.AsOf.Add(time.Duration(all.AgeMs) * time.Millisecond)
	ours := sent.Add(time.Since(sent) / 2)
	skew := theirs.Sub(ours).Abs()
	slack := time.Since(sent)
	if skew > maxSkew+slack {
		x.report.Add("clocks", doctor.Warning, "synchronise them: due times and histories follow wall clocks",
			"the clock of the node differs by %s from the one here; leases do not depend on it", output.Duration(skew))
		return
	}

	x.report.Add("clocks", doctor.OK, "", "the node's wall clock and the one here agree")
}
