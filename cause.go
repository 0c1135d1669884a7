package regent

import (
	"errors"
	"fmt"

	"github.com/regentd/regent/internal/core"
)

// Why a term ended: [context.Cause] of its context is one of these, or wraps one.
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

var (
	// ErrNotLeader says that this member does not lead the election, or no longer.
	ErrNotLeader = errors.New("not the leader")
	// ErrStore says that the store has failed: what wraps it is no fault of a duty.
	ErrStore = errors.New("store failed")
	// ErrCandidate says that this member campaigns for the election already.
	ErrCandidate = errors.New("already a candidate")
)

var errNoStore = errors.New("member has no Store: set one before its first use")

// causes are the errors by which the contexts of terms end.
var causes = map[core.Cause]error{
	core.Shutdown: ErrShutdown, core.Returned: ErrReturned, core.Lost: ErrLost, core.Partitioned: ErrPartitioned,
	core.HandedOff: ErrHandedOff, core.SteppedDown: ErrSteppedDown, core.Paused: ErrPaused,
	core.Unhealthy: ErrUnhealthy, core.FencedOff: ErrFenced, core.Panicked: ErrPanicked,
}

// cause returns the error by which the context of a term ends. It takes no lock: the guard calls it.
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
