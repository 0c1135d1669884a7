package core

import (
	"slices"

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
	e.wake(e.pollAt)
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
		e.stale = true
		c.refreshSight(e)
	}

	if e.check != 0 && c.now >= e.check {
		e.stale = true
	}

	expiring := c.followed(e) && e.rec.Via == "" && c.now >= e.own.readAt(c.cfg.TakeoverDelay)
	return e.seen && !e.stale && c.now < e.pollAt && !expiring
}

// refreshRecord reads the record, if that is not to be waited for. With every notification lost, this is all that
// it takes (rule 12).
func (c *Core) refreshRecord(e *election) {
	if at := max(e.retry.at, c.lookAt); c.now < at {
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

// claimFree claims an election that was judged free, unless somebody else should have it first.
func (c *Core) claimFree(e *election) {
	at := max(c.notBefore(e, &e.rec), e.hold, c.backoff)
	switch {
	case !e.wanted || !c.mayLead() && !c.lastResort() || exhausted(e.rec.Epoch):
	case c.now < at:
		e.wake(at)
	case !c.floorFresh():
		c.needFloor(&e.entity)
	case c.mayLead() && c.prefers(e), c.lastResort() && c.aloneFor(e):
		c.explainClaim(e)
		c.bid(e, &e.rec)
	}
}

// explainClaim says why an election is free.
func (c *Core) explainClaim(e *election) {
	switch {
	case !c.cfg.Explain:
	case e.rec.Rev == "":
		c.decided(6, e.name, "the register was never written: claim it")
	case e.rec.Vacant():
		c.decided(10, e.name, "it is vacant: claim it, without a takeover delay")
	case e.rec.Via == "":
		c.decided(2, e.name, "its lease has expired on this member's clock: claim it")
	default:
		c.decided(6, e.name, "its holder's incarnation is dead: claim it")
	}
}

// settleOwn settles an election whose record names this member although it does not hold it: the answer to its
// claim was lost, or its release was. A claim that is known, was not released and still lives is adopted. Anything
// else is given back at once, since nobody else could claim it while this member's heartbeat goes on (rule 6).
func (c *Core) settleOwn(e *election) {
	k := e.claimIndex()
	if k >= 0 && e.wanted && !c.closing && c.begin(e, e.claims[k]) {
		return
	}

	c.decided(6, e.name, "the record names this member, which does not hold it: give it back")

	// Before the release is sent the claim is forgotten, so that it is never believed again, whatever a read shows
	// (rule 3).
	who := e.rec.Holder
	if c.cfg.OwnLease {
		e.unreleased = who
	}

	e.claims = slices.DeleteFunc(slices.Clone(e.claims), func(k claim) bool {
		return k.nonce == e.rec.Nonce && k.who == who
	})
	e.vac = vacating{on: true, who: who, epoch: e.rec.Epoch, reason: ReasonAbandoned, until: c.now.Add(c.timeout)}
	c.giveBack(e)
}

// claimIndex returns which of this member's claims the record shows, or -1.
func (e *election) claimIndex() int {
	return slices.IndexFunc(e.claims, func(k claim) bool { return k.nonce == e.rec.Nonce && k.who == e.rec.Holder })
}

// giveBack sends the next request of the release of a record that this member does not hold a term on.
func (c *Core) giveBack(e *election) {
	sent, kept := c.vacate(&e.entity, &e.vac, &e.rec)
	if sent {
		return
	}

	e.vac = vacating{}
	e.stale = true
	if kept { // it is tried again after the next read
		e.retry.at = c.now.Add(c.failureWait())
	}

	c.enqueue(e.ref)
}

// wantsNothing reports whether nobody is interested in an election any more.
func (c *Core) wantsNothing(e *election) bool {
	return !e.wanted && e.watchers == 0 && len(e.claims) == 0 && len(e.asks) == 0 && !c.mine(e, e.rec.Holder)
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
