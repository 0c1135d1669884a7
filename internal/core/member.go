package core

import (
	"fmt"
	"slices"

	"github.com/regentd/regent/driver"
)

// member is this member's own register: how it joins, keeps its heartbeat up, loses it, and leaves. With leases of
// their own, elections do not depend on it.
type member struct {
	entity
	phase  memberPhase
	rec    driver.Record // the register as last seen
	beat   beat
	other  watch // the incarnation that has the register while this one waits for it
	alive  bool  // it was seen to heartbeat
	failed int   // attempts to join, in a row
	retry  Time  // not to be read before
	vac    vacating
	fresh  []uint32 // elections won since the last heartbeat was sent
	claims []uint32 // elections won before it: read again once a heartbeat has been applied
}

// memberPhase is where a member stands. The order is that of a life, which may begin again after memberDropped.
type memberPhase uint8

const (
	memberOut     memberPhase = iota // it has no incarnation
	memberWaiting                    // another incarnation has its register
	memberJoining                    // its first heartbeat is under way
	memberIn                         // it has joined
	memberDropped                    // its heartbeat was lost: its duties stop
	memberLeaving                    // its register is made vacant
	memberGone
)

// lives reports whether the member has joined and its deadline has not passed.
func (m *member) lives(now Time) bool { return m.phase == memberIn && m.beat.lives(now) }

// is reports whether an identity is the member's present incarnation.
func (m *member) is(who driver.Identity) bool { return m.phase == memberIn && m.beat.who == who }

func (c *Core) advanceMember() {
	m := &c.member
	switch m.phase {
	case memberOut:
		c.joinNow()
	case memberWaiting:
		c.awaitOther()
	case memberJoining:
		c.awaitJoin()
	case memberIn:
		c.keepMember()
	case memberDropped:
		c.awaitDuties()
	case memberLeaving:
		c.leave()
	}

	c.sweep()
}

// keepMember sends the heartbeat when it is due, and ends everything before the deadline.
func (c *Core) keepMember() {
	m := &c.member
	b := &m.beat
	if c.now >= b.guardAt() { // rule 9: this does not wait for a request that is under way
		c.decided(7, b.register, "the deadline is near and no heartbeat is confirmed: all terms end before it")
		b.why = unconfirmed
		c.dropMember(Partitioned)
		return
	}

	m.wake(b.guardAt())
	if c.closing && b.held == 0 && !b.stopped {
		c.lifeline(b, true, false)
	}

	switch {
	case c.closing && c.resting():
		c.leaveNow()
	case m.busy():
	case b.check:
		c.read(&m.entity, m.rec.Name)
	case c.now < b.due:
		m.wake(b.due)
	default:
		m.claims = append(m.claims, m.fresh...)
		m.fresh = nil
		next := m.rec
		next.Data = c.publishedInfo()
		// the first heartbeat alone says how the incarnation before ended, so that the others stay small
		next.Past = nil
		c.swap(&m.entity, renewCall, c.attempt(b, next))
	}
}

// WritesInfo reports whether a step at now may write what the member publishes about itself: a Publish before that step
// is in time.
func (c *Core) WritesInfo(now Time) bool {
	m := &c.member
	return m.phase != memberIn || m.beat.check || now >= m.beat.due
}

// dropMember ends an incarnation, and all terms that depend on it.
func (c *Core) dropMember(cause Cause) {
	m := &c.member
	if m.call.id != 0 {
		c.decided(9, m.rec.Name, "the heartbeat that is under way is not waited for")
	}

	m.call = call{} // rule 9: the next join does not wait for it
	c.noteEnd(&m.beat, cause)
	c.endBeat(&m.beat, cause)
	m.phase = memberDropped
	c.emit(Event{
		Kind: EventDropped, Holder: m.beat.who, Reason: string(cause), Error: string(cause) + ": " + m.beat.why,
	})
	for _, i := range c.held {
		c.elections.all[i].doom = cause
		c.enqueue(c.elections.all[i].ref)
	}

	c.enqueue(m.ref)
}

// awaitDuties joins again, as a new incarnation, once every duty of the old one has stopped: joining frees its
// elections.
func (c *Core) awaitDuties() {
	m := &c.member
	if m.beat.held > 0 {
		return
	}
	c.hasEnded(m.beat.who)
	c.decided(7, m.beat.register, "all duties have stopped: join again, as a new incarnation")
	c.lifeline(&m.beat, true, false)
	m.phase = memberOut
	m.retry = 0
	c.enqueue(m.ref)
}

// hasEnded remembers an incarnation that this process has ended, so that its next one may join over it.
func (c *Core) hasEnded(who driver.Identity) {
	if !slices.Contains(c.endings, who) {
		c.endings = append(slices.Clip(c.endings[max(0, len(c.endings)-63):]), who)
	}
}

// memberAnswered takes in what became of a request about the member's own register.
func (c *Core) memberAnswered(done call, o Outcome, r driver.Record) {
	m := &c.member
	if o == NotFound {
		r = driver.Record{Name: m.rec.Name}
	}

	known := o == Done || o == NotFound
	if known {
		c.shareOwn(&r, done)
	}

	switch m.phase {
	case memberOut:
		if known {
			c.joinOn(r, done)
		} else {
			c.stats.RenewFailures++
			c.joinFailed()
		}
	case memberWaiting:
		c.otherAnswered(done, known, r)
	case memberJoining:
		c.joinAnswered(done, o, r)
	case memberIn:
		c.heartbeatAnswered(done, o, r)
	case memberLeaving:
		c.leaveAnswered(done, o, r)
	}
}

// heartbeatAnswered takes in what became of a heartbeat, by its own answer or by the read after it.
func (c *Core) heartbeatAnswered(done call, o Outcome, r driver.Record) {
	m := &c.member
	b := &m.beat
	if o != Done && done.kind == renewCall {
		c.attempted(b, o, done)
		return
	}

	var f fate
	switch o {
	case Done:
		plain := done.kind == renewCall
		f = c.shown(b, &r)
		if f != beatLost {
			m.rec = r
		}

		if !plain && f != beatLost {
			c.poked() // whoever edited the register waits for an effect
		}
	case NotFound:
		b.why = fmt.Sprintf(forgotText, m.rec.Name)
		f = beatLost
	default:
		b.unread(o, done)
		f = c.tryFailed(b)
	}

	switch f {
	case beatApplied:
		c.checkClaims()
	case beatLost:
		c.dropMember(Lost)
	case beatGivenUp:
		c.dropMember(Partitioned)
	}
}

// leaveNow makes the register vacant, if it shows this incarnation. The elections have been released before (rule
// 3: once the leave is sent, the incarnation is never believed again).
func (c *Core) leaveNow() {
	m := &c.member
	if !c.resting() {
		return
	}

	if m.phase != memberIn {
		left := c.neverWrote()
		m.phase = memberGone
		c.closed = true
		c.emit(Closed{left})
		return
	}

	m.dropRead()
	if m.busy() {
		return // bounded by its timeout: the leave is conditional on what it wrote
	}

	c.noteEnd(&m.beat, c.closeCause)
	c.endBeat(&m.beat, c.closeCause)
	c.hasEnded(m.beat.who)
	m.phase = memberLeaving
	m.vac = vacating{
		on: true, who: m.beat.who, epoch: m.rec.Epoch, reason: string(c.closeCause), until: c.now.Add(c.timeout),
	}
	c.leave()
}

// neverWrote reports whether this process, which is not joined, has never tried to write the member register, and no
// other process is known to have it. An incarnation that was tried and has ended may stand there until it expires.
func (c *Core) neverWrote() bool { return c.member.phase == memberOut && len(c.endings) == 0 }

// resting reports whether no election has anything left to do.
func (c *Core) resting() bool { return c.live == 0 }

// leave sends the next request of a leave.
func (c *Core) leave() {
	m := &c.member
	if m.busy() {
		return
	}

	if sent, kept := c.vacate(&m.entity, &m.vac, &m.rec); !sent {
		c.left(!kept, m.rec.Vacant())
	}
}

func (c *Core) leaveAnswered(done call, o Outcome, r driver.Record) {
	m := &c.member
	switch {
	case o == NotFound, o == Done && done.kind == vacateCall:
		c.left(true, true)
	case o == Done:
		m.rec = r
		m.vac.check = false
	case done.kind == readCall:
		c.left(false, false)
	}
}

// left ends everything. If the register may still show this incarnation, the reaper may release it yet. One that does
// not is vacant, or another process has it.
func (c *Core) left(gone, vacant bool) {
	m := &c.member
	if gone {
		c.lifeline(&m.beat, true, true)
	}

	m.phase = memberGone
	c.closed = true
	c.emit(Event{Kind: EventLeft, Holder: m.beat.who})
	c.emit(Closed{Left: gone && vacant})
}
