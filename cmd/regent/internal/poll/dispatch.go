package poll

import (
	"fmt"
	"time"

	"github.com/regentd/regent/work"
)

// dispatch sends what can be sent, and returns when there may be more. Slots are too late by the wall clock, which now is;
// everything else goes by mono, the clock that is never set.
func (c *conduct) dispatch(now, mono time.Time) (next time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if c.quiet || c.looked.IsZero() {
		return next
	}
	if until := c.looked.Add(recoverFor); len(c.suspects) > 0 && mono.Before(until) {
		return until
	}
	crew := c.crew()
	left := c.listed[:0]
	for _, e := range c.listed {
		if c.entries[e.poll.Name] != e {
			continue // it has been replaced
		}
		for _, s := range e.trim(now) {
			delete(c.open, s)
			c.missed(e, 1, e.why())
		}
		for {
			s, at := e.sendable(mono, c.doubtful)
			sooner(at)
			if s == nil {
				break
			}
			if w := c.assign(s, crew, now, mono); w != nil {
				c.send(s, w, mono)
			}
		}
		if e.listed = len(e.queue) > 0; e.listed {
			left = append(left, e)
		}
	}
	clear(c.listed[len(left):])
	c.listed = left
	return next
}

// assign returns the worker for a slot. If there is none, the poll waits for a while, or the slot ends here.
func (c *conduct) assign(s *slot, crew *crew, now, mono time.Time) *work.WorkerView {
	e := s.entry
	if len(c.suspects) > 0 && c.old(s) && !repeatable(e.poll) {
		c.settle(s, Run{Slot: s.id(), Due: s.dueTime(), Attempts: s.attempt + 1, Outcome: outcomeUnknown,
			Message: "a worker that cannot be reached may have run it for the last leader"})
		return nil
	}
	w := crew.pick(s)
	switch {
	case w != nil:
	case s.manual && now.Sub(s.dueTime()) >= askedFor:
		c.settle(s, Run{Slot: s.id(), Due: s.dueTime(), Attempts: s.attempt, Outcome: outcomeError,
			Message: fmt.Sprintf("no worker takes it: it is assigned to %s, and needs one that makes %s checks", e.poll.Assign, e.poll.Kind)})
	default:
		e.problem = crew.problem(s)
		s.refused, e.pause = nil, mono.Add(again)
	}
	return w
}

// old reports whether the last leader may have sent a slot.
func (c *conduct) old(s *slot) bool { return !s.manual && !s.dueTime().After(c.began.Add(skew)) }

// doubtful returns until when a slot must wait, because a worker that does not answer may have it from the last leader.
func (c *conduct) doubtful(s *slot) time.Time {
	if len(c.suspects) == 0 || !c.old(s) {
		return time.Time{}
	}
	return c.beganAt.Add(time.Duration(s.entry.poll.Timeout) + doubtFor)
}

// send gives a slot to a worker. The mutex is held.
func (c *conduct) send(s *slot, w *work.WorkerView, now time.Time) {
	e := s.entry
	s.worker, s.sent = w.ID, now
	e.took(s, now)
	// Not idempotent, as far as fences go: what the last leader sent must not be taken after this one has asked what was.
	t := work.Task{ID: s.id(), Kind: e.poll.Kind, Payload: e.job(s), Timeout: time.Duration(e.poll.Timeout) + queueFor}
	attempt := s.attempt
	err := c.pool.Send(w.ID, t, func(r work.Result, err error) { c.ended(s, attempt, r, err) })
	if err != nil {
		e.putBack(s)
		s.worker = ""
		s.refused = append(s.refused, w.ID)
		return
	}
	w.Tasks++
}
