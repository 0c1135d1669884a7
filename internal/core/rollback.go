package core

import (
	"fmt"
	"slices"

	"github.com/regentd/regent/driver"
)

// This file is rule 5: what a member does when the store comes back with less than it had.

// receive takes in a record that the store has shown of an election, by the answer to a request. Every record goes
// through here: it notices a store that has gone back, a new leader, and the end of a term.
func (c *Core) receive(e *election, r *driver.Record, done call) {
	c.learn(e.name, r.Epoch)
	c.see(&e.own, r, done) // every one, also if nobody else holds a lease of its own by it
	highest := c.memory[e.name]
	if r.Epoch < highest && done.old {
		e.stale = true // it was sent before the higher epoch was learned, so it may be older
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
		e.barredFor = highest
		what := fmt.Sprintf("%s shows epoch %d, but epoch %d was seen before", e.name, r.Epoch, max(highest,
			e.rec.Epoch))
		if r.Epoch == e.lastHeld.Epoch {
			what = fmt.Sprintf("%s shows that %s had epoch %d, but %s was seen to hold it", e.name, holderOf(r),
				r.Epoch,
				e.lastHeld.Holder.ID)
			// else the same record would bar the election at every read
			e.lastHeld.Holder = driver.Identity{ID: holderOf(r)}
		}

		c.regressed(e, highest, what)
	}

	c.reportExhausted(e, r)
	if !r.Vacant() {
		e.heldAt = done.sent
	}

	previous := e.rec
	if !r.Vacant() && r.Duration <= maxDuration { // else somebody holds it who does not use Regent
		e.lastHeld = driver.Record{Holder: r.Holder, Epoch: r.Epoch, Since: r.Since}
	}

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
		e.open = false // a reservation counts from when the record that makes it was first found free
	}

	e.claimed = false
	e.rec = *r
	e.shown = r.Epoch
	first := !e.seen
	e.seen = true
	e.stale = done.old
	e.check = 0
	e.retry = retry{}
	c.dropClaims(e)

	if e.wanted && r.Next == c.cfg.ID && c.followed(e) {
		e.check = c.now.Add(c.cfg.HeartbeatInterval / 3) // the others hold back no longer than one heartbeat interval
	}

	if c.cfg.Explain && done.kind == readCall && e.term.state == noTerm && e.claimIndex() >= 0 {
		c.decided(6, e.name, "the record shows this member's own claim, not released yet: adopt it")
	}

	c.noteLeader(e, &previous, first)
	c.checkTerm(e)
	c.attach(e)
}

// wentBack reports whether a record shows that the store has lost writes: an epoch below the highest one ever seen,
// which counts once, or below the one of the record before, which counts each time: whoever held that one may still
// believe. The record before is the last that any answer has shown, also one that came too late.
func (c *Core) wentBack(e *election, r *driver.Record, highest uint64) bool {
	if r.Epoch < e.shown {
		return true
	}
	if holder := holderOf(r); r.Epoch == e.lastHeld.Epoch && holder != "" && holder != e.lastHeld.Holder.ID {
		return true // two terms had one epoch
	}

	return r.Epoch < highest && e.barredFor < highest
}

// regressed keeps this member from claiming an election for one lease (rule 5): whoever held it may hold it still,
// without having noticed, so its heartbeat is given its full time.
func (c *Core) regressed(e *election, highest uint64, what string) {
	wait := max(c.cfg.LeaseDuration, min(e.rec.Duration, maxDuration))
	e.barred = max(e.barred, c.now.Add(wait))
	c.decided(5, e.name, "the store has lost writes: wait one lease, whoever held it may hold it still")
	c.emit(Event{Kind: EventRegressed, Election: e.name, Epoch: highest, Error: what + lostWrites})
}

const lostWrites = ": the store has lost writes (a failover, a flush, a restored backup?); this member claims the " +
	"election after one lease"

// reportExhausted reports, once, a record whose epoch no term can follow: the election stays without a leader until
// somebody removes it.
func (c *Core) reportExhausted(e *election, r *driver.Record) {
	if exhausted(r.Epoch) && !e.exhausted {
		c.emit(Event{
			Kind: EventUnreadable, Election: e.name, Register: e.name,
			Error: fmt.Sprintf("epoch %d: no counting of terms can reach it, so "+
				"something else than a member has written "+
				"it; nobody can claim the election until the register is removed from the store", r.Epoch),
		})
	}

	e.exhausted = exhausted(r.Epoch)
}

// judgeAbsent judges an election whose heartbeat register does not show its holder. Usually that holder is dead.
// But a register that has forgotten the holder's joining proves nothing: that incarnation may still believe in a
// heartbeat that the store no longer has (rule 5).
func (c *Core) judgeAbsent(e *election, s *sight) (verdict, Time) {
	if c.joinForgotten(e, &s.watch.rec) {
		c.regressed(e, c.memory[e.name],
			fmt.Sprintf("%s does not know %s, which holds %s", e.rec.Via, e.rec.Holder, e.name))
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
