package core

import "github.com/regentd/regent/driver"

// This file is what the member, elections, sights, the roster, the floor and retirements have in common: a time at
// which they are due, and a request that they wait for.

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

func (r ref) kind() ref { return r & kindMask }

func (r ref) index() uint32 { return uint32(r &^ kindMask) }

// entity is what a core advances when it is due.
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
	skimCall                       // their revisions are listed
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
	c.emit(Send{
		ID: id, Verb: verb, Record: r, Timeout: c.timeout, Witness: witness, Asked: kind == saveCall,
		Urgent: kind == renewCall, Seek: c.seekOf(kind),
	})
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

// retry is when to read a register again that could not be read. One such register holds up nothing but the
// elections that depend on it.
type retry struct {
	failed   int  // how often in a row
	since    Time // the first of these
	at       Time // not before
	reported bool
}

func (r *retry) passed(now Time) bool { return now >= r.at }

// unreadable is how many failures in a row are reported, if the store answers otherwise.
const unreadable = 3

// unread notes that a register could not be read. It is read again after a while, which grows if the store answers
// otherwise.
func (c *Core) unread(r *retry, name string, done call, o Outcome) {
	answers := r.failed > 0 && c.answered >= r.since
	wait := c.failureWait()
	switch {
	case answers:
		wait = min(wait<<min(r.failed, 3), c.cfg.ElectionInterval)
	case c.answered < done.sent: // else it may be this register alone
		c.failed()
	}

	if r.failed == 0 {
		r.since = c.now
	}

	r.failed++
	r.at = c.now.Add(wait)
	if answers && r.failed >= unreadable && !r.reported {
		r.reported = true
		c.emit(Event{Kind: EventUnreadable, Register: name, Error: done.faultText(o)})
	}
}
