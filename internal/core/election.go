package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

const (
	conflictWait = 20 * time.Millisecond // after somebody else was first
	echoWait     = 20 * time.Millisecond // after a claim, until a notification about it is no longer taken for its own
)

// election is one election as this member sees it.
type election struct {
	entity
	name      string
	wanted    bool // this member campaigns
	watchers  int
	withdrawn bool // somebody waits for the end of the term, whether or not this member campaigns again

	rec      driver.Record // as last received
	seen     bool          // it has been received at all
	received Time          // when this revision was first received
	after    uint64        // the last request before that: later reads of the heartbeat register prove something
	stale    bool          // it has changed since, for all we know
	fresh    uint64        // the core's refresh when it was last read
	released bool          // it is what this member's release has written
	own      watch         // the record as its own heartbeat, if it has a lease of its own
	via      string        // the sight that it is attached to; empty for none
	dep      int           // its place there
	waits    bool          // for a read of that sight
	retry    retry         // after it could not be read
	hold     Time          // not to be claimed before: somebody else was first
	pollAt   Time          // when it is read without a notification
	quiet    int           // how often in a row that has shown nothing new
	check    Time          // when a record that it holds, or is to take over, is read; 0 if it is not

	barred    Time            // not to be claimed before (rule 5)
	barredFor uint64          // the highest epoch that the store has gone back behind
	vanished  bool            // it has no register any more, and the floor must be read to tell why
	shown     uint64          // the highest epoch of any answer since the record was received, its own included
	sank      bool            // an answer that may be old has shown less than the record that was received before it
	forgotten driver.Identity // the holder whose joining the store has forgotten
	lastHeld  holding         // who held it last, and since when
	heldAt    Time            // when the last request was sent that showed it held; 0 if none did
	exhausted bool            // its epoch is one that no term can follow, which was reported

	open       bool            // it was judged free
	openSince  Time            // when that began
	holdBack   Time            // not to be claimed before, so that others have a chance
	betterAt   Time            // when a list has shown a better candidate; 0 if none did
	bestAt     Time            // when a list has shown that there is none; 0 if none did
	standBack  Time            // the members are not listed again before: one of them is better
	loose      bool            // it is free, or was never judged
	share      bool            // it is claimed as this member's share of many free ones
	claimed    bool            // it was vacant and has changed since: it is read at the next poll
	foundHeld  bool            // it was held when it was first received, and its holder had not left
	seenHeld   bool            // the heartbeat register of a holder was seen to name it
	seenLed    bool            // its holder was seen to send heartbeats, or was this member
	claims     []claim         // sent, and maybe applied
	unreleased driver.Identity // of the last term with a lease of its own, if the store did not take the release
	fencedRow  int             // terms in a row that ended because a fence refused them
	reported   uint64          // the epoch of the last own term whose end was reported

	term    term
	beat    beat  // of a term with a lease of its own
	doom    Cause // the member's heartbeat was lost: the term is to end for this
	heldPos int   // its place in the core's held
	vac     vacating
	saves   []Save
	saving  bool // the outcome of the first of them is not plain: the record is to be read
	saveRev string
	saveErr error // what the store said to it
	settled bool  // the record that is taken in was read after that
	clash   bool  // it was a conflict
	asks    []ask
	led     spot // in the core's led
	rival   spot // in the core's rivals
	tidied  bool // while closing: it was read once more
}

// holding is what is kept of a record that somebody held. A whole record would take three times the memory.
type holding struct {
	Holder driver.Identity
	Epoch  uint64
	Since  time.Time
}

// term is one unbroken holding of an election by this member.
type term struct {
	state   termState
	epoch   uint64
	who     driver.Identity
	began   Time
	stuckAt Time // when the duty should have stopped
	stuck   bool // that was reported
	cause   Cause
	detail  string // more about the cause, for people to read
	next    string // the successor to name
	asked   uint64 // the request that ended it; 0 if none did
}

// termState is how far a term has come.
type termState uint8

const (
	noTerm    termState = iota
	leading             // the duty runs
	stopping            // the duty has to stop
	releasing           // the duty has stopped; the election is released
)

func (e *election) index() uint32 { return e.ref.index() }

// advanceElection is where candidate, leader and former leader alternate. A candidate becomes a leader when the record
// shows its own claim; a leader becomes a former leader by end; a former leader becomes a candidate again by finish.
func (c *Core) advanceElection(e *election) {
	c.expireAsks(e)
	switch e.term.state {
	case noTerm:
		c.campaign(e)
	case leading:
		c.lead(e)
	case stopping:
		c.stop(e)
	case releasing:
		c.release(e)
	}
}

// electionAnswered takes in what became of a request about an election's register.
func (c *Core) electionAnswered(e *election, done call, o Outcome, r driver.Record) {
	if o == NotFound {
		r = driver.Record{Name: e.name}
	}

	known := o == Done || o == NotFound
	keeps := e.term.state != noTerm && c.cfg.OwnLease && !e.beat.ended
	e.settled = known && done.kind == readCall

	switch {
	case e.vac.on:
		c.vacateAnswered(e, done, o, &r)
	case done.kind == claimCall:
		c.claimAnswered(e, done, o, &r)
	case done.kind == saveCall:
		c.saveAnswered(e, done, o, &r)
	case done.kind == editCall:
		c.editAnswered(e, done, o, &r)
	case keeps && (done.kind == renewCall || e.beat.check):
		c.renewAnswered(e, done, o, &r)
	case known:
		c.receive(e, &r, done)
	case done.kind == readCall:
		c.unread(&e.retry, e.name, done, o)
		e.stale = true
		if e.saving && len(e.saves) > 0 { // nobody waits for a store that does not answer
			c.saved(e, OutcomeUnknown)
		}
	}

	if known && done.kind == readCall {
		c.settleSave(e, &r)
	}
}

// receive takes in a record that the store has shown of an election, by the answer to a request. Every record goes
// through here: it notices a store that has gone back, a new leader, and the end of a term.
func (c *Core) receive(e *election, r *driver.Record, done call) {
	c.learn(e.name, r.Epoch)
	c.forgetKnown(e.name)
	c.see(&e.own, r, done) // every one, also if nobody else holds a lease of its own by it
	highest := c.memory[e.name]
	if r.Epoch < highest && done.old {
		e.stale = true // it was sent before the higher epoch was learned, so it may be older
		e.sank = e.sank || e.seen && r.Epoch < e.rec.Epoch
		e.shown = max(e.shown, r.Epoch)
		return
	}

	removed, known := c.retired(e, r)
	if e.vanished = !known; e.vanished {
		e.stale = true // it is read again once the floor is known
		c.needFloor(&e.entity)
		return
	}

	if !removed && c.wentBack(e, r, highest) {
		c.reportBack(e, r, highest)
	}

	c.reportExhausted(e, r)

	previous := e.rec
	first := !e.seen
	shown := e.shown
	c.keepRecord(e, r, done)
	if removed && e.term.state != noTerm { // it is judged once the term is over
		e.shown = max(e.shown, shown)
	}

	if c.cfg.Explain && done.kind == readCall && e.term.state == noTerm && e.claimIndex() >= 0 {
		c.decided(6, e.name, "the record shows this member's own claim, not released yet: adopt it")
	}

	c.noteLeader(e, &previous, first)
	c.checkTerm(e)
	c.attach(e)
}

// keepRecord makes a record the one that is known of an election, and forgets claims that it rules out.
func (c *Core) keepRecord(e *election, r *driver.Record, done call) {
	if !r.Vacant() {
		e.heldAt = done.sent
	}

	if !r.Vacant() && r.Duration <= maxDuration { // else somebody holds it who does not use Regent
		e.lastHeld = holding{Holder: r.Holder, Epoch: r.Epoch, Since: r.Since}
	}

	previous := e.rec
	if !e.seen || r.Rev != previous.Rev {
		e.received = c.now
		if !e.seen || r.Holder != previous.Holder { // an edit names the same incarnation
			e.after = c.seq
		}

		e.standBack = 0
	}

	if !e.seen {
		e.foundHeld = !r.Vacant()
	}

	if notable(r, &previous) && (r.Vacant() || r.Holder != previous.Holder) {
		c.noteShared(e, r)
		e.open = false // a reservation counts from when the record that makes it was first found free
	}

	e.rec = *r
	e.seen = true
	e.released = done.kind == vacateCall
	e.shown = r.Epoch
	e.sank = false
	e.stale = done.old
	e.claimed = false
	e.retry = retry{}
	c.dropClaims(e)

	e.check = 0
	if e.wanted && (r.Next == c.cfg.ID || c.eager(r)) && c.followed(e) {
		e.check = c.now.Add(c.cfg.HeartbeatInterval / 3) // the others hold back no longer than one heartbeat interval
	}
}

// noteLeader emits what watchers and events are to show of an election.
func (c *Core) noteLeader(e *election, previous *driver.Record, first bool) {
	r := &e.rec
	moved := notable(r, previous)
	if moved || first {
		c.emit(Changed{*r})
	}

	if moved {
		c.moved(e)
	}

	if r.Vacant() || r.Holder.ID == c.cfg.ID || r.Holder == previous.Holder && r.Epoch == previous.Epoch {
		return
	}

	e.holdBack = 0 // what it held back for has come
	was := c.termBefore(r)
	if previous.Holder.ID != "" {
		was.leader = previous.Holder.ID
	}

	c.emit(Event{
		Kind: EventLeaderChanged, Election: e.name, Epoch: r.Epoch, Holder: r.Holder, Previous: was.leader,
		PreviousReason: was.reason,
	})
}

// mine reports whether a holder is this member: in its present incarnation, in a claim that it made, or in a term
// that has ended and could not be released.
func (c *Core) mine(e *election, who driver.Identity) bool {
	if who.ID != c.cfg.ID {
		return false
	}
	return c.member.is(who) || e.unreleased == who || e.claimedAs(who)
}

// followed reports whether somebody else seems to hold the election, so that its heartbeat matters.
func (c *Core) followed(e *election) bool {
	return e.seen && e.term.state == noTerm && !e.rec.Vacant() && !c.mine(e, e.rec.Holder)
}
