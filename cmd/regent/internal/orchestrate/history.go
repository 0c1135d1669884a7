package orchestrate

import (
	"cmp"
	"slices"
	"time"

	"github.com/regentd/regent/internal/millis"
)

// keptRuns is the number of runs of a poll that are kept.
const keptRuns = 10

// State is the state of a target according to its poll.
type State string

// States of a target.
const (
	Unknown State = "unknown"
	Up      State = "up"
	Down    State = "down"
)

// Run is the result of a slot.
type Run struct {
	Slot      string            `json:"slot"`
	Due       time.Time         `json:"due"`
	At        time.Time         `json:"at,omitzero"` // when the check began, by the worker's clock
	Worker    string            `json:"worker,omitempty"`
	Epoch     uint64            `json:"epoch,omitempty"`
	Attempts  int               `json:"attempts"`
	Outcome   string            `json:"outcome"` // ok, failed, error or unknown
	Message   string            `json:"message,omitempty"`
	LatencyMs float64           `json:"latencyMs"`
	Detail    map[string]string `json:"detail,omitempty"`
}

// Outcomes of a slot.
const (
	outcomeOK      = "ok"
	outcomeFailed  = "failed"  // the target did not pass the check
	outcomeError   = "error"   // the check could not be made
	outcomeMissed  = "missed"  // it was too late to be run
	outcomeSkipped = "skipped" // the clock was set past it
	outcomeUnknown = "unknown" // its worker cannot be reached, and it must not run twice
)

// history is the state, the last runs and the counters of a poll.
type history struct {
	state   State
	since   time.Time // of the state
	runs    []Run     // the last ones, oldest first
	counts  map[string]uint64
	latency Histogram
}

// count counts n slots with an outcome.
func (h *history) count(outcome string, n uint64) {
	if h.counts == nil {
		h.counts = map[string]uint64{}
	}
	h.counts[outcome] += n
}

// forgetAfter removes the runs of slots that are due after a time: the next run would be older than they are.
func (h *history) forgetAfter(now time.Time) {
	h.runs = slices.DeleteFunc(h.runs, func(run Run) bool { return run.Due.After(now) })
}

// add adds a run. It reports whether the state has changed in a way that is worth an event: a change from unknown to up
// is not.
func (h *history) add(run Run) (from State, changed bool) {
	h.count(run.Outcome, 1)
	from = cmp.Or(h.state, Unknown)
	if slices.ContainsFunc(h.runs, func(other Run) bool { return other.Slot == run.Slot }) {
		return from, false
	}

	newest := h.insert(run)
	var state State
	switch run.Outcome {
	case outcomeOK:
		state = Up
	case outcomeFailed:
		state = Down
	default: // the run says nothing about the target
		return from, false
	}

	h.latency.add(millis.Duration(run.LatencyMs))
	if !newest || state == from {
		return from, false
	}

	h.state = state
	h.since = time.Now()
	return from, from != Unknown || state == Down
}

// insert adds a run in the order of due times, and reports whether it is the newest.
func (h *history) insert(run Run) (newest bool) {
	n, _ := slices.BinarySearchFunc(h.runs, run, func(a, b Run) int { return a.Due.Compare(b.Due) })
	newest = n == len(h.runs)

	h.runs = slices.Insert(h.runs, n, run)
	if len(h.runs) > keptRuns {
		h.runs = slices.Delete(h.runs, 0, len(h.runs)-keptRuns)
	}

	return newest
}
