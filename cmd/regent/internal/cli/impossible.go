package cli

import (
	"context"
	"fmt"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/elections"
)

// impossible returns why a verb would do nothing, or only harm; empty if it may work. It is asked before the verb is
// sent.
func (v *steering) impossible(ctx context.Context) string {
	e := v.election
	ends := v.verb == cluster.HandOff || v.verb == cluster.StepDown
	switch {
	case v.epoch > e.Epoch:
		return fmt.Sprintf("epoch %d has not begun: it is %d now; nothing was changed", v.epoch, e.Epoch)
	case v.epoch != e.Epoch: // that is the better reason, and comes with the answer
		return ""
	case ends && e.State != elections.Led && e.Paused:
		return fmt.Sprintf("nobody leads, and the election is paused: 'regent resume %s' lets candidates claim it",
			e.Name)
	case v.verb == cluster.StepDown && v.wait && e.Paused:
		return fmt.Sprintf("election %s is paused: nobody would lead after %s, and --wait would be in vain; "+
			"run 'regent resume %[1]s' first, or step down without --wait; nothing was changed", e.Name, e.Leader)
	case ends && e.State != elections.Led:
		return "nobody leads: " + reasonOf(e)
	}

	for _, c := range e.Candidates {
		switch {
		case v.verb != cluster.HandOff || c.ID != v.to:
		case !c.CanLead:
			return fmt.Sprintf("%s cannot lead: %s; nothing was changed", c.ID, c.Why)
		case v.frozen(ctx, c.Addr):
			return fmt.Sprintf("%s accepts connections at %s and does not answer: its process is frozen, or very "+
				"busy; nothing was changed", c.ID, c.Addr)
		}
	}

	return v.unwritable(ctx)
}

// frozen reports whether the process at an address accepts connections and does not answer. Its register shows it
// as healthy until its lease ends.
func (v *steering) frozen(ctx context.Context, addr string) bool {
	asked, isNode := v.cluster.(*cluster.Node)
	return isNode && addr != "" && asked.At(addr).Frozen(ctx)
}

// unwritable returns why the node that is asked cannot record a verb; empty if it can, as far as it knows.
func (v *steering) unwritable(ctx context.Context) string {
	asked, isNode := v.cluster.(*cluster.Node)
	if !isNode {
		return ""
	}

	status, err := asked.LocalStatus(ctx)
	if err != nil || status.Checks["writes"] == "" {
		return ""
	}
	return fmt.Sprintf("%s cannot write to its store %s: %s; nothing was changed", status.Node, status.Store.Address,
		status.Checks["writes"])
}
