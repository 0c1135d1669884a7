package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// campaign is what a candidate does, and anybody who only watches: it reads the record, judges it, and claims.
func (c *Core) campaign(e *election) {
	if e.busy() {
		return
	}

	if e.vac.on {
		c.giveBack(e)
		return
	}

	if c.closing {
		c.rest(e)
		return
	}

	if c.wantsNothing(e) {
		c.dropElection(e)
		return
	}

	if c.handleAsk(e) {
		return
	}

	if c.claimKnown(e) {
		return
	}

	if !c.current(e) {
		c.refreshRecord(e)
		return
	}

	if c.mine(e, e.rec.Holder) {
		c.settleOwn(e)
		return
	}
	c.contend(e)
}

// contend claims the election if it is free, and else waits until it could be.
func (c *Core) contend(e *election) {
	if e.check != 0 {
		e.wake(e.check)
	}

	c.attach(e) // whose incarnation it names may have ended since the record was received
	if !c.idling(e) {
		e.wake(e.pollAt)
	}

	if e.claimed {
		return
	}

	if c.followed(e) && e.rec.Via == "" {
		e.seenLed = e.seenLed || e.own.renewed
		e.wake(e.own.readAt(c.cfg.TakeoverDelay))
	}

	switch v, at := c.judge(e); v {
	case taken:
		e.open = false
		c.judged(e, false)
		e.wake(at)
	case dead:
		s := c.sightOf(e.rec.Via)
		s.revoke = true
		c.enqueue(s.ref)
	case free:
		if !e.open {
			e.open = true
			e.openSince = c.now
		}

		c.judged(e, true)
		c.claimFree(e)
	}
}

// current reports whether the record is known well enough to act on it.
func (c *Core) current(e *election) bool {
	if e.fresh != c.refresh {
		c.refreshSight(e)
		if c.mergeable(e) && c.readLately(e) {
			e.fresh = c.refresh
			c.readMerged(e)
		} else {
			e.stale = true
		}
	}

	if e.check != 0 && c.now >= e.check {
		e.stale = true
	}

	expiring := c.followed(e) && e.rec.Via == "" && c.now >= e.own.readAt(c.cfg.TakeoverDelay)
	return e.seen && !e.stale && (c.now < e.pollAt || c.idling(e)) && !expiring
}

// refreshRecord reads the record, if that is not to be waited for. With every notification lost, this is all that
// it takes (rule 12).
func (c *Core) refreshRecord(e *election) {
	if at := max(e.retry.at, c.readFrom); c.now < at {
		e.wake(at)
		return
	}

	if e.vanished && e.awaits { // the floor says why it has no register any more
		return
	}

	if c.now >= e.pollAt {
		if e.seen {
			c.decided(12, e.name, "no notification has come for long: read the register")
		}

		e.pollAt = c.pollTime(c.pollInterval(e))
		e.quiet++
	}

	e.stale = true // until the answer is there
	e.check = 0
	e.fresh = c.refresh
	c.read(&e.entity, e.name)
}

// verdict is what an observer makes of an election.
type verdict uint8

const (
	taken verdict = iota // it is held, or might be
	dead                 // its holder's heartbeat has expired: once that is revoked it is free
	free                 // it may be claimed
)

// judge decides whether an election is free, and if it is not, when to judge again (rule 6: candidates claim only
// what is free). A holder's death is taken only from a read of its heartbeat that was sent after the record which
// names it had been received: an older one may show the register as it was before that holder joined.
func (c *Core) judge(e *election) (verdict, Time) {
	r := &e.rec
	switch {
	case r.Paused:
		return taken, Never
	case c.now < e.barred: // rule 5
		return taken, e.barred
	case r.Vacant(): // rule 10: no takeover delay after a release
		return free, 0
	case r.Via == "" && e.own.expired(c.cfg.TakeoverDelay): // the claim is conditional on that revision
		return free, 0
	case r.Via == "":
		return taken, Never
	}

	s := c.sightOf(r.Via)
	if s.proof <= e.after {
		c.need(e, s)
		return taken, Never
	}

	if s.watch.rec.Holder != r.Holder {
		e.foundHeld = e.foundHeld && e.seenHeld
		return c.judgeAbsent(e, s)
	}

	e.seenHeld = true
	e.forgotten = driver.Identity{}
	e.seenLed = e.seenLed || s.watch.renewed
	if s.watch.expired(c.cfg.TakeoverDelay) {
		return dead, 0
	}

	return taken, Never // the sight wakes the election
}

// rest is what an election does while the member closes: a claim with a lease of its own that may have been applied is
// read once, and given back. Any other ends with the member's heartbeat.
func (c *Core) rest(e *election) {
	if c.cfg.OwnLease && len(e.claims) > 0 && c.now < c.tidyEnd {
		switch {
		case !e.tidied:
			e.tidied = true
			c.read(&e.entity, e.name)
			return
		case !e.rec.Vacant() && !e.stale && c.mine(e, e.rec.Holder):
			c.settleOwn(e)
			return
		}
	}

	c.dropElection(e)
}

// moved makes the next poll come soon. The poll interval grows only while nothing changes.
func (c *Core) moved(e *election) {
	e.quiet = 0
	e.pollAt = min(e.pollAt, c.pollTime(c.cfg.ElectionInterval))
}

// pollInterval doubles while nothing changes, up to its maximum.
func (c *Core) pollInterval(e *election) time.Duration {
	d := c.cfg.ElectionInterval
	for range e.quiet {
		if d > c.cfg.ElectionIntervalMax/2 {
			return c.cfg.ElectionIntervalMax
		}

		d *= 2
	}

	return d
}

// pollTime is when an election is polled that is to be polled within d. The polls of all elections come at moments
// that are the election interval apart, so that the shell can send many of them as one batch. Those of a fleet's
// member come in its phase.
func (c *Core) pollTime(d time.Duration) Time {
	if c.spreads() {
		return c.now.Add(c.untilPhase(c.now, d))
	}

	every := c.cfg.ElectionInterval
	if c.pollAt <= c.now {
		c.pollAt = c.now.Add(every)
	}

	at := c.now.Add(max(d, every))
	return at - (at-c.pollAt)%Time(every)
}
