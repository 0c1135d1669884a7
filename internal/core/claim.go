package core

import (
	"slices"

	"github.com/regentd/regent/driver"
)

// claim is one attempt to take an election, until it is known what became of it.
type claim struct {
	nonce uint64
	epoch uint64
	sent  Time
	floor Time            // when the read of the floor was sent that it is above (rule 13)
	who   driver.Identity // the incarnation under whose heartbeat it would count, and no other (rule 1)
	ended driver.Past     // the term that it ends, if its leader could not say so itself
}

// maxClaims is how many claims of unknown outcome are remembered. An older one that is applied after all expires by
// itself.
const maxClaims = 8

func (e *election) claimedAs(who driver.Identity) bool {
	return slices.ContainsFunc(e.claims, func(c claim) bool { return c.who == who })
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

// bid sends the claim of an election in place of r. The epoch grows over everything seen anywhere (rule 5), and over
// the floor (rule 13).
func (c *Core) bid(e *election, r *driver.Record) {
	next := driver.Record{
		Name: e.name, Rev: r.Rev, Addr: c.cfg.Addr, Epoch: c.epochAfter(e, r), Nonce: c.src.Nonce(),
		Duration: c.cfg.LeaseDuration, Since: c.src.Wall(), Data: r.Data,
	}
	if r.Vacant() {
		next.Past = endedByStore(r, &e.lastHeld, c.endingByStore(e, r))
	} else {
		end := c.endingOf(e, r)
		next.Past = ended(r, end.at, end.reason)
	}

	if c.cfg.OwnLease {
		next.Holder = driver.Identity{ID: c.cfg.ID, Incarnation: c.src.Incarnation()}
	} else {
		next.Holder = c.member.beat.who
		next.Via = c.member.beat.register
	}

	unsaid := c.unsaid(e, r, next.Past)
	next.Past = c.withForgotten(r, next.Past)

	keep := e.claims[max(0, len(e.claims)-maxClaims+1):]
	e.claims = append(slices.Clip(keep), claim{
		nonce: next.Nonce, epoch: next.Epoch, sent: c.now, floor: c.floor.read, who: next.Holder,
		ended: unsaid,
	})
	c.swap(&e.entity, claimCall, next)
}

// epochAfter is the epoch of the next claim of an election.
func (c *Core) epochAfter(e *election, r *driver.Record) uint64 {
	return max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1
}

// exhausted reports whether no term can follow an epoch: its successor is one that no fence accepts.
func exhausted(epoch uint64) bool { return epoch >= maxEpoch-1 }

// claimAnswered takes in what became of a claim.
func (c *Core) claimAnswered(e *election, done call, o Outcome, r *driver.Record) {
	c.claimedShare(e)
	switch o {
	case Done:
		// A notification that came meanwhile is most likely its own. The term need not wait for a read of that: it
		// counts from when the claim was sent, and the record is read again after the next heartbeat.
		done.old = done.old && r.Epoch < c.memory[e.name]
		c.receive(e, r, done)
		return
	case Conflict, NotSent: // it was not applied and never will be
		e.claims = slices.DeleteFunc(slices.Clone(e.claims), func(k claim) bool { return k.nonce == done.nonce })
	}

	if o == Conflict {
		c.decided(4, e.name, "somebody else was first: the claim was not applied, and never will be")
		if e.seen { // else the record was that of an earlier term
			e.hold = c.now.Add(conflictWait)
		}
	} else {
		c.decided(3, e.name, "the outcome of the claim is not known: read the register")
		c.failed()
	}
	e.stale = true
}

// settleOwn settles an election whose record names this member although it does not hold it. That is the normal way
// from a claim to its term: the answer has shown the record. It is also the way after a lost answer to a claim or to a
// release. A claim that is known, was not released and still lives is adopted. Anything else is given back at once,
// since nobody else could claim it while this member's heartbeat goes on (rule 6).
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

// dropClaims forgets claims that cannot come true any more: under an incarnation that has ended, or on a record
// that has moved on to another holder. Should a store that forgets bring one back, it is not adopted but released
// (rule 6).
func (c *Core) dropClaims(e *election) {
	if len(e.claims) == 0 {
		return
	}

	r := &e.rec
	passed := func(k claim) bool {
		if !c.cfg.OwnLease && !c.member.is(k.who) {
			return true
		}
		passed := !r.Vacant() && r.Holder != k.who && r.Epoch >= k.epoch
		if passed && c.cfg.OwnLease {
			e.unreleased = k.who
		}

		return passed
	}

	if slices.ContainsFunc(e.claims, passed) { // else nothing is copied
		e.claims = slices.DeleteFunc(slices.Clone(e.claims), passed)
	}
}
