package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the holder's half of a lease: how long a heartbeat may be believed by the one who sends it, and what
// the holder does when it cannot know. watch.go is the observer's half.

// beat is a heartbeat register in the hands of the one who keeps it: the member's, or that of an election with a
// lease of its own.
type beat struct {
	register string
	who      driver.Identity
	every    time.Duration // from one heartbeat to the next
	trust    time.Duration // D of rule 1
	tries    []try         // the attempt that the register shows, and all that came after
	deadline Time          // 0 before the first heartbeat was applied
	ended    bool          // never believed again, whatever a read shows
	due      Time          // of the next heartbeat
	failed   int           // tries in a row
	check    bool          // the last outcome is not plain: the register is to be read
	conflict bool          // it was a conflict
	compare  string        // the revision that the last attempt expected
	held     int           // terms that depend on it, until their duties have stopped
	stopped  bool          // the reaper knows that all has stopped
	cycle    Time          // when the heartbeat was due that is under way, or will be next
	fault    string        // why the last attempt failed
	why      string        // why it has ended, for people to read
}

// try is one attempt to write a heartbeat.
type try struct {
	nonce uint64
	sent  Time
}

// lives compares the deadline, it does not read a flag (rule 8).
func (b *beat) lives(now Time) bool { return !b.ended && now < b.deadline }

// guardAt is when the terms that depend on the heartbeat end: before the deadline (rule 7).
func (b *beat) guardAt() Time { return b.deadline - Time(b.trust/100) }

// attempt returns the record of the next heartbeat, with a nonce of its own (rule 3: so that a later read shows which
// attempt arrived).
func (c *Core) attempt(b *beat, r driver.Record) driver.Record {
	r.Nonce = c.src.Nonce()
	r.Edits = 0
	b.tries = append(slices.Clip(b.tries), try{r.Nonce, c.now})
	b.compare = r.Rev
	b.check = false
	return r
}

// shows takes in what the register holds. If that is one of the attempts, the deadline counts from when that
// attempt was sent, however late the answer came (rule 1: deadline = sent + D). Anything else is the end of this
// heartbeat (rule 3: an unknown nonce counts as not held).
func (b *beat) shows(r *driver.Record) (newest, ours bool) {
	if b.ended || r.Holder != b.who {
		return false, false
	}

	k := slices.IndexFunc(b.tries, func(t try) bool { return t.nonce == r.Nonce })
	if k < 0 {
		return false, false
	}

	b.tries = b.tries[k:]
	b.deadline = b.tries[0].sent.Add(b.trust)
	return len(b.tries) == 1, true
}

// attempted notes the answer to a heartbeat that was not plainly applied: the register is read next.
func (c *Core) attempted(b *beat, o Outcome, done call) {
	b.check = true
	b.conflict = o == Conflict
	b.fault = "heartbeat: " + done.faultText(o)
	if b.conflict {
		c.decided(3, b.register, "the register has moved: read it")
	} else {
		c.decided(3, b.register, "the outcome of the heartbeat is not known: read the register")
	}
}

// unread notes that the read after a heartbeat has failed, too.
func (b *beat) unread(o Outcome, done call) { b.fault += "; and read: " + done.faultText(o) }

const (
	unconfirmed = "no heartbeat was confirmed in time"
	forgotText  = "the store no longer has %s (was it flushed or deleted?)"
)

// lostText says why a record is not that of a heartbeat any more.
func lostText(b *beat, r *driver.Record) string {
	if r.Holder != b.who {
		return fmt.Sprintf("%s now shows %s", b.register, r.Holder)
	}

	return b.register +
		" shows a heartbeat that this process did not send, or an older one (has the store lost writes?)"
}

// fate is what an answer means for a heartbeat.
type fate uint8

const (
	beatApplied fate = iota // the newest attempt is in the register
	beatAgain               // the register was edited by somebody else: send another at once
	beatFailed              // wait, and try again
	beatLost                // the register is not ours any more
	beatGivenUp             // too many tries have failed
)

// shown takes in a record that shows what became of the attempts, by the answer to a heartbeat or by a read after it.
func (c *Core) shown(b *beat, r *driver.Record) fate {
	before := b.deadline
	newest, ours := b.shows(r)
	if !ours {
		c.decided(3, b.register, "the register shows none of this incarnation's attempts: it is not held")
		b.why = lostText(b, r)
		return beatLost
	}

	asked := b.check
	b.check = false
	if newest {
		b.failed = 0
		if before != 0 && b.deadline != before {
			c.countBeat(b)
		}

		b.due = max(c.now, b.tries[0].sent.Add(b.every))
		b.cycle = b.due
	}

	if b.deadline != before {
		c.decided(1, b.register, "the heartbeat is applied: the deadline counts from before it was sent")
		c.emit(Renewed{Register: b.register, Deadline: b.deadline, Guard: b.guardAt()})
		c.lifeline(b, false, false)
	}

	switch {
	case newest || !asked: // what was not asked because of a heartbeat says nothing about the last one
		return beatApplied
	case b.conflict && r.Rev != b.compare:
		b.due = c.now
		return beatAgain
	}

	return c.tryFailed(b)
}

// tryFailed waits before the next try, and gives up after the last (rule 9). The deadline is guarded elsewhere.
func (c *Core) tryFailed(b *beat) fate {
	b.check = false
	c.stats.RenewFailures++
	if b.failed == len(c.cfg.RenewBackoff) {
		c.decided(9, b.register, "the last try has failed: give it up")
		b.why = fmt.Sprintf("%d tries failed, the last with: %s", b.failed+1, b.fault)
		return beatGivenUp
	}

	c.decided(9, b.register, "the heartbeat is tried again after a while")
	b.due = c.now.Add(c.cfg.RenewBackoff[b.failed])
	b.failed++
	return beatFailed
}

// endBeat makes sure that a heartbeat is never believed again.
func (c *Core) endBeat(b *beat, cause Cause) {
	if b.ended {
		return
	}

	b.ended = true
	b.deadline = 0
	b.check = false
	c.emit(Renewed{Register: b.register, Cause: cause, Detail: b.why})
}

// expired takes in that the shell has ended what depends on a heartbeat: whatever an answer shows that is received
// later, it is not believed any more.
func (c *Core) expired(in Expired) {
	m := &c.member
	if in.Register == m.rec.Name {
		if m.phase == memberIn && m.beat.who.Incarnation == in.Incarnation {
			m.beat.why = unconfirmed
			c.dropMember(Partitioned)
		}

		return
	}

	i, ok := c.names[in.Register]
	if !ok {
		return
	}

	if e := c.elections.all[i]; e.term.state != noTerm && !e.beat.ended && e.beat.who.Incarnation == in.Incarnation {
		e.beat.why = unconfirmed
		c.loseOwn(e, Partitioned)
	}
}

// lifeline reports to the reaper what depends on a heartbeat. A heartbeat that is answered after all has stopped is not
// reported any more.
func (c *Core) lifeline(b *beat, stopped, over bool) {
	if !stopped && (b.stopped || b.ended) {
		return
	}

	b.stopped = stopped

	l := Lifeline{Register: b.register, Holder: b.who, Stopped: stopped, Over: over}
	if !stopped {
		l.Holds = b.held > 0
		l.Deadline = b.deadline
	}

	c.emit(l)
}

const contentionQuiet = 30 * time.Second // how long after a contention event none is sent

// countBeat counts a heartbeat that was applied: how long its last request took, and the whole cycle, from when it was
// due.
func (c *Core) countBeat(b *beat) {
	s := &c.stats
	latency := time.Duration(c.now - b.tries[0].sent)
	s.Latencies[s.Heartbeats%latencies] = latency
	s.Heartbeats++
	s.HeartbeatTime += latency
	c.measure()

	slow := Event{Kind: EventContention, Took: time.Duration(c.now - b.cycle), Expected: b.every}
	if c.cfg.ContentionThreshold <= 0 || slow.ratio() <= c.cfg.ContentionThreshold {
		return
	}

	s.Contention++
	if c.contended == 0 || c.now >= c.contended.Add(contentionQuiet) {
		c.contended = c.now
		c.emit(slow)
	}
}
