package core

import (
	"bytes"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file holds what users ask for: checkpoints, and requests to whoever leads.

// save queues a checkpoint.
func (c *Core) save(in Save) {
	i, ok := c.names[in.Election]
	if !ok || !c.saves(c.elections.all[i], in.Epoch) {
		c.emit(Result{ID: in.ID, Result: NotLeader})
		return
	}
	e := c.elections.all[i]
	e.saves = append(slices.Clip(e.saves), in)
	c.enqueue(e.ref)
}

// saves reports whether a checkpoint may be written under a term.
func (c *Core) saves(e *election, epoch uint64) bool {
	return e.term.state == leading && e.term.epoch == epoch && c.line(e).lives(c.now)
}

// writeSave sends the first checkpoint. Whose record it is counts on the very revision that is swapped. The nonce
// stays: this is no heartbeat, and gives no time.
func (c *Core) writeSave(e *election) {
	s := e.saves[0]
	if !c.saves(e, s.Epoch) || !heldBy(&e.rec, e.term.who, e.term.epoch) { // rule 4
		c.saved(e, NotLeader)
		return
	}
	next := e.rec
	next.Data = s.Data
	next.Edits++
	e.saveRev = e.rec.Rev
	c.swap(&e.entity, saveCall, next)
}

// saved answers the first checkpoint.
func (c *Core) saved(e *election, code ResultCode) {
	c.emit(Result{ID: e.saves[0].ID, Result: code, Epoch: e.rec.Epoch, Err: e.saveErr})
	e.saves = slices.Clone(e.saves[1:])
	e.saving = false
	e.saveErr = nil
	c.enqueue(e.ref)
}

// saveAnswered takes in what became of a checkpoint: whatever is not plainly written is settled by a read.
func (c *Core) saveAnswered(e *election, done call, o Outcome, r *driver.Record) {
	switch {
	case o == Done:
		c.receive(e, r, done)
		if len(e.saves) > 0 {
			c.saved(e, OK)
		}
	case len(e.saves) > 0:
		e.saving = true
		e.clash = o == Conflict
		e.saveErr = done.err
	}
}

// settleSave compares a record that was read with a checkpoint of unknown outcome.
func (c *Core) settleSave(e *election, r *driver.Record) {
	if !e.saving || len(e.saves) == 0 {
		return
	}
	e.saving = false
	switch {
	case bytes.Equal(r.Data, e.saves[0].Data):
		c.saved(e, OK)
	case e.clash && r.Rev != e.saveRev: // somebody else has edited the record: write it again
	default:
		c.saved(e, OutcomeUnknown)
	}
}

// endSaves answers the checkpoints of a term that has ended. One that is under way, or was, may have been written,
// unless the term ends because of the record that was read after it.
func (c *Core) endSaves(e *election) {
	for i, s := range e.saves {
		code := NotLeader
		if i == 0 && (e.saving && !e.settled || e.call.id != 0 && e.call.kind == saveCall) {
			code = OutcomeUnknown
		}
		c.emit(Result{ID: s.ID, Result: code, Epoch: e.term.epoch})
	}
	e.saves = nil
	e.saving = false
}

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
	if e.term.state != leading || a.pause || a.resume || !c.line(e).lives(c.now) {
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
	s.pokes = append(slices.Clip(s.pokes), poke{e.asks[0].id, r.Epoch, r.Holder, e.asks[0].until})
	e.asks = slices.Clone(e.asks[1:])
	c.enqueue(s.ref)
	c.enqueue(e.ref)
}

func (c *Core) askDone(e *election, code ResultCode) {
	c.result(e.asks[0].id, code, e.rec.Epoch)
	e.asks = slices.Clone(e.asks[1:])
	c.enqueue(e.ref)
}

// poke touches the register of a leader, and reports whether it sent a request. It needs a read of the register first.
func (c *Core) poke(s *sight) bool {
	if !s.watch.seen || s.proof == 0 {
		return false
	}
	if s.watch.rec.Holder != s.pokes[0].holder { // it has gone: nothing is left to ask
		c.pokeDone(s, OK)
		c.enqueue(s.ref)
		return false
	}

	next := s.watch.rec
	next.Edits++
	c.swap(&s.entity, pokeCall, next)
	return true
}

// pokeAnswered takes in what became of a poke. Unless it was applied, the register is read and touched again.
func (c *Core) pokeAnswered(s *sight, o Outcome) {
	if o == Done && len(s.pokes) > 0 {
		c.pokeDone(s, OK)
	}
}

func (c *Core) pokeDone(s *sight, code ResultCode) {
	p := s.pokes[0]
	s.pokes = slices.Clone(s.pokes[1:])
	c.result(p.id, code, p.epoch)
}

// result answers a request, unless it was the core's own, which has no ID.
func (c *Core) result(id uint64, code ResultCode, epoch uint64) {
	if id != 0 {
		c.emit(Result{ID: id, Result: code, Epoch: epoch})
	}
}
