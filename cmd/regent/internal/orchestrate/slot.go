package orchestrate

import (
	"errors"
	"slices"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/work"
)

// slot is a slot of a poll that is not settled: it waits in the queue of its entry, or a worker runs it.
type slot struct {
	schedule.Slot // its Attempt counts how often the slot may have been started before: a worker runs each attempt once

	entry   *entry
	retries int      // attempts that were used up by failed checks
	tried   []string // workers whose checks have failed, or that cannot be reached: others are preferred
	refused []string // workers that have not taken the slot
	unable  []string // workers that do not make checks of this kind
	worker  string   // that runs it; empty if it was not sent
	sent    time.Time
	settled bool
	done    chan Run // receives the result once, for a manual run; otherwise nil
}

// newSlot returns a slot of an entry.
func newSlot(e *entry, id schedule.Slot) *slot {
	id.Name = e.poll.Name
	return &slot{Slot: id, entry: e}
}

// result returns the result of a slot that ends without the result of a worker.
func (s *slot) result(attempts int, outcome, message string) Run {
	return Run{
		Slot:     s.String(),
		Due:      s.DueTime(),
		Worker:   s.worker,
		Attempts: attempts,
		Outcome:  outcome,
		Message:  message,
	}
}

// refuse notes that a worker has not taken the slot, and whether it cannot make such checks.
func (s *slot) refuse(worker string, err error) {
	s.refused = append(s.refused, worker)
	if errors.Is(err, work.ErrUnknownKind) && !slices.Contains(s.unable, worker) {
		s.unable = append(s.unable, worker)
	}
}
