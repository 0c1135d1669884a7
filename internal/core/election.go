package core

import (
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

const (
	conflictWait = 20 * time.Millisecond // after somebody else was first
	echoWait     = 20 * time.Millisecond // after a claim, until a notification about it is no longer taken for its own
	unreadable   = 3                     // how many failures in a row are reported, if the store answers otherwise
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
	forgotten driver.Identity // the holder whose joining the store has forgotten
	lastHeld  driver.Record   // who held it last, and since when
	heldAt    Time            // when the last request was sent that showed it held; 0 if none did
	exhausted bool            // its epoch is one that no term can follow, which was reported

	open       bool            // it was judged free
	openSince  Time            // when that began
	holdBack   Time            // not to be claimed before, so that others have a chance
	standBack  Time            // the members are not listed again before: one of them is better
	loose      bool            // it is free, or was never judged
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

// elect returns an election, new if need be.
func (c *Core) elect(name string) *election {
	if i, ok := c.names[name]; ok {
		return c.elections.all[i]
	}
	e := &election{name: name}
	i := c.elections.add(e)
	if c.all == int(i) {
		c.all++ // it is queued by itself
	}
	e.init(makeRef(electionKind, i))
	c.names[name] = i
	c.live++
	c.judged(e, true) // for all we know
	c.enqueue(e.ref)
	return e
}

// campaignIn makes the member a candidate.
func (c *Core) campaignIn(name string) {
	e := c.elect(name)
	if e.wanted || c.closing {
		return
	}
	e.wanted = true
	c.wanted++
	c.show(e)
	c.attendable(e)
	c.enqueue(e.ref)
	c.enqueue(c.member.ref)
	c.enqueue(c.floor.ref)
}

// withdraw ends a candidacy.
func (c *Core) withdraw(name string) {
	i, ok := c.names[name]
	if !ok {
		c.emit(Withdrawn{name})
		return
	}
	e := c.elections.all[i]
	c.unwant(e)
	c.enqueue(e.ref)
	if e.term.state == noTerm {
		c.emit(Withdrawn{name})
		return
	}

	e.withdrawn = true
	if e.term.state == leading {
		c.end(e, Shutdown, "")
	}
}

func (c *Core) unwant(e *election) {
	if e.wanted {
		e.wanted = false
		c.wanted--
		c.attendable(e)
	}
}

func (c *Core) unwatch(name string) {
	if i, ok := c.names[name]; ok && c.elections.all[i].watchers > 0 {
		c.elections.all[i].watchers--
		c.enqueue(c.elections.all[i].ref)
	}
}

// dropElection forgets an election.
func (c *Core) dropElection(e *election) {
	for len(e.asks) > 0 {
		c.askDone(e, Unanswered)
	}

	c.unwant(e)
	e.seen = false
	e.rec = driver.Record{}
	c.attach(e)
	c.judged(e, false)
	c.unschedule(&e.entity)
	c.elections.drop(e.index())
	delete(c.names, e.name)
	c.noteDropped(e.name, e.heldAt)
	c.live--
	if c.closing && c.resting() {
		c.enqueue(c.member.ref)
	}
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

// notice takes in a notification (rule 12: it only shortens a wait, and proves nothing).
func (c *Core) notice(r driver.Record) {
	if r.Name == "" {
		c.refresh++
		c.enqueueAll()
		c.sweepSoon()
		return
	}

	if strings.HasPrefix(r.Name, driver.MemberPrefix) {
		c.memberNotice(r.Name)
	}
	if i, ok := c.sighted[r.Name]; ok && strings.HasPrefix(r.Name, driver.MemberPrefix) {
		s := c.sights.all[i]
		s.again = true
		c.enqueue(s.ref)
		return
	}

	i, ok := c.names[r.Name]
	if !ok {
		return
	}

	e := c.elections.all[i]
	switch {
	case c.claimOnNotice(e, &r):
	case e.seen && r.Rev != "" && r.Rev == e.rec.Rev:
	case c.claimedByOther(e, &r):
	case e.term.state == noTerm:
		c.decided(12, e.name, "a notification proves nothing: read the register")
		e.stale = true
		e.call.old = true
		c.enqueue(e.ref)
	default: // one about this member's own claim is given time to pass
		c.decided(12, e.name, "a notification proves nothing: read the register")
		e.check = max(c.now, e.received.Add(echoWait), 1)
		c.enqueue(e.ref)
	}
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
