package core

import "github.com/regentd/regent/driver"

// This file holds what makes a step cost no more than what has changed: entities that are advanced only when something
// happened to them or their time has come, and the requests that they wait for.

// ref names an entity: its kind in the upper three bits, its index below.
type ref uint32

const (
	memberKind ref = iota << 29
	electionKind
	sightKind
	floorKind
	retireKind
	rosterKind
)

const kindMask ref = 7 << 29

func makeRef(kind ref, index uint32) ref { return kind | ref(index) }
func (r ref) kind() ref                  { return r & kindMask }
func (r ref) index() uint32              { return uint32(r &^ kindMask) }

// entity is what the member, an election and a watched heartbeat register have in common.
type entity struct {
	ref    ref
	call   call
	due    Time // when it is to be advanced; Never if only an input can change it
	next   Time // while it is advanced: what due will be
	place  int32
	queued bool
	awaits bool // the floor
	lists  bool // it waits for a list of the members
}

func (e *entity) init(r ref) {
	e.ref = r
	e.due = Never
	e.next = Never
	e.place = -1
}

// wake makes the entity be advanced at that time, at the latest.
func (e *entity) wake(at Time) { e.next = min(e.next, at) }

// call is the request that an entity waits for. An entity has at most one, so that answers never overtake each other.
type call struct {
	id    uint64
	kind  callKind
	sent  Time
	until Time   // from then on the outcome is unknown, and an answer is ignored
	nonce uint64 // what the swap writes
	rev   string // the revision that the swap expects
	old   bool   // what it shows may be older than what is known: read again
	gone  bool   // the store proves that the process which wrote the record is dead
	error string // what the store said, if it failed
	err   error  // likewise

	witness bool // the store was asked for such a proof
}

// callKind is what a request is for.
type callKind uint8

const (
	readCall   callKind = 1 + iota // a read, whatever for
	claimCall                      // an election is claimed
	renewCall                      // a heartbeat, the join included
	vacateCall                     // an election is released, or the member leaves
	saveCall                       // a checkpoint is written
	editCall                       // something is asked of a leader
	pokeCall                       // the leader's heartbeat register is touched, so that the leader reads
	revokeCall                     // an expired heartbeat is made vacant
	floorCall                      // the floor is raised
	namedCall                      // whether an election names a member register
	removeCall                     // a register is removed
	listCall                       // the member registers are listed
)

// order is the place of the request among all of this core's.
func (c *call) order() uint64 { return c.id >> 32 }

// faultText says what the store has said, or has not.
func (c *call) faultText(o Outcome) string {
	switch {
	case c.error != "":
		return c.error
	case o == Conflict:
		return driver.ErrConflict.Error()
	case o == NotSent:
		return "the request was not sent"
	}

	return "the store has not answered in time"
}

// write reports whether the request changes anything.
func (c *call) write() bool { return c.id != 0 && c.kind != readCall }

// read asks for the record of a register.
func (c *Core) read(e *entity, name string) {
	c.send(e, readCall, Get, driver.Record{Name: name})
}

// others reports whether somebody else may hold the register of an entity, so that it matters whether that one is dead.
func (c *Core) others(r ref) bool {
	switch r.kind() {
	case memberKind:
		return c.member.phase <= memberWaiting
	case electionKind:
		return c.elections.all[r.index()].term.state == noTerm
	}

	return true
}

// swap asks to write a record over the revision that it carries (rule 4: every write is conditional).
func (c *Core) swap(e *entity, kind callKind, r driver.Record) { c.send(e, kind, Swap, r) }

func (c *Core) send(e *entity, kind callKind, verb Verb, r driver.Record) {
	c.seq++
	id := c.seq<<32 | uint64(e.ref)
	witness := verb == Get && c.others(e.ref)
	e.call = call{
		id: id, kind: kind, sent: c.now, until: c.now.Add(c.timeout), nonce: r.Nonce, rev: r.Rev, witness: witness,
	}
	e.wake(e.call.until)
	c.emit(Send{ID: id, Verb: verb, Record: r, Timeout: c.timeout, Witness: witness, Asked: kind == saveCall})
}

// busy reports whether the entity waits for a request, and has it woken when that is over.
func (e *entity) busy() bool {
	if e.call.id == 0 {
		return false
	}

	e.wake(e.call.until)
	return true
}

// dropRead forgets a read that is under way: something more urgent is to be done, and the read can be made again.
func (e *entity) dropRead() {
	if e.call.id != 0 && e.call.kind == readCall {
		e.call = call{}
	}
}

// answer takes in what became of a request, unless it is not waited for any more.
func (c *Core) answer(a Answer) {
	r := ref(a.ID & (1<<32 - 1))
	if !c.exists(r) || c.entity(r).call.id != a.ID {
		if a.Outcome == Done {
			c.late(a.ID>>32, &a.Record)
		}

		return
	}

	if a.Outcome == Done || a.Outcome == Conflict || a.Outcome == NotFound {
		c.answered = c.now
	}

	c.entity(r).call.gone = a.Gone
	c.entity(r).call.error = a.Error
	c.entity(r).call.err = a.Err
	if r.kind() == rosterKind {
		c.roster.coming = a.Records
	}

	c.settle(r, a.Outcome, a.Record)
	if c.exists(r) {
		c.enqueue(r)
	}
}

// settle ends the request of an entity with its outcome.
func (c *Core) settle(r ref, o Outcome, rec driver.Record) {
	e := c.entity(r)
	done := e.call
	e.call = call{}
	if done.kind != readCall && (o == Done || o == Conflict) {
		c.passed(r, done.rev)
	}

	switch r.kind() {
	case memberKind:
		c.memberAnswered(done, o, rec)
	case electionKind:
		c.electionAnswered(c.elections.all[r.index()], done, o, rec)
	case sightKind:
		c.sightAnswered(c.sights.all[r.index()], done, o, rec)
	case floorKind:
		c.floorAnswered(done, o, rec)
	case retireKind:
		c.retirementAnswered(c.retirements.all[r.index()], done, o, &rec)
	case rosterKind:
		c.listAnswered(done, o)
	}
}

func (c *Core) exists(r ref) bool {
	switch r.kind() {
	case memberKind, floorKind, rosterKind:
		return true
	case electionKind:
		return c.elections.get(r.index()) != nil
	case sightKind:
		return c.sights.get(r.index()) != nil
	case retireKind:
		return c.retirements.get(r.index()) != nil
	}

	return false
}

func (c *Core) entity(r ref) *entity {
	switch r.kind() {
	case electionKind:
		return &c.elections.all[r.index()].entity
	case sightKind:
		return &c.sights.all[r.index()].entity
	case floorKind:
		return &c.floor.entity
	case retireKind:
		return &c.retirements.all[r.index()].entity
	case rosterKind:
		return &c.roster.entity
	}

	return &c.member.entity
}

// enqueue has an entity advanced in this step, or in the next one if this one has done its portion.
func (c *Core) enqueue(r ref) {
	e := c.entity(r)
	if !e.queued {
		e.queued = true
		c.queue = append(c.queue, r)
	}
}

// enqueueAll has every election advanced, in portions: at the end, after a reconnection, and when the member may lead.
func (c *Core) enqueueAll() { c.all = 0 }

// pop returns the next entity to advance: queued, or due.
func (c *Core) pop() (ref, bool) {
	for len(c.queue) > 0 {
		r := c.queue[0]
		c.queue = c.queue[1:]
		if len(c.queue) == 0 {
			c.queue = nil
		}

		if c.exists(r) && c.entity(r).queued {
			c.entity(r).queued = false
			return r, true
		}
	}

	for c.all < len(c.elections.all) {
		c.all++
		if e := c.elections.all[c.all-1]; e != nil {
			return e.ref, true
		}
	}

	if len(c.due) > 0 && c.entity(c.due[0]).due <= c.now {
		return c.due[0], true
	}

	return 0, false
}
