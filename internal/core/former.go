package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the end of a term: the duty stops, then the election is released, then the event is sent (rule 7).

// end ends a term: from now on it is not believed, and its duty has to stop.
func (c *Core) end(e *election, cause Cause, next string) {
	t := &e.term
	t.state = stopping
	t.cause = cause
	t.next = next
	t.stuckAt = c.now.Add(c.cfg.StopTimeout)
	c.attendable(e)
	e.dropRead()
	c.decided(7, e.name, "the term ends: its duty stops first, then the election is released")
	c.emit(End{Election: e.name, Epoch: t.epoch, Cause: cause, Next: next, Detail: t.detail})
	c.endSaves(e)
	c.callSuccessor(next)
	c.enqueue(e.ref)
}

// stop waits for the duty of a former leader. Its lease is kept up meanwhile, so that nobody else begins beside it.
func (c *Core) stop(e *election) {
	t := &e.term
	if c.now >= t.stuckAt && !t.stuck {
		t.stuck = true
		c.emit(Event{Kind: EventDutyStuck, Election: e.name, Epoch: t.epoch, Reason: string(t.cause)})
	}

	if !t.stuck {
		e.wake(t.stuckAt)
	}

	if c.cfg.OwnLease {
		c.keepOwn(e)
	} else {
		e.busy()
	}
}

// dutyStopped takes in that nothing of a term runs any more.
func (c *Core) dutyStopped(name string, epoch uint64) {
	i, ok := c.names[name]
	if !ok {
		return
	}

	e := c.elections.all[i]
	t := &e.term
	if t.epoch != epoch || t.state == noTerm || t.state == releasing {
		return
	}

	switch {
	case t.state == leading && e.doom != "": // its context has ended with the heartbeat, and its turn has not come yet
		t.detail = c.member.beat.why
		c.end(e, e.doom, "")
	case t.state == leading: // it returned of its own accord
		c.end(e, Returned, "")
		c.unwant(e)
	}

	b := c.beatOf(e)
	c.decided(7, e.name, "the duty has stopped: the election may be released")
	t.state = releasing
	b.held--
	switch {
	case c.cfg.OwnLease: // once the release is sent the claim is never believed again (rule 3)
		c.noteEnd(b, t.cause)
		c.endBeat(b, t.cause)
		c.lifeline(b, true, false)
	case b.held == 0:
		c.lifeline(b, false, false)
	}

	e.dropRead()
	e.vac = vacating{
		on: true, who: t.who, epoch: t.epoch, reason: string(t.cause), next: t.next, until: c.now.Add(c.timeout),
	}
	c.enqueue(e.ref)
	c.enqueue(c.member.ref)
}

// release gives the election back. A term whose incarnation has ended needs no release: the election is free by that.
func (c *Core) release(e *election) {
	if e.busy() {
		return // bounded by its timeout: the release is conditional on what it wrote
	}

	if !c.cfg.OwnLease && !c.member.is(e.term.who) {
		c.finish(e, false)
		return
	}

	if sent, kept := c.vacate(&e.entity, &e.vac, &e.rec); !sent {
		c.finish(e, kept)
	}
}

// finish makes a former leader a candidate again.
func (c *Core) finish(e *election, kept bool) {
	t := e.term
	e.term = term{}
	e.vac = vacating{}
	e.stale = e.stale || e.wanted || !e.released
	if c.cfg.OwnLease {
		if kept {
			e.unreleased = t.who
		} else { // else the reaper may release it yet
			c.lifeline(&e.beat, true, true)
		}
	} else {
		c.dropHeld(e)
	}

	switch t.cause {
	case HandedOff, SteppedDown, Unhealthy: // others may have to poll to find out, and then hold back for a better one
		e.holdBack = c.now.Add(c.cfg.ElectionInterval + c.cfg.HeartbeatInterval)
	case FencedOff:
		e.holdBack = c.now.Add(e.fencedAgain(time.Duration(c.now - t.began)))
	}

	e.reported = t.epoch
	c.emit(Event{Kind: EventLostLeadership, Election: e.name, Epoch: t.epoch, Reason: string(t.cause)})
	c.emit(Finished{Election: e.name, Epoch: t.epoch, Kept: kept})
	if t.asked != 0 {
		c.emit(Result{ID: t.asked, Result: OK, Epoch: t.epoch})
	}

	if e.withdrawn {
		e.withdrawn = false
		c.emit(Withdrawn{e.name})
	}

	c.attach(e)
	c.moved(e)
	c.enqueue(e.ref)
}

// A member whose terms are refused by fences, one after the other, waits between them: whoever reports ever higher
// epochs could otherwise make it begin thousands of terms a minute. After the first it does not wait.
const (
	fencedWait    = time.Second
	fencedWaitMax = time.Minute
)

// fencedAgain returns how long to wait after a term that was refused after that time.
func (e *election) fencedAgain(lasted time.Duration) time.Duration {
	if lasted > fencedWaitMax {
		e.fencedRow = 0
	}

	e.fencedRow++
	if e.fencedRow == 1 {
		return 0
	}

	return min(fencedWait<<min(e.fencedRow-2, 10), fencedWaitMax)
}

// vacating is the release of a register that this member holds, or the leave of the member: the swap, and a read after
// every swap that was not plainly applied.
type vacating struct {
	on     bool
	who    driver.Identity
	epoch  uint64
	reason string
	next   string // the successor to name
	tries  int
	until  Time // a store that does not answer is not asked any longer
	check  bool // the last outcome is not plain: the register is to be read
}

// maxVacate is how often a release is tried.
const maxVacate = 4

// vacate sends the next request of a release. It reports false if nothing is left to send: the record is not ours any
// more, or the store did not take the release (kept).
func (c *Core) vacate(e *entity, v *vacating, r *driver.Record) (sent, kept bool) {
	switch {
	case v.check && c.now >= v.until:
		return false, true
	case v.check:
		c.read(e, r.Name)
		return true, false
	case !heldBy(r, v.who, v.epoch): // rule 4: a release changes only its own record
		return false, false
	case v.tries == maxVacate || v.tries > 0 && c.now >= v.until:
		return false, true
	}

	c.decided(4, r.Name, "release this very record, if nobody has changed it")
	v.tries++
	v.check = true
	if e.ref.kind() == memberKind {
		c.swap(e, vacateCall, vacatedBeat(r, c.src.Nonce(), c.src.Wall(), v.reason))
		return true, false
	}

	end, known := c.endOf(v.who)
	if !known {
		end = ending{v.reason, c.src.Wall()}
	}

	vacant := vacated(r, c.src.Nonce(), end.at, end.reason)
	vacant.Next = v.next
	c.swap(e, vacateCall, vacant)
	return true, false
}

// vacateAnswered takes in what became of a release, or of the read after it.
func (c *Core) vacateAnswered(e *election, done call, o Outcome, r *driver.Record) {
	v := &e.vac
	switch {
	case o == Done && done.kind == vacateCall, o == NotFound:
		v.on = false
		c.receive(e, r, done)
		c.vacateDone(e, false)
	case o == Done:
		v.check = false
		c.receive(e, r, done)
	case done.kind == readCall:
		c.vacateDone(e, true)
	}
}

// vacateDone ends a release: of a term, or of a claim that was not adopted.
func (c *Core) vacateDone(e *election, kept bool) {
	if e.term.state == releasing {
		c.finish(e, kept)
		return
	}

	e.vac = vacating{}
	e.stale = e.stale || kept
	if kept {
		e.retry.at = c.now.Add(c.failureWait())
	}
}
