package core

import (
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the removal of registers that nobody uses any more (rule 13).

// retirement is one register that is to be removed. The register must be vacant, and stay as it is for as long as it
// takes. Whether it did is not read again: the removal is conditional on the revision that was read first.
type retirement struct {
	entity
	id     uint64 // the request
	name   string
	idle   time.Duration // how long the register must stay as it is
	rec    driver.Record // as first read
	phase  retirePhase
	losses uint64 // of the floor, when the register began to rest
	rested Time   // when the register has stayed as it is for long enough
	dead   watch  // of a member that has not left: its heartbeat, which must expire and be revoked first
	tries  int    // removals of unknown outcome
	giveUp Time   // when it ends unless the store has answered; 0 while it rests or waits for its turn
	waits  bool   // for its turn
	retry  retry
}

// retirePhase is how far a retirement has come.
type retirePhase uint8

const (
	retireRead    retirePhase = iota // the register is to be read
	retireSilent                     // the heartbeat of a member that has not left must stay as it is for a while
	retireAgain                      // it must be read again
	retireExpire                     // it must stay as it is for its lease and the takeover delay
	retireConfirm                    // it must be read once more
	retireRevoke                     // it is revoked
	retireRaise                      // the floor must come up to its epoch
	retireRest                       // it must stay as it is for a while
	retireNamed                      // no election may name it
	retireRemove                     // it is to be removed
	retireCheck                      // the removal is not known to be applied: the register is to be read
)

const (
	maxRemovals    = 4  // how often a removal is tried
	retireTimeouts = 64 // how many timeouts a retirement waits for a store that does not answer
)

// retire takes in a request to remove a register.
func (c *Core) retire(in Retire) {
	reserved := strings.HasPrefix(in.Register, driver.Reserved) && !strings.HasPrefix(in.Register, driver.MemberPrefix)
	if c.cfg.Rest == 0 || reserved {
		c.emit(Result{ID: in.ID, Result: InUse})
		return
	}

	t := &retirement{id: in.ID, name: in.Register, idle: max(in.Idle, c.cfg.Rest)}
	t.init(makeRef(retireKind, c.retirements.add(t)))
	c.enqueue(t.ref)
}

// isMember reports whether the register is that of a member. Any other is that of an election.
func (t *retirement) isMember() bool { return strings.HasPrefix(t.name, driver.MemberPrefix) }

// advanceRetirement does what comes next in the removal of a register.
func (c *Core) advanceRetirement(t *retirement) {
	if c.closing {
		c.retireDone(t, Unanswered)
		return
	}

	if t.busy() || t.waits {
		return
	}

	if c.givenUp(t) {
		c.retireDone(t, Unanswered)
		return
	}

	if !t.retry.passed(c.now) {
		t.wake(t.retry.at)
		return
	}

	asks := t.asks()
	if asks && !c.itsTurn(t) {
		return
	}

	switch t.phase {
	case retireRead, retireAgain, retireConfirm, retireCheck:
		c.read(&t.entity, t.name)
	case retireRaise:
		c.raiseFor(t)
	case retireSilent, retireRest:
		c.awaitRest(t)
	case retireExpire:
		c.awaitExpiry(t)
	case retireRevoke:
		c.swap(&t.entity, revokeCall, c.revoked(&t.dead))
	case retireNamed:
		c.send(&t.entity, namedCall, Named, driver.Record{Name: t.name})
		t.call.until = c.now.Add(ListTimeouts * c.timeout)
		t.wake(t.call.until)
	case retireRemove:
		c.remove(t)
	}

	if asks {
		c.tookTurn(t)
	}
}

// givenUp reports whether a retirement has waited for the store for too long. The time counts from the last answer, and
// not while the register rests, or others have their turn.
func (c *Core) givenUp(t *retirement) bool {
	if !t.asks() && t.phase != retireRaise {
		t.giveUp = 0
		return false
	}
	if t.giveUp == 0 {
		t.giveUp = c.now.Add(retireTimeouts * c.timeout)
	}
	t.wake(t.giveUp)
	return c.now >= t.giveUp
}

// covered reports whether the floor is known to have come up to the epoch of a register.
func (c *Core) covered(t *retirement) bool {
	return t.isMember() || c.floor.seen && c.floor.rec.Epoch >= t.rec.Epoch
}

// raiseFor waits until the floor covers the epochs of an election. From then on the register must stay as it is, and
// the floor must stand, for all of the time (rule 13).
func (c *Core) raiseFor(t *retirement) {
	if !c.covered(t) {
		c.raiseFloor(t.rec.Epoch, &t.entity)
		return
	}

	t.losses = c.floor.losses
	t.rested = c.now.Add(t.idle)
	t.phase = retireRest
	t.wake(t.rested)
}

// awaitRest goes on once the register has had its time.
func (c *Core) awaitRest(t *retirement) {
	switch {
	case c.now < t.rested:
		t.wake(t.rested)
		return
	case t.phase == retireSilent:
		t.phase = retireAgain
	case t.isMember():
		t.phase = retireNamed
	default:
		t.phase = retireRemove
	}

	c.enqueue(t.ref)
}

// awaitExpiry goes on when the heartbeat of a member that has been silent for long has stayed as it is for a lease
// and the takeover delay. It is then read once more, and revoked on the very revision that was read first (rules 2
// and 10). Like any register that is left, it then has to rest.
func (c *Core) awaitExpiry(t *retirement) {
	if expired := t.dead.expires().Add(c.cfg.TakeoverDelay); c.now < expired {
		t.wake(expired)
		return
	}
	t.phase = retireConfirm
	c.enqueue(t.ref)
}

// remove sends the removal, on the revision that was read first. Where the store has lost the floor meanwhile,
// everything begins anew.
func (c *Core) remove(t *retirement) {
	switch {
	case !t.isMember() && !c.floorFresh():
		c.needFloor(&t.entity)
		return
	case !c.covered(t) || !t.isMember() && t.losses != c.floor.losses:
		t.phase = retireRaise
		c.enqueue(t.ref)
		return
	}

	t.tries++
	c.send(&t.entity, removeCall, Remove, driver.Record{Name: t.name, Rev: t.rec.Rev, Epoch: t.rec.Epoch})
}

// shownToRetire takes in what a read has shown: it counts for elections and heartbeats too. An election that this
// member has no interest in is one that it has dropped.
func (c *Core) shownToRetire(t *retirement, r *driver.Record, done call) {
	c.late(done.order(), r)
	if _, used := c.names[t.name]; !used && !t.isMember() {
		c.noteDropped(t.name, 0)
	}
}

// retirementAnswered takes in what became of a request about a register that is to be removed.
func (c *Core) retirementAnswered(t *retirement, done call, o Outcome, r *driver.Record) {
	c.retiring.active--
	c.nextTurn()
	if o == Unknown || o == NotSent {
		c.retirementFailed(t, done, o)
		return
	}

	t.giveUp = 0
	if done.kind == readCall && o == Done {
		c.shownToRetire(t, r, done)
	}

	switch {
	case (done.kind == removeCall || done.kind == revokeCall) && o == Conflict:
		c.retireDone(t, InUse)
	case done.kind == removeCall: // removed
		c.forgetRetired(t.name, t.rec.Epoch)
		c.retireDone(t, OK)
	case done.kind == namedCall && o == Done:
		c.retireDone(t, InUse)
	case done.kind == namedCall:
		t.phase = retireRemove
	case o == NotFound: // somebody else was first, or the removal was applied
		c.retireDone(t, OK)
	default:
		c.retirementShown(t, done, r)
	}
}

// retirementFailed takes in that the outcome of a request is not known, or that it was not sent.
func (c *Core) retirementFailed(t *retirement, done call, o Outcome) {
	switch {
	case done.kind == namedCall: // it takes a list of everything: not again and again
		c.retireDone(t, Unanswered)
	case o == Unknown && done.kind == removeCall:
		t.phase = retireCheck
		c.failed()
	case o == Unknown && done.kind == revokeCall: // it is read, and all begins anew
		t.phase = retireRead
		c.failed()
	default:
		c.unread(&t.retry, t.name, done, o)
	}
}

// retirementShown takes in what the register holds, by a read or by the revocation of a heartbeat.
func (c *Core) retirementShown(t *retirement, done call, r *driver.Record) {
	switch {
	case t.phase == retireCheck && r.Rev != t.rec.Rev:
		c.retireDone(t, InUse)
	case t.phase == retireCheck && t.tries == maxRemovals:
		c.retireDone(t, Unanswered)
	case t.phase == retireCheck:
		t.phase = retireRemove
	case (t.phase == retireAgain || t.phase == retireConfirm) && r.Rev != t.dead.rec.Rev:
		c.retireDone(t, InUse)
	case t.phase == retireConfirm:
		t.phase = retireRevoke
	case t.phase == retireAgain: // from now on it must stay as it is for a lease
		t.dead = watch{}
		c.see(&t.dead, r, done)
		t.phase = retireExpire
	case t.isMember() && !r.Vacant() && c.mayBeDead(r):
		c.see(&t.dead, r, done)
		t.rested = c.now.Add(t.idle)
		t.phase = retireSilent
	case inUse(r):
		c.retireDone(t, InUse)
	default:
		t.rec = driver.Record{Rev: r.Rev, Epoch: r.Epoch}
		t.phase = retireRaise
		t.retry = retry{}
	}
}

// mayBeDead reports whether a heartbeat may be that of a process which has died: it is not this member's own.
func (c *Core) mayBeDead(r *driver.Record) bool {
	return r.Holder.ID != c.cfg.ID && r.Duration <= maxDuration
}

// inUse reports whether a register must be kept: somebody holds it, or it carries what is to outlive every term.
func inUse(r *driver.Record) bool {
	return !r.Vacant() || r.Paused || len(r.Data) > 0 || exhausted(r.Epoch)
}
