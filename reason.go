package regent

import (
	"errors"
	"fmt"

	"github.com/regentd/regent/internal/core"
)

// Why a term of this member ended: [context.Cause] of the term's context is one of these errors, or wraps one. For each
// of them there is a [Reason], which is what other members see.
var (
	ErrShutdown    = errors.New("shutdown")
	ErrReturned    = errors.New("returned")
	ErrLost        = errors.New("lost lease")
	ErrPartitioned = errors.New("partition")
	ErrHandedOff   = errors.New("handoff")
	ErrSteppedDown = errors.New("stepped down")
	ErrPaused      = errors.New("paused")
	ErrUnhealthy   = errors.New("unhealthy")
	ErrFenced      = errors.New("fenced")
	ErrPanicked    = errors.New("panic")
)

// Reason is why a term ended, as records and events carry it. The words are stable: versions of Regent agree on them.
type Reason string

// The reasons that a leader gives for the end of its own term.
const (
	ReasonShutdown    Reason = "shutdown"     // the caller of Lead or Run ended its context
	ReasonReturned    Reason = "returned"     // the function given to Lead returned
	ReasonLost        Reason = "lost lease"   // the store showed another holder or incarnation
	ReasonPartitioned Reason = "partition"    // the lease could not be renewed in time
	ReasonHandoff     Reason = "handoff"      // it was asked to hand over to a successor
	ReasonSteppedDown Reason = "stepped down" // it was asked to step down
	ReasonPaused      Reason = "paused"       // it was asked to step down while the election was paused
	ReasonUnhealthy   Reason = "unhealthy"    // its health check, or a duty, kept failing
	ReasonFenced      Reason = "fenced"       // a fence had seen a higher epoch, or another term with the same one
	ReasonPanicked    Reason = "panic"        // the driver of its store panicked
)

// The reasons that others give for the end of a term whose leader did not say why.
const (
	ReasonExpired   Reason = "expired"   // its heartbeat expired
	ReasonDied      Reason = "died"      // its process was proved dead
	ReasonKilled    Reason = "killed"    // its process was frozen, and its companion process killed it
	ReasonRejoined  Reason = "rejoined"  // its member has joined again since
	ReasonAbandoned Reason = "abandoned" // a claim was applied after the candidate had given it up
	ReasonFirst     Reason = "first"     // there was no term before: nobody has led
	ReasonForgotten Reason = "forgotten" // there was a term before, and the store has no record of it
)

var (
	// ErrNotLeader reports that this member does not lead the election, or no longer.
	ErrNotLeader = errors.New("not the leader")
	// ErrStore reports that the store has failed. A duty that returns an error which wraps it has not failed itself.
	ErrStore = errors.New("store failed")
	// ErrCandidate reports that this member campaigns for the election already.
	ErrCandidate = errors.New("already a candidate")
)

var errNoStore = errors.New("member has no Store: set one before its first use")

// causes are the errors by which the contexts of terms end.
var causes = map[core.Cause]error{
	core.Shutdown: ErrShutdown, core.Returned: ErrReturned, core.Lost: ErrLost, core.Partitioned: ErrPartitioned,
	core.HandedOff: ErrHandedOff, core.SteppedDown: ErrSteppedDown, core.Paused: ErrPaused,
	core.Unhealthy: ErrUnhealthy, core.FencedOff: ErrFenced, core.Panicked: ErrPanicked,
}

// cause returns the error by which the context of a term ends. It takes no lock: the shell calls it at the deadline.
func (r *run) cause(c core.Cause, detail string) error {
	if died := r.died.Load(); c == core.Panicked && died != nil {
		return died
	}

	err := causes[c]
	switch {
	case err == nil:
		return errors.New(string(c))
	case detail == "":
		return err
	}

	return fmt.Errorf("%w: %s", err, detail)
}
