package poll

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/work"
)

// mostAttempts is how often a slot is begun anew because its workers died.
const mostAttempts = 20

// ended follows the end of an attempt that this term has sent.
func (c *conduct) ended(s *slot, attempt int, r work.Result, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.settled || s.attempt != attempt || errors.Is(err, work.ErrEnded) {
		return
	}
	defer c.stir()
	switch {
	case err == nil:
		c.judge(s, r)
	case errors.Is(err, work.ErrBusy), errors.Is(err, work.ErrUnknownKind), errors.Is(err, work.ErrStopping), errors.Is(err, work.ErrUnreachable):
		s.refuse(s.worker, err)
		c.requeue(s)
	case !repeatable(s.entry.poll) && !c.dead(s.worker):
		c.settle(s, Run{Slot: s.id(), Due: s.dueTime(), Worker: s.worker, Attempts: s.attempt + 1, Outcome: outcomeUnknown,
			Message: "its worker may have run it, and must not be followed by another: " + err.Error()})
	default: // it may have begun there, and the worker is dead or knows nothing of it
		c.o.opts.Log.Warn("a worker was lost with a poll", "poll", s.entry.poll.Name, "slot", s.id(), "worker", s.worker, "error", err)
		c.anew(s)
	}
}

// judge takes in the result of an attempt. The mutex is held.
func (c *conduct) judge(s *slot, r work.Result) {
	run := Run{Slot: s.id(), Due: s.dueTime(), At: r.Began, Worker: s.worker, Epoch: r.Epoch, Attempts: s.attempt + 1, Latency: r.Took, Message: r.Error}
	switch r.Outcome {
	case work.Interrupted:
		c.anew(s)
		return
	case work.Done:
		var found check.Outcome
		if len(r.Data) == 0 && r.Error != "" {
			run.Outcome = outcomeError
			break
		}
		if err := json.Unmarshal(r.Data, &found); err != nil {
			run.Outcome, run.Message = outcomeError, "the worker's answer cannot be read: "+err.Error()
			break
		}
		run.Outcome, run.Message, run.Latency, run.Detail = outcomeFailed, found.Message, found.Latency, found.Detail
		if found.OK {
			run.Outcome = outcomeOK
		}
	case work.Expired:
		if r.Began.IsZero() { // it waited too long there: that says nothing of the target
			s.refused = append(s.refused, s.worker)
			c.anew(s)
			return
		}
		run.Outcome = outcomeFailed
		if run.Message == "" {
			run.Message = "no answer in time"
		}
	default:
		run.Outcome = outcomeError
	}
	if run.Outcome != outcomeOK && s.retries < s.entry.poll.Retries {
		s.retries++
		s.tried = append(s.tried, s.worker) // another worker may see it differently
		c.anew(s)
		return
	}
	c.settle(s, run)
}

// anew begins a slot again, as a new attempt. The mutex is held.
func (c *conduct) anew(s *slot) {
	if s.attempt++; s.attempt > mostAttempts {
		c.settle(s, Run{Slot: s.id(), Due: s.dueTime(), Attempts: s.attempt, Outcome: outcomeError, Message: "its workers died, one after another"})
		return
	}
	c.moved++
	c.requeue(s)
}

func (c *conduct) requeue(s *slot) {
	s.worker = ""
	s.entry.putBack(s)
	c.list(s.entry)
	c.rest()
}

// giveUp ends the wait for workers that live but cannot be reached. A check that only looks is begun anew elsewhere, though it may have been made; anything
// else must not run twice. The mutex is held.
func (c *conduct) giveUp(now time.Time) {
	for s := range c.open {
		p := s.entry.poll
		if s.worker == "" || now.Sub(s.sent) < time.Duration(p.Timeout)+doubtFor {
			continue
		}
		c.o.opts.Log.Warn("a worker does not tell what became of a poll", "poll", p.Name, "slot", s.id(), "worker", s.worker)
		if repeatable(p) {
			s.tried = append(s.tried, s.worker)
			c.anew(s)
			continue
		}
		c.settle(s, Run{Slot: s.id(), Due: s.dueTime(), Worker: s.worker, Attempts: s.attempt + 1, Outcome: outcomeUnknown, Message: "its worker cannot be reached"})
	}
}

// repeatable reports whether a check does no harm if it is made twice.
func repeatable(p Poll) bool {
	return check.Builtin(p.Kind) && p.Kind != "exec" && !strings.EqualFold(p.Options["method"], "post")
}

// dead reports whether it is proved that a member does not run any more: its register was vacated, by itself or by whoever saw it die. One whose heartbeat
// has only run out may be cut off from the store.
func (c *conduct) dead(worker string) bool {
	m := c.members[worker]
	return m != nil && m.view.Incarnation == ""
}

// passed reports whether a result is that of a check that succeeded.
func passed(r work.Result) bool {
	var found check.Outcome
	return r.Outcome == work.Done && json.Unmarshal(r.Data, &found) == nil && found.OK
}

// settle ends a slot. The mutex is held.
func (c *conduct) settle(s *slot, run Run) {
	e := s.entry
	s.settled = true
	e.drop(s)
	delete(c.open, s)
	c.moved++
	if len(e.queue) > 0 {
		c.list(e)
	}
	c.note(e, run)
	if s.done != nil {
		s.done <- run
	}
	c.rest()
}

// note keeps a run in its poll's history, and tells of a change.
func (c *conduct) note(e *entry, run Run) {
	c.o.count(run.Outcome, e.poll.Kind, run.Latency, 1)
	if run.Outcome != outcomeUnknown {
		e.ran = time.Now()
		e.problem = ""
	}
	if from, changed := e.note(run); changed {
		c.emit(EventChanged, map[string]string{"poll": e.poll.Name, "from": string(from), "to": string(e.state), "message": run.Message,
			"worker": run.Worker, "slot": run.Slot})
	}
}

// rest tells whoever waits for it that nothing is out any more. The mutex is held.
func (c *conduct) rest() {
	if c.idle == nil {
		return
	}
	for s := range c.open {
		if s.worker != "" {
			return
		}
	}
	close(c.idle)
	c.idle = nil
}

// found takes in what ended and was not sent by this term.
func (c *conduct) found(worker string, r work.Result) {
	i, ok := parseID(r.ID)
	if !ok || i.manual {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[i.name]
	if e == nil {
		return
	}
	s := e.find(i)
	switch {
	case s == nil && e.ahead[i.due]: // told before
		return
	case s == nil && (i.again != c.markOf(i.due) || c.beyond(e, i.due)): // from before a clock went back
		return
	case s == nil && !e.next.IsZero() && i.due >= e.next.UnixMilli(): // not due yet, by this node's clock
		s = &slot{entry: e, due: i.due, again: i.again}
		e.reserve(s)
		c.open[s] = struct{}{}
	case s == nil || s.attempt > i.attempt && (s.worker != "" || !passed(r)):
		return // what was begun anew is told of by itself; unless it waits, and need not be
	case s.worker != "": // with another one, by this term
		c.o.opts.Log.Warn("a slot was run twice", "slot", r.ID, "worker", worker, "other", s.worker)
		return
	}
	s.attempt, s.worker = i.attempt, worker
	c.judge(s, r)
	c.stir()
}

// ready takes in what a worker still runs for an earlier term: each slot is sent once more to where it is, which is how its result is heard of.
func (c *conduct) ready(worker string, running []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, id := range running {
		i, ok := parseID(id)
		e := c.entries[i.name]
		if !ok || e == nil || i.manual {
			continue
		}
		s := e.find(i)
		switch {
		case s == nil && (i.again != c.markOf(i.due) || c.beyond(e, i.due)):
			continue
		case s == nil && !e.ahead[i.due] && !e.next.IsZero() && i.due >= e.next.UnixMilli():
			s = &slot{entry: e, due: i.due, again: i.again}
			e.reserve(s)
			c.open[s] = struct{}{}
		case s == nil || s.worker != "" || s.attempt > i.attempt:
			continue
		}
		s.attempt = i.attempt
		c.send(s, &work.WorkerView{ID: worker}, now)
	}
	delete(c.suspects, worker)
	c.stir()
}
