package orchestrate

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/internal/millis"
	"github.com/regentd/regent/work"
)

// maxAttempts is how often a slot is started again because its workers were lost.
const maxAttempts = 20

// giveUpInterval is the time between two checks for workers that cannot be reached.
const giveUpInterval = time.Second

// attemptEnded handles the end of an attempt that this term has sent.
func (t *term) attemptEnded(s *slot, attempt int, r work.Result, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.settled || s.Attempt != attempt || errors.Is(err, work.ErrEnded) {
		return
	}
	defer t.wakeLoop()

	switch {
	case err == nil:
		t.takeResultLocked(s, r)
	case refused(err):
		s.refuse(s.worker, err)
		t.requeueLocked(s)
	case !repeatable(s.entry.poll) && !t.revokedLocked(s.worker):
		t.settleLocked(s, s.result(s.Attempt+1, outcomeUnknown,
			"its worker may have run it, and it must not run twice: "+err.Error()))
	default: // the check may have begun, but the worker is dead or has no record of it
		t.o.opts.Log.Warn("a worker was lost while it ran a poll: the slot is started again",
			"poll", s.entry.poll.Name, "slot", s.String(), "worker", s.worker, "error", err)
		t.startAgainLocked(s)
	}
}

// refused reports whether a worker has certainly not run a task.
func refused(err error) bool {
	return errors.Is(err, work.ErrBusy) || errors.Is(err, work.ErrUnknownKind) || errors.Is(err, work.ErrStopping) ||
		errors.Is(err, work.ErrUnreachable)
}

// takeResultLocked handles the result of an attempt: the slot is settled or started again.
func (t *term) takeResultLocked(s *slot, r work.Result) {
	switch {
	case r.Outcome == work.Interrupted:
		t.startAgainLocked(s)
		return
	case r.Outcome == work.Expired && r.Began.IsZero(): // it waited too long at the worker
		s.refused = append(s.refused, s.worker)
		t.startAgainLocked(s)
		return
	}

	run := runOf(s, r)
	if run.Outcome != outcomeOK && s.retries < s.entry.poll.Retries {
		s.retries++
		s.tried = append(s.tried, s.worker) // another worker may have another result
		t.startAgainLocked(s)
		return
	}

	t.settleLocked(s, run)
}

// runOf returns the run that the result of an attempt describes.
func runOf(s *slot, r work.Result) Run {
	run := s.result(s.Attempt+1, outcomeError, r.Error)
	run.At = r.Began
	run.Epoch = r.Epoch
	run.LatencyMs = millis.Of(r.Took)

	switch r.Outcome {
	case work.Done:
		if len(r.Data) == 0 && r.Error != "" {
			return run
		}
		var found check.Outcome
		if err := json.Unmarshal(r.Data, &found); err != nil {
			run.Message = "the worker's answer cannot be parsed: " + err.Error()
			return run
		}
		run.Outcome = outcomeFailed
		if found.OK {
			run.Outcome = outcomeOK
		}
		run.Message = found.Message
		if found.Latency > 0 {
			run.LatencyMs = millis.Of(found.Latency)
		}
		run.Detail = found.Detail
	case work.Expired:
		run.Outcome = outcomeFailed
		if run.Message == "" {
			run.Message = "no answer in time"
		}
	}

	return run
}

// startAgainLocked starts a slot again, as a new attempt.
func (t *term) startAgainLocked(s *slot) {
	s.Attempt++
	if s.Attempt > maxAttempts {
		s.worker = ""
		t.settleLocked(s, s.result(s.Attempt, outcomeError, "its workers were lost, one after another"))
		return
	}

	t.changes++
	t.requeueLocked(s)
}

// requeueLocked queues a slot that its worker does not run.
func (t *term) requeueLocked(s *slot) {
	s.worker = ""
	s.entry.enqueue(s)
	t.addPendingLocked(s.entry)
	t.checkIdleLocked()
}

// giveUpLocked ends the wait for workers that are alive but cannot be reached. A repeatable check is started again
// elsewhere, although it may have been made; any other is settled as unknown. It checks once in giveUpInterval, since
// there may be thousands of slots.
func (t *term) giveUpLocked(now time.Time) {
	if now.Sub(t.gaveUp) < giveUpInterval {
		return
	}

	t.gaveUp = now
	for s := range t.open {
		p := s.entry.poll
		if s.worker == "" || now.Sub(s.sent) < time.Duration(p.Timeout)+unreachableFor {
			continue
		}

		t.o.opts.Log.Warn("a worker has not reported the result of a poll", "poll", p.Name, "slot", s.String(),
			"worker", s.worker)
		if repeatable(p) {
			s.tried = append(s.tried, s.worker)
			t.startAgainLocked(s)
			continue
		}
		t.settleLocked(s, s.result(s.Attempt+1, outcomeUnknown, "its worker cannot be reached"))
	}
}

// revokedLocked reports whether a member is known to run no more: its register is vacant. A member whose heartbeat has
// only expired may be cut off from the store.
func (t *term) revokedLocked(worker string) bool {
	m, known := t.members[worker]
	return known && m.Incarnation == ""
}

// settleLocked ends a slot.
func (t *term) settleLocked(s *slot, run Run) {
	e := s.entry
	s.settled = true
	e.remove(s)
	delete(t.open, s)
	t.changes++
	if len(e.queue) > 0 {
		t.addPendingLocked(e)
	}

	t.recordLocked(e, run)
	if s.done != nil {
		s.done <- run
	}
	t.checkIdleLocked()
}

// recordLocked adds a run to the history of its poll, and sends an event if the state of the target has changed.
func (t *term) recordLocked(e *entry, run Run) {
	t.o.count(run.Outcome, e.poll.Kind, millis.Duration(run.LatencyMs), 1)
	if run.Outcome != outcomeUnknown {
		e.lastRun = time.Now()
		e.problem = ""
	}

	from, changed := e.add(run)
	if !changed {
		return
	}
	t.emit(EventChanged, map[string]string{
		"poll":    e.poll.Name,
		"from":    string(from),
		"to":      string(e.state),
		"message": run.Message,
		"worker":  run.Worker,
		"slot":    run.Slot,
	})
}

// checkIdleLocked notifies quiesce if workers run nothing.
func (t *term) checkIdleLocked() {
	if t.idle == nil {
		return
	}
	for s := range t.open {
		if s.worker != "" {
			return
		}
	}

	close(t.idle)
	t.idle = nil
}
