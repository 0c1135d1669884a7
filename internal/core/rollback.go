package core

import (
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is rule 5: what a member does when the store comes back with less than it had.

// receive takes in a record that the store has shown of an election, by the answer to a request. Every record goes
// through here: it notices a store that has gone back, a new leader, and the end of a term.
func (c *Core) receive(e *election, r *driver.Record, done call) {
	c.learn(e.name, r.Epoch)
	highest := c.memory[e.name]
	if r.Epoch < highest && done.old {
		e.stale = true // it was sent before the higher epoch was learned, so it may be older
		return
	}
	removed, known := c.retired(e, r)
	if e.vanished = !known; e.vanished {
		e.stale = true // it is read again once the floor is known
		c.needFloor(&e.entity)
		return
	}
	if !removed && c.wentBack(e, r, highest) {
		e.barredFor = highest
		if r.Epoch == e.lastHeld.Epoch {
			e.lastHeld.Holder = driver.Identity{ID: holderOf(r)} // else the same record would bar the election at every read
		}
		c.regressed(e, highest)
	}

	previous := e.rec
	if !r.Vacant() && r.Duration <= maxDuration { // else somebody holds it who does not use Regent
		e.lastHeld = driver.Record{Holder: r.Holder, Epoch: r.Epoch, Since: r.Since}
	}
	if !e.seen || r.Rev != previous.Rev {
		e.received = c.now
		e.after = c.seq
	}
	e.rec = *r
	first := !e.seen
	e.seen = true
	e.stale = done.old
	e.check = 0
	e.retry = retry{}
	c.dropClaims(e)
	if r.Via == "" { // a vacant one too: should a rollback bring the holder back, it counts anew
		e.own.see(r, done.sent, c.now)
	}

	if e.wanted && r.Next == c.cfg.ID && c.followed(e) {
		e.check = c.now.Add(c.cfg.HeartbeatInterval / 3) // the others hold back no longer than one heartbeat interval
	}
	c.noteLeader(e, &previous, first)
	c.checkTerm(e)
	c.attach(e)
}

// wentBack reports whether a record shows that the store has lost writes: an epoch below the highest one ever seen,
// which counts once, or below the one of the record before, which counts each time: whoever held that one may still
// believe.
func (c *Core) wentBack(e *election, r *driver.Record, highest uint64) bool {
	if e.seen && r.Epoch < e.rec.Epoch {
		return true
	}
	if holder := holderOf(r); r.Epoch == e.lastHeld.Epoch && holder != "" && holder != e.lastHeld.Holder.ID {
		return true // two terms had one epoch
	}
	return r.Epoch < highest && e.barredFor < highest
}

// regressed keeps this member from claiming an election for one lease (rule 5): whoever held it may hold it still,
// without having noticed, so its heartbeat is given its full time.
func (c *Core) regressed(e *election, highest uint64) {
	wait := max(c.cfg.LeaseDuration, min(e.rec.Duration, maxDuration))
	e.barred = max(e.barred, c.now.Add(wait))
	c.emit(Event{Kind: EventRegressed, Election: e.name, Epoch: highest})
}

// judgeAbsent judges an election whose heartbeat register does not show its holder. Usually that holder is dead.
// But a register that has forgotten the holder's joining proves nothing: that incarnation may still believe in a
// heartbeat that the store no longer has (rule 5).
func (c *Core) judgeAbsent(e *election, s *sight) (verdict, Time) {
	if c.joinForgotten(e, &s.watch.rec) {
		c.regressed(e, c.memory[e.name])
		return taken, e.barred
	}
	if e.forgotten == e.rec.Holder && s.watch.began < e.barred { // it may know the holder by now
		c.need(e, s)
		return taken, Never
	}
	return free, 0
}

// joinForgotten reports, once for each holder, that a heartbeat register has forgotten the incarnation which an
// election names: the register counts fewer incarnations, or shows another one with the same number.
func (c *Core) joinForgotten(e *election, heartbeat *driver.Record) bool {
	holder := e.rec.Holder
	if e.forgotten == holder || slices.Contains(c.endings, holder) {
		return false
	}
	count := incarnationCount(holder.Incarnation)
	if heartbeat.Epoch > count || heartbeat.Epoch == count && heartbeat.Vacant() {
		return false
	}
	e.forgotten = holder
	return true
}

// dropClaims forgets claims that cannot come true any more: under an incarnation that has ended, or on a record
// that has moved on to another holder. Should a store that forgets bring one back, it is not adopted but released
// (rule 6).
func (c *Core) dropClaims(e *election) {
	if len(e.claims) == 0 {
		return
	}
	r := &e.rec
	e.claims = slices.DeleteFunc(slices.Clone(e.claims), func(k claim) bool {
		if !c.cfg.OwnLease && !c.member.is(k.who) {
			return true
		}
		passed := !r.Vacant() && r.Holder != k.who && r.Epoch >= k.epoch
		if passed && c.cfg.OwnLease {
			e.unreleased = k.who
		}
		return passed
	})
}

// noteLeader tells watchers and the events what has become of an election.
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
	before := previous.Holder.ID
	if before == "" && len(r.Past) > 0 {
		before = r.Past[len(r.Past)-1].Holder
	}
	c.emit(Event{Kind: EventLeaderChanged, Election: e.name, Epoch: r.Epoch, Holder: r.Holder, Previous: before})
}

// moved makes the next poll come soon. The poll interval grows only while nothing changes.
func (c *Core) moved(e *election) {
	e.quiet = 0
	e.pollAt = min(e.pollAt, c.now.Add(c.cfg.ElectionInterval))
}

// pollInterval doubles while nothing changes, up to its maximum.
func (c *Core) pollInterval(e *election) time.Duration {
	d := c.cfg.ElectionInterval
	for range e.quiet {
		if d > c.cfg.ElectionIntervalMax/2 {
			return c.cfg.ElectionIntervalMax
		}
		d *= 2
	}
	return d
}
