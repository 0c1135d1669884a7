package core

import (
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is requests to whoever leads: to hand over, to step down, to pause and to resume.

// ask is a request to whoever leads an election.
type ask struct {
	id     uint64
	to     string // hand over to; anyone to step down; empty for a pause
	pause  bool
	resume bool
	at     uint64 // only in this epoch; 0 for any
	until  Time   // when the store is not asked any more
	read   bool   // the record was read since it was asked
}

// poke is what is left of an ask once the record was edited: the leader's heartbeat register is touched, so that the
// leader's next heartbeat meets a record that has moved, and the leader reads its elections.
type poke struct {
	id     uint64
	epoch  uint64
	holder driver.Identity
	until  Time // when the store is not asked any more
	sent   bool // the write that is under way is for it
}

// askAgain is the wait after a request that the store did not take; askTimeouts how many request timeouts one may
// take.
const (
	askAgain    = 200 * time.Millisecond
	askTimeouts = 8
)

// ask takes in a request. Of a term of this member's own it is the end.
func (c *Core) ask(name string, a ask) {
	e := c.elect(name)
	if e.term.state != leading || a.pause || a.resume || !c.beatOf(e).lives(c.now) {
		if a.until == 0 {
			a.until = c.now.Add(askTimeouts * c.timeout)
		}

		e.asks = append(slices.Clip(e.asks), a)
		c.enqueue(e.ref)
		return
	}

	if code := allowed(&a, &e.rec); code != OK {
		c.emit(Result{ID: a.id, Result: code, Epoch: e.rec.Epoch})
		return
	}

	cause := HandedOff
	switch {
	case a.to == anyone && e.rec.Paused:
		cause = Paused
	case a.to == anyone:
		cause = SteppedDown
	}

	e.term.asked = a.id
	c.end(e, cause, a.to)
}

// allowed checks a request against the very record that it would change.
func allowed(a *ask, r *driver.Record) ResultCode {
	switch {
	case a.at != 0 && a.at != r.Epoch, a.at != 0 && a.to != "" && r.Next != "" && r.Next != a.to:
		return Moved
	case a.pause || a.resume:
		return OK
	case r.Vacant():
		return NobodyLeads
	case r.Holder.ID == a.to:
		return LeadsAlready
	case r.Paused && a.to != anyone:
		return IsPaused
	}
	return OK
}

// expireAsks answers requests that the store did not take in time, whatever else the election waits for.
func (c *Core) expireAsks(e *election) {
	for len(e.asks) > 0 && c.now >= e.asks[0].until && (e.call.id == 0 || e.call.kind != editCall) {
		c.askDone(e, Unanswered)
	}
	if len(e.asks) > 0 && c.now < e.asks[0].until { // else the answer to the edit is waited for
		e.wake(e.asks[0].until)
	}
}

// handleAsk sends the next request of the first ask, and reports whether it did.
func (c *Core) handleAsk(e *election) bool {
	if len(e.asks) == 0 {
		return false
	}
	a := &e.asks[0]
	if c.now < e.hold || !e.retry.passed(c.now) {
		e.wake(max(e.hold, e.retry.at))
		return false
	}

	if !a.read {
		e.asks = slices.Clone(e.asks)
		e.asks[0].read = true
		c.read(&e.entity, e.name)
		return true
	}

	if code := allowed(a, &e.rec); code != OK {
		c.askDone(e, code)
		return false
	}

	next := e.rec
	next.Next = a.to
	if a.to == "" {
		next.Next = e.rec.Next
		next.Paused = a.pause
	}

	if e.rec.Rev != "" && next.Next == e.rec.Next && next.Paused == e.rec.Paused {
		c.askWritten(e)
		return false
	}

	if e.rec.Rev == "" {
		next = driver.Record{Name: e.name, Nonce: c.src.Nonce(), Duration: c.cfg.LeaseDuration, Paused: a.pause}
	}

	next.Edits++
	c.swap(&e.entity, editCall, next)
	return true
}

// editAnswered takes in what became of an edit: unless it was plainly applied, the record is read and judged anew.
func (c *Core) editAnswered(e *election, done call, o Outcome, r *driver.Record) {
	if o == Done {
		c.receive(e, r, done)
		if len(e.asks) > 0 {
			c.askWritten(e)
		}
		return
	}

	if len(e.asks) > 0 {
		e.asks = slices.Clone(e.asks)
		e.asks[0].read = false
	}

	if o != Conflict {
		e.hold = max(e.hold, c.now.Add(askAgain))
	}

	e.stale = true
}

// askWritten goes on once the record says what was asked: the leader's heartbeat register is touched.
func (c *Core) askWritten(e *election) {
	r := &e.rec
	if r.Vacant() || r.Via == "" || r.Holder.ID == c.cfg.ID { // a lease of its own was touched by the edit
		c.askDone(e, OK)
		return
	}

	s := c.sightOf(r.Via)
	s.pokes = append(slices.Clip(s.pokes), poke{
		id: e.asks[0].id, epoch: r.Epoch, holder: r.Holder, until: e.asks[0].until,
	})
	e.asks = slices.Clone(e.asks[1:])
	c.enqueue(s.ref)
	c.enqueue(e.ref)
}

func (c *Core) askDone(e *election, code ResultCode) {
	c.result(e.asks[0].id, code, e.rec.Epoch)
	e.asks = slices.Clone(e.asks[1:])
	c.enqueue(e.ref)
}

// expirePokes answers requests that the store did not take in time, whichever of them came first.
func (c *Core) expirePokes(s *sight) {
	if !slices.ContainsFunc(s.pokes, func(p poke) bool { return c.now >= p.until }) {
		s.wakeForPokes()
		return
	}

	var left []poke
	for _, p := range s.pokes {
		if c.now >= p.until {
			c.result(p.id, Unanswered, p.epoch)
			continue
		}
		left = append(left, p)
	}

	s.pokes = left
	s.wakeForPokes()
}

// wakeForPokes has the sight advanced when the next of its pokes expires.
func (s *sight) wakeForPokes() {
	for _, p := range s.pokes {
		s.wake(p.until)
	}
}

// poke touches the register of a leader, and reports whether it sent a request. It needs a read of the register first.
// One write serves all who wait for it now, and nobody who comes later: the leader may have read its elections by then.
func (c *Core) poke(s *sight) bool {
	if !s.watch.seen || s.proof == 0 {
		return false
	}
	if s.watch.rec.Holder != s.pokes[0].holder { // it has gone: nothing is left to ask
		p := s.pokes[0]
		s.pokes = slices.Clone(s.pokes[1:])
		c.result(p.id, OK, p.epoch)
		c.enqueue(s.ref)
		return false
	}

	s.pokes = slices.Clone(s.pokes)
	for i := range s.pokes {
		s.pokes[i].sent = s.pokes[i].holder == s.watch.rec.Holder
	}

	next := s.watch.rec
	next.Edits++
	c.swap(&s.entity, pokeCall, next)
	return true
}

// pokeAnswered takes in what became of a poke. Unless it was applied, the register is read and touched again.
func (c *Core) pokeAnswered(s *sight, o Outcome) {
	var left []poke
	for _, p := range s.pokes {
		if p.sent && o == Done {
			c.result(p.id, OK, p.epoch)
			continue
		}

		p.sent = false
		left = append(left, p)
	}

	s.pokes = left
}

// result answers a request, unless it was the core's own, which has no ID.
func (c *Core) result(id uint64, code ResultCode, epoch uint64) {
	if id != 0 {
		c.emit(Result{ID: id, Result: code, Epoch: epoch})
	}
}
