package core

import (
	"fmt"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the epoch floor of rule 13. Registers that nobody uses are removed from the store, and with the
// register of an election goes the record of its last epoch. So there is one register for the whole store that is
// never removed: no claim in any election gets an epoch up to the one that it shows.
//
// A floor that was read counts for a while, and no longer: the floor is raised before the register of an election is
// removed, and has stood for longer than that while by then. So a claim whose floor still counts when the claim is
// known to be applied is above every epoch of every register that was removed before, whenever the register itself
// was read. It costs one read in each half of that while, and no claim waits for it.

// floor is the epoch floor as this member knows it.
type floor struct {
	entity
	rec     driver.Record // as last received
	seen    bool          // it has been received at all
	again   bool          // the last write is not known to be applied: it is to be read
	epoch   uint64        // the highest ever seen: the store may lose writes
	read    Time          // when the newest read of it was sent
	raise   uint64        // what it is to be raised to
	retry   retry         // after it could not be read
	prune   int           // how many of the elections that were dropped are still to be checked
	losses  uint64        // how often the store was found to have lost it
	waiting []ref         // elections and retirements for which a newer read, or a higher floor, makes a difference
}

// floorLife is how long a floor counts, from when its read was sent. Clocks may be off, and whoever removes a register
// waits for all of Rest (rule 13).
func (c *Core) floorLife() time.Duration { return c.cfg.Rest - c.cfg.Rest/10 }

// floorCounts reports whether what is claimed under a floor that was read at that time may still be believed (rule 13:
// a claim counts from when the read of the floor was sent, not from when it was sent itself).
func (c *Core) floorCounts(read Time) bool {
	return c.cfg.Rest == 0 || c.now < read.Add(c.floorLife())
}

// floorFresh reports whether the floor is known well enough for a claim that is sent now, and takes a while.
func (c *Core) floorFresh() bool {
	claim := min(c.timeout, c.floorLife()/4) // where leases are long, so are timeouts
	return c.cfg.Rest == 0 || c.floor.seen && c.now.Add(claim) < c.floor.read.Add(c.floorLife())
}

// refreshFloorAt is when the floor is read while nobody waits for it, so that no claim has to.
func (c *Core) refreshFloorAt() Time { return c.floor.read.Add(c.floorLife() / 2) }

// needFloor has an election or a retirement advanced once the floor has been read.
func (c *Core) needFloor(e *entity) {
	if !e.awaits {
		e.awaits = true
		c.floor.waiting = append(c.floor.waiting, e.ref)
	}

	c.enqueue(c.floor.ref)
}

// raiseFloor has the floor raised, and whoever needs that advanced.
func (c *Core) raiseFloor(epoch uint64, e *entity) {
	c.floor.raise = max(c.floor.raise, epoch)
	c.needFloor(e)
}

// advanceFloor reads the floor when its time has come, and raises it when a retirement needs that.
func (c *Core) advanceFloor() {
	f := &c.floor
	if c.cfg.Rest == 0 || c.closing {
		return
	}

	c.pruneMemory()
	if f.busy() {
		return
	}

	needed := c.wanted > 0 && !c.spares() || len(f.waiting) > 0 || f.again
	old := !f.seen || f.again || !c.floorFresh() || c.now >= c.refreshFloorAt()

	switch {
	case !f.retry.passed(c.now):
		f.wake(f.retry.at)
	case needed && old:
		c.read(&f.entity, driver.FloorRegister)
	case f.seen && f.raise > f.rec.Epoch:
		f.again = true
		c.swap(&f.entity, floorCall, driver.Record{
			Name: driver.FloorRegister, Rev: f.rec.Rev, Epoch: f.raise, Nonce: c.src.Nonce(),
		})
	case needed:
		f.wake(c.refreshFloorAt())
	}
}

// floorAnswered takes in what became of a read of the floor, or of a write.
func (c *Core) floorAnswered(done call, o Outcome, r driver.Record) {
	f := &c.floor
	switch {
	case o == NotFound:
		r = driver.Record{Name: driver.FloorRegister}
	case o != Done && done.kind == floorCall: // it is read next
		if o != Conflict {
			f.retry.at = c.now.Add(c.failureWait())
		}

		return
	case o != Done:
		c.unread(&f.retry, driver.FloorRegister, done, o)
		return
	}

	f.rec = r
	f.seen = true
	f.again = false
	f.retry = retry{}
	if done.kind == readCall {
		f.read = done.sent
	}

	if r.Epoch < f.epoch { // the store has lost writes: it gets its floor back
		f.losses++
		if f.raise < f.epoch {
			c.emit(Event{Kind: EventRegressed, Register: driver.FloorRegister, Epoch: f.epoch, Error: fmt.Sprintf(
				"%s shows epoch %d, but epoch %d was seen before: "+
					"the store has lost writes; this member raises it again",
				driver.FloorRegister, r.Epoch, f.epoch)})
		}

		f.raise = max(f.raise, f.epoch)
	}

	c.learnFloor(r.Epoch)

	waiting := f.waiting
	f.waiting = nil
	for _, w := range waiting {
		if c.exists(w) && c.entity(w).awaits {
			c.entity(w).awaits = false
			c.enqueue(w)
		}
	}
}

// learnFloor keeps the highest floor ever seen, unless no term can follow it.
func (c *Core) learnFloor(epoch uint64) {
	if epoch > c.floor.epoch && !exhausted(epoch) {
		c.floor.epoch = epoch
		c.floor.prune = len(c.dropped)
		c.enqueue(c.floor.ref)
	}
}

// retired reports whether an election that has no register, although there was one, had it removed. Otherwise the
// store has lost it (rule 5). The second result is false while the floor must be read to know.
func (c *Core) retired(e *election, r *driver.Record) (removed, known bool) {
	switch {
	case c.cfg.Rest == 0 || r.Rev != "" || c.memory[e.name] == 0:
		return false, true
	case c.memory[e.name] <= c.floor.epoch && !c.heldLately(e):
		return true, true
	case e.term.state == stopping || e.term.state == releasing:
		return true, true // nobody relies on it: it is read again, and judged, once the term is over
	}

	return false, c.floorFresh() || e.term.state == leading
}

// heldLately reports whether an election was seen to be held so short a time ago that its register cannot have been
// removed since: it would have had to stay as it is, vacant, for all of Rest (rule 13). So the store has lost it.
func (c *Core) heldLately(e *election) bool {
	held := max(e.heldAt, c.droppedAt[e.name].held)
	return held != 0 && c.now < held.Add(c.floorLife())
}

// dropTimes is what is kept of an election that was dropped: when that was, when it was last seen to be held, and
// whether it is to be forgotten one day.
type dropTimes struct {
	at     Time
	held   Time
	queued bool
}

// noteDropped notes that nobody is interested in an election any more. What is known of its epochs is kept (rule 5)
// until the floor covers them.
func (c *Core) noteDropped(name string, heldAt Time) {
	if c.cfg.Rest == 0 || c.memory[name] == 0 {
		return
	}
	last := c.droppedAt[name]
	if !last.queued {
		c.dropped = append(c.dropped, name)
	}
	if c.droppedAt == nil {
		c.droppedAt = map[string]dropTimes{}
	}
	c.droppedAt[name] = dropTimes{at: c.now, held: max(heldAt, last.held), queued: true}
}

// forgetRetired forgets the epochs of an election whose register was removed: the floor covers them, up to the one of
// the record that was removed. A later one was lost by the store, and whoever held it may hold it still (rule 5).
func (c *Core) forgetRetired(name string, epoch uint64) {
	if _, used := c.names[name]; !used && c.memory[name] > 0 && c.memory[name] <= epoch {
		delete(c.memory, name)
		c.emit(Forgotten{name})
	}
}

// pruneMemory forgets the epochs of elections that the floor has come up to, a portion of them at a time. Whoever was
// seen to hold one of them was seen more than a lease ago, so that there is no wait left to keep after a rollback
// (rule 5).
func (c *Core) pruneMemory() {
	f := &c.floor
	for n := 0; n < portion && f.prune > 0; n++ {
		f.prune--
		name := c.dropped[0]
		c.dropped = c.dropped[1:]

		_, used := c.names[name]
		rested := c.droppedAt[name].at.Add(max(c.cfg.Rest, c.cfg.LeaseDuration))
		switch {
		case used: // it is dropped again
			c.droppedAt[name] = dropTimes{held: c.droppedAt[name].held}
		case c.memory[name] > f.epoch || c.now < rested:
			c.dropped = append(c.dropped, name)
		default:
			delete(c.memory, name)
			delete(c.droppedAt, name)
			c.emit(Forgotten{name})
		}
	}

	if f.prune > 0 {
		f.wake(c.now)
	}
}
