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

// notBefore is the time from which this member may claim a free record. It is a courtesy; what is safe was decided
// before.
func (c *Core) notBefore(e *election, r *driver.Record) Time {
	at := max(e.barred, e.standBack)
	if r.Next != c.cfg.ID { // whoever is asked for does not hold back
		at = max(at, e.holdBack)
		if end := c.coldStartEnd(e); end > 0 {
			at = max(at, end.Add(c.turn()))
		}
	}

	if c.returned(r) || r.Next != "" && r.Next != anyone && r.Next != c.cfg.ID {
		at = max(at, c.headStart(e, r).Add(c.cfg.HeartbeatInterval))
	}

	return at
}

// returned reports whether the holder of a record has joined again before anybody took over: it has a head start,
// unless a rank decides who should lead.
func (c *Core) returned(r *driver.Record) bool {
	i, ok := c.sighted[r.Via]
	if !ok || r.Vacant() || r.Holder.ID == c.cfg.ID || c.rank.kind != rankFirst {
		return false
	}

	now := c.sights.all[i].watch.rec.Holder
	return now.ID == r.Holder.ID && now != r.Holder
}

// exhausted reports whether no term can follow an epoch: its successor is one that no fence accepts.
func exhausted(epoch uint64) bool { return epoch >= maxEpoch-1 }

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

	keep := e.claims[max(0, len(e.claims)-maxClaims+1):]
	e.claims = append(slices.Clip(keep), claim{
		nonce: next.Nonce, epoch: next.Epoch, sent: c.now, floor: c.floor.read, who: next.Holder,
		ended: c.unsaid(e, r, next.Past),
	})
	c.swap(&e.entity, claimCall, next)
}

// epochAfter is the epoch of the next claim of an election.
func (c *Core) epochAfter(e *election, r *driver.Record) uint64 {
	return max(r.Epoch, c.memory[e.name], c.floor.epoch) + 1
}

// claimOnNotice claims on the vacant record that a notification brought, without a read, and reports whether it
// did: if somebody else has released the election in the very term that is known to be the last. A notification
// proves nothing (rule 12): that the record stands is proved by the swap, on its revision.
func (c *Core) claimOnNotice(e *election, r *driver.Record) bool {
	switch {
	case r.Rev == "" || !r.Vacant() || r.Paused || r.Epoch != c.memory[e.name]:
		return false
	case !e.wanted || e.stale && e.call.id == 0 || e.call.old || e.call.write() || e.vac.on || !c.followed(e):
		return false
	case r.Next != "" && r.Next != anyone && r.Next != c.cfg.ID:
		return false
	case c.rank.kind != rankFirst: // others may have to come first
		return false
	case !c.mayLead() || !c.floorFresh() || exhausted(r.Epoch):
		return false
	case c.now < max(c.notBefore(e, r), e.hold, c.backoff):
		return false
	}

	c.decided(12, e.name, "the notification shows it vacant: claim that revision without a read")
	e.dropRead()
	c.bid(e, r)
	e.stale = true
	c.enqueue(e.ref)
	return true
}

// claimAnswered takes in what became of a claim.
func (c *Core) claimAnswered(e *election, done call, o Outcome, r *driver.Record) {
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
		e.hold = c.now.Add(conflictWait)
	} else {
		c.decided(3, e.name, "the outcome of the claim is not known: read the register")
		c.failed()
	}
	e.stale = true
}
