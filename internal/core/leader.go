package core

import (
	"fmt"

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
		e.beat = beat{
			register: e.name, who: k.who, every: c.cfg.interval(c.cfg.RenewInterval, w), trust: c.cfg.trust(w),
		}
		b = &e.beat
		b.tries = []try{{k.nonce, k.sent}}
		b.deadline = k.sent.Add(b.trust)
		b.due = max(c.now, k.sent.Add(b.every))
		b.cycle = b.due
	} else if !c.member.is(k.who) {
		return false
	}

	if !b.lives(c.now) {
		c.decided(8, e.name, "the claim was applied, but its deadline has passed")
		b.ended = b.ended || c.cfg.OwnLease
		return false
	}

	c.decided(1, e.name, "the claim is applied: the term counts from before it, or the heartbeat, was sent")
	e.claims = nil
	e.open = false
	e.seenLed = true
	e.check = 0
	e.doom = ""
	e.term = term{state: leading, epoch: r.Epoch, who: k.who, began: c.now}
	c.judged(e, false)
	c.attendable(e)

	b.held++
	if !c.cfg.OwnLease {
		c.addHeld(e)
	}

	if b.held == 1 { // the reaper knows before the duty begins
		c.lifeline(b, false, false)
	}

	c.emit(Begin{
		Election: e.name, Epoch: r.Epoch, Incarnation: k.who.Incarnation, Register: b.register,
		Deadline: b.deadline, Guard: b.guardAt(),
	})

	c.appointAnew()
	c.stats.Transitions++
	c.announce(e, k)
	c.obey(e) // a request may have been made before the answer to the claim was received
	c.enqueue(e.ref)
	return true
}

// announce emits the events of a term that begins: the term, how the one before ended, and the end of a leader that
// could not report it.
func (c *Core) announce(e *election, k claim) {
	if p := k.ended; p.Epoch != 0 {
		c.emit(Event{
			Kind: EventLostLeadership, Node: p.Holder, Election: e.name, Epoch: p.Epoch, Reason: p.Reason,
			ReportedBy: c.cfg.ID,
		})
	}

	was := c.termBefore(&e.rec)
	c.emit(Event{
		Kind: EventBecameLeader, Election: e.name, Epoch: e.rec.Epoch, Holder: k.who, Previous: was.leader,
		PreviousReason: was.reason, Vacant: was.vacant,
	})
}

// beatOf returns the heartbeat that a term depends on.
func (c *Core) beatOf(e *election) *beat {
	if c.cfg.OwnLease {
		return &e.beat
	}

	return &c.member.beat
}

// lead is what a leader does: it renews a lease of its own, reads its record when there is a reason, and writes
// checkpoints.
func (c *Core) lead(e *election) {
	if e.doom != "" {
		e.term.detail = c.member.beat.why
		c.end(e, e.doom, "")
		return
	}

	if c.closing {
		c.end(e, c.closeCause, "")
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
		c.decided(7, e.name, "the deadline is near and no renewal is confirmed: the term ends before it")
		b.why = unconfirmed
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
	if e.call.id != 0 {
		c.decided(9, e.name, "the request that is under way is not waited for")
	}

	e.call = call{} // rule 9: nothing waits for it
	c.noteEnd(&e.beat, cause)
	c.endBeat(&e.beat, cause)
	if e.term.state == leading {
		e.term.detail = e.beat.why
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
		c.attempted(b, o, done)
	case o == NotFound:
		b.why = fmt.Sprintf(forgotText, e.name)
		c.loseOwn(e, Lost)
	default:
		b.unread(o, done)
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
	if !ours && t.state == leading {
		t.detail = fmt.Sprintf("%s now shows %s in epoch %d", e.name, e.rec.Holder, e.rec.Epoch)
		e.beat.why = t.detail // if it has a lease of its own
	}

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
