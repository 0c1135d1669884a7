package orchestrate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/work"
)

const (
	// answerTimeout is how long a new leader sends nothing because of workers that have not answered.
	answerTimeout = time.Second
	// unreachableFor is how long, beyond its timeout, a slot waits for a worker that may have it and does not answer.
	unreachableFor = 30 * time.Second
	// clockSkew is how much the clock of the last leader may have been ahead of this one's.
	clockSkew = time.Second
	// queueTimeout is how long a slot may wait at its worker.
	queueTimeout = 5 * time.Second
	// manualTimeout is how long a manual run waits for a worker.
	manualTimeout = 3 * time.Second
	// retryInterval is the time after which a slot that no worker takes is offered again.
	retryInterval = time.Second
)

// dispatchLocked sends what can be sent, and returns when there may be more. now is the wall clock, by which slots are
// late; everything else is by mono, the monotonic clock.
func (t *term) dispatchLocked(now, mono time.Time) (next time.Time) {
	if t.quiescing || t.listedAt.IsZero() {
		return time.Time{}
	}
	if until := t.listedAt.Add(answerTimeout); len(t.unanswered) > 0 && mono.Before(until) {
		return until
	}

	ws := t.workersLocked()
	left := t.pending[:0]
	for _, e := range t.pending {
		if t.entries[e.poll.Name] != e {
			continue // it has been replaced
		}

		for _, s := range e.trim(now) {
			delete(t.open, s)
			t.addMissedLocked(e, 1, e.lateReason())
		}
		next = earlier(next, t.dispatchEntryLocked(e, ws, now, mono))

		e.pending = len(e.queue) > 0
		if e.pending {
			left = append(left, e)
		}
	}

	clear(t.pending[len(left):])
	t.pending = left
	return next
}

// dispatchEntryLocked sends the slots of one poll that can be sent, and returns when there may be more.
func (t *term) dispatchEntryLocked(e *entry, ws *workers, now, mono time.Time) time.Time {
	var next time.Time
	for {
		s, at := e.sendable(mono, t.heldUntilLocked)
		next = earlier(next, at)
		if s == nil {
			return next
		}
		if w := t.assignLocked(s, ws, now, mono); w != nil {
			t.sendLocked(s, w, mono)
		}
	}
}

// assignLocked returns the worker for a slot. If there is none, the poll pauses, or the slot is settled.
func (t *term) assignLocked(s *slot, ws *workers, now, mono time.Time) *work.WorkerView {
	e := s.entry
	if len(t.unanswered) > 0 && t.maybeSentBeforeLocked(s) && !repeatable(e.poll) {
		t.settleLocked(s, s.result(s.Attempt+1, outcomeUnknown,
			"a worker that cannot be reached may have run it for the last leader"))
		return nil
	}

	w := ws.pick(s)
	switch {
	case w != nil:
	case s.Manual && now.Sub(s.DueTime()) >= manualTimeout:
		message := fmt.Sprintf("no worker takes it: assign is %s, and the kind is %s", e.poll.Assign, e.poll.Kind)
		t.settleLocked(s, s.result(s.Attempt, outcomeError, message))
	default:
		e.problem = ws.problem(s)
		e.pause = mono.Add(retryInterval)
		s.refused = nil
	}

	return w
}

// maybeSentBeforeLocked reports whether the last leader may have sent a slot.
func (t *term) maybeSentBeforeLocked(s *slot) bool {
	return !s.Manual && !s.DueTime().After(t.began.Add(clockSkew))
}

// heldUntilLocked returns the time before which a slot must not be sent, because a worker that does not answer may have
// it from the last leader.
func (t *term) heldUntilLocked(s *slot) time.Time {
	if len(t.unanswered) == 0 || !t.maybeSentBeforeLocked(s) {
		return time.Time{}
	}

	return t.beganMono.Add(time.Duration(s.entry.poll.Timeout) + unreachableFor)
}

// sendLocked sends a slot to a worker.
func (t *term) sendLocked(s *slot, w *work.WorkerView, now time.Time) {
	e := s.entry
	s.worker = w.ID
	s.sent = now
	e.markSent(s, now)

	// The task is not marked as idempotent: a worker that has answered must refuse tasks of the last leader.
	task := work.Task{
		ID:      s.String(),
		Kind:    e.poll.Kind,
		Payload: e.payload(s),
		Timeout: time.Duration(e.poll.Timeout) + queueTimeout,
	}
	attempt := s.Attempt
	err := t.pool.Send(w.ID, task, func(r work.Result, err error) { t.attemptEnded(s, attempt, r, err) })
	if err != nil {
		e.enqueue(s)
		s.worker = ""
		s.refused = append(s.refused, w.ID)
		return
	}

	w.Tasks++
}

// repeatable reports whether a check does no harm if it is made twice.
func repeatable(p poll.Poll) bool {
	return check.Builtin(p.Kind) && p.Kind != "exec" && !strings.EqualFold(p.Options["method"], "post")
}

// workers are the workers that slots are assigned to, during one dispatch.
type workers struct {
	all     []work.WorkerView
	members map[string]regent.MemberView
	self    string // the ID of this node
	turn    *int   // which worker is considered first, so that equal ones take turns
}

func (t *term) workersLocked() *workers {
	return &workers{all: t.pool.Workers(), members: t.members, self: t.o.opts.Leader, turn: &t.turn}
}

// pick returns the worker for a slot, or nil. It prefers another node to the leader's own, since the next leader
// cannot ask this node for results if it dies; then a worker that has not tried the slot; then the worker with the
// fewest tasks.
func (ws *workers) pick(s *slot) *work.WorkerView {
	var best *work.WorkerView
	least := 0
	*ws.turn++
	for i := range ws.all {
		w := &ws.all[(i+*ws.turn)%len(ws.all)]
		if !w.Usable() || slices.Contains(s.refused, w.ID) || !ws.assigned(s, w) {
			continue
		}

		cost := 0
		if slices.Contains(s.tried, w.ID) {
			cost++
		}
		if w.ID == ws.self {
			cost += 2
		}
		if best == nil || cost < least || cost == least && w.Tasks < best.Tasks {
			best = w
			least = cost
		}
	}

	return best
}

// assigned reports whether a worker is one that the poll of a slot is assigned to.
func (ws *workers) assigned(s *slot, w *work.WorkerView) bool {
	m, known := ws.members[w.ID]
	return known && s.entry.poll.Matches(w.ID, m.Labels)
}

// problem returns why no worker takes a slot.
func (ws *workers) problem(s *slot) string {
	if len(ws.all) == 0 {
		return "there is no worker"
	}

	assigned := 0
	var usable []string
	var failed error
	for i := range ws.all {
		w := &ws.all[i]
		if !ws.assigned(s, w) {
			continue
		}
		assigned++
		if w.Usable() {
			usable = append(usable, w.ID)
		} else if w.Err != nil {
			failed = w.Err
		}
	}

	p := s.entry.poll
	able := slices.ContainsFunc(usable, func(id string) bool { return !slices.Contains(s.unable, id) })
	switch {
	case assigned == 0:
		return fmt.Sprintf("no worker matches assign (%s)", p.Assign)
	case len(usable) == 0 && failed != nil:
		return "no worker that it is assigned to can be reached: " + failed.Error()
	case len(usable) == 0:
		return "every worker that it is assigned to is busy, or was not reached yet"
	case !able && p.Assign == "any":
		return fmt.Sprintf("no worker makes %s checks", p.Kind)
	case !able:
		return fmt.Sprintf("no worker makes %s checks of those that match assign (%s)", p.Kind, p.Assign)
	}

	return "every worker has refused it"
}
