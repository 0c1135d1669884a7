package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// begin makes the term that a claim has won, and reports whether the claim still lives. It counts from before the
// claim was sent, under the heartbeat of the same incarnation only (rule 1).
func (c *Core) begin(e *election, k claim) bool {
	if !c.floorCounts(k.floor) { // rule 13
		return false
	}
	r := &e.rec
	b := &c.member.beat
	if c.cfg.OwnLease {
		w := min(r.Duration, maxDuration)
		e.beat = beat{register: e.name, who: k.who, every: c.cfg.interval(c.cfg.RenewInterval, w), trust: c.cfg.trust(w)}
		b = &e.beat
		b.tries = []try{{k.nonce, k.sent}}
		b.deadline = k.sent.Add(b.trust)
		b.due = max(c.now, k.sent.Add(b.every))
	} else if !c.member.is(k.who) {
		return false
	}
	if !b.lives(c.now) {
		b.ended = b.ended || c.cfg.OwnLease
		return false
	}

	e.claims = nil
	e.open = false
	e.check = 0
	e.doom = ""
	e.term = term{state: leading, epoch: r.Epoch, who: k.who, began: c.now}
	b.held++
	if !c.cfg.OwnLease {
		c.holdOn(e)
	}
	if b.held == 1 { // the reaper knows before the duty begins
		c.lifeline(b, false, false)
	}
	c.emit(Begin{
		Election: e.name, Epoch: r.Epoch, Incarnation: k.who.Incarnation, Register: b.register, Deadline: b.deadline,
	})
	c.emit(Event{Kind: EventBecameLeader, Election: e.name, Epoch: r.Epoch, Holder: k.who})
	c.obey(e) // a request may have been made before the answer to the claim was received
	c.enqueue(e.ref)
	return true
}

// line returns the heartbeat that a term depends on.
func (c *Core) line(e *election) *beat {
	if c.cfg.OwnLease {
		return &e.beat
	}
	return &c.member.beat
}

// lead is what a leader does: it renews a lease of its own, reads its record when there is a reason, and writes
// checkpoints.
func (c *Core) lead(e *election) {
	if e.doom != "" {
		c.end(e, e.doom, "")
		return
	}
	if c.closing {
		c.end(e, Shutdown, "")
		return
	}
	if c.cfg.OwnLease && !c.keepOwn(e) || e.busy() {
		return
	}

	if e.saving || e.stale || e.check != 0 && c.now >= e.check {
		if !e.retry.passed(c.now) {
			e.wake(e.retry.at)
			return
		}
		e.check = 0
		c.read(&e.entity, e.name)
		return
	}
	if e.check != 0 {
		e.wake(e.check)
	}
	if len(e.saves) > 0 {
		c.writeSave(e)
		return
	}
	c.handleAsk(e)
}

// keepOwn renews the lease of an election that has one of its own, and ends it before its deadline. It reports
// false if nothing else is to be sent now.
func (c *Core) keepOwn(e *election) bool {
	b := &e.beat
	if b.ended {
		return true
	}
	if c.now >= b.guardAt() { // rule 9: this does not wait for a request that is under way
		c.loseOwn(e, Partitioned)
		return false
	}
	e.wake(b.guardAt())

	switch {
	case e.busy():
		return false
	case b.check:
		c.read(&e.entity, e.name)
		return false
	case c.now >= b.due:
		c.swap(&e.entity, renewCall, c.attempt(b, e.rec))
		return false
	}
	e.wake(b.due)
	return true
}

// loseOwn ends a lease of an election's own, and the term that depends on it.
func (c *Core) loseOwn(e *election, cause Cause) {
	e.call = call{} // rule 9: nothing waits for it
	c.endBeat(&e.beat)
	if e.term.state == leading {
		c.end(e, cause, "")
	}
}

// renewAnswered takes in what became of a renewal of an election's own lease, by its own answer or by the read
// after it.
func (c *Core) renewAnswered(e *election, done call, o Outcome, r *driver.Record) {
	b := &e.beat
	switch {
	case o == Done:
		c.receive(e, r, done)
	case done.kind == renewCall:
		b.attempted(o)
	case o == NotFound:
		c.loseOwn(e, Lost)
	default:
		if c.tryFailed(b) == beatGivenUp {
			c.loseOwn(e, Partitioned)
		}
	}
}

// checkTerm ends a term whose record is not its own any more, and does what the record asks for.
func (c *Core) checkTerm(e *election) {
	t := &e.term
	if t.state == noTerm {
		return
	}
	ours := heldBy(&e.rec, t.who, t.epoch)
	if c.cfg.OwnLease && ours && !e.beat.ended {
		switch c.shown(&e.beat, &e.rec) {
		case beatLost: // a renewal that the store has forgotten: it is not held any more (rule 3)
			ours = false
		case beatGivenUp:
			c.loseOwn(e, Partitioned)
			return
		}
	}

	switch {
	case !ours && c.cfg.OwnLease:
		c.loseOwn(e, Lost)
	case !ours && t.state == leading:
		c.end(e, Lost, "")
	case t.state == leading:
		c.obey(e)
	}
}

// obey does what the record of a held election asks for.
func (c *Core) obey(e *election) {
	r := &e.rec
	switch {
	case r.Next == "" || r.Next == c.cfg.ID:
	case r.Next == anyone && r.Paused:
		c.end(e, Paused, r.Next)
	case r.Next == anyone:
		c.end(e, SteppedDown, r.Next)
	default:
		c.end(e, HandedOff, r.Next)
	}
}

// fenced ends a term that a receiver of work has refused. The next claim goes beyond the epoch that it has seen.
func (c *Core) fenced(in Fenced) {
	i, ok := c.names[in.Election]
	if !ok {
		return
	}
	e := c.elections.all[i]
	if e.term.state != leading || e.term.epoch != in.Epoch {
		return
	}
	c.observe(in.Election, in.Newest)
	c.end(e, FencedOff, "")
}

// The sweep reads the elections that this member holds by its heartbeat. A store that has lost a claim, but not the
// heartbeat, is noticed by that: within half a lease and the time of a request, or within as many heartbeat intervals
// as there are batches, if that is longer. Elections with leases of their own need no sweep: their renewals are
// conditional on the record itself.

const sweepBatch = 1000 // how many held elections are read at once

// holdOn adds a term to those that depend on the member's heartbeat.
func (c *Core) holdOn(e *election) {
	e.heldPos = len(c.held)
	c.held = append(c.held, e.index())
	c.member.fresh = append(c.member.fresh, e.index())
	c.sweepAt = min(c.sweepAt, c.now.Add(c.cfg.LeaseDuration/2))
	c.enqueue(c.member.ref)
}

func (c *Core) letGo(e *election) {
	last := len(c.held) - 1
	moved := c.elections.all[c.held[last]]
	c.held[e.heldPos] = moved.index()
	moved.heldPos = e.heldPos
	c.held = c.held[:last]
	if last == 0 {
		c.sweepAt = Never
		c.sweepLeft = 0
	}
}

// sweep reads the next held elections, if their time has come.
func (c *Core) sweep() {
	m := &c.member
	if c.now >= c.sweepAt && len(c.held) > 0 {
		c.sweptAt = c.now
		c.sweepAt = c.now.Add(c.sweepInterval())
		c.sweepLeft = max(c.sweepLeft, min(sweepBatch, len(c.held)))
	}
	c.sweepLeft = min(c.sweepLeft, len(c.held))
	for n := 0; n < portion && c.sweepLeft > 0; n++ {
		if c.sweepFrom >= len(c.held) {
			c.sweepFrom = 0
		}
		e := c.elections.all[c.held[c.sweepFrom]]
		c.sweepFrom++
		c.sweepLeft--
		e.check = max(c.now, 1)
		c.enqueue(e.ref)
	}

	if c.sweepLeft > 0 {
		c.enqueue(m.ref)
	}
	m.wake(c.sweepAt)
}

// sweepInterval is the time from one batch to the next: all batches together take half a lease, unless that is more
// than one batch for each heartbeat.
func (c *Core) sweepInterval() time.Duration {
	half := c.cfg.LeaseDuration / 2
	batches := (len(c.held) + sweepBatch - 1) / sweepBatch
	if batches < 2 {
		return half
	}
	return max(half/time.Duration(batches), c.cfg.HeartbeatInterval)
}

// sweepSoon has the held elections read without waiting for their turn, but no more often than once a heartbeat.
func (c *Core) sweepSoon() {
	if c.sweepAt != Never {
		c.sweepAt = min(c.sweepAt, c.sweptAt.Add(c.cfg.HeartbeatInterval))
		c.enqueue(c.member.ref)
	}
}

// poked has all held elections read: somebody may have asked something of this member.
func (c *Core) poked() {
	c.sweepLeft = len(c.held)
	c.enqueue(c.member.ref)
}

// checkClaims has the elections read that were won before the heartbeat which has just been applied. A store that
// lost the tail of its log has lost the claim, the heartbeat, or neither: if the claim is gone, the read shows it.
func (c *Core) checkClaims() {
	for _, i := range c.member.claims {
		if e := c.elections.all[i]; e != nil && e.term.state == leading {
			e.check = max(c.now, 1)
			c.enqueue(e.ref)
		}
	}
	c.member.claims = nil
}
