package core

import (
	"fmt"
	"slices"

	"github.com/regentd/regent/driver"
)

// This file is rule 5: what a member does when the store comes back with less than it had.

// wentBack reports whether a record shows that the store has lost writes: an epoch below the highest one ever seen,
// which counts once, or below the one of the record before, which counts each time: whoever held that one may still
// believe. The record before is the last that any answer has shown, also one that came too late.
func (c *Core) wentBack(e *election, r *driver.Record, highest uint64) bool {
	if r.Epoch < e.shown {
		return true
	}
	if otherTerm(r, &e.rec) || e.otherHolder(r) {
		return true // two terms had one epoch
	}

	return r.Epoch < highest && (e.sank || e.barredFor < highest)
}

// otherTerm reports whether two records of one epoch are held by different terms. Their IDs may be the same: that of a
// process which has come back while the one before it still believes.
func otherTerm(r, before *driver.Record) bool {
	held := !r.Vacant() && !before.Vacant()
	return held && r.Epoch == before.Epoch && r.Holder != before.Holder && holderOf(r) != "" && holderOf(before) != ""
}

// otherHolder reports whether a record shows that another member had the epoch in which this election was last seen to
// be held.
func (e *election) otherHolder(r *driver.Record) bool {
	holder := holderOf(r)
	return r.Epoch == e.lastHeld.Epoch && holder != "" && holder != e.lastHeld.Holder.ID
}

// reportBack reports a record that shows that the store has lost writes, and bars the election.
func (c *Core) reportBack(e *election, r *driver.Record, highest uint64) {
	e.barredFor = highest
	what := fmt.Sprintf("%s shows epoch %d, but epoch %d was seen before", e.name, r.Epoch, max(highest, e.rec.Epoch))
	switch {
	case e.otherHolder(r):
		what = fmt.Sprintf("%s shows that %s had epoch %d, but %s was seen to hold it",
			e.name, holderOf(r), r.Epoch, e.lastHeld.Holder.ID)

		// else the same record would bar the election at every read
		e.lastHeld.Holder = driver.Identity{ID: holderOf(r)}
	case otherTerm(r, &e.rec):
		what = fmt.Sprintf("%s shows that %s has epoch %d, but %s was seen to hold it", e.name, r.Holder, r.Epoch,
			e.rec.Holder)
	}

	c.regressed(e, highest, what)
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
			Error: fmt.Sprintf("epoch %d: no counting of terms can reach it, so something else than a member has "+
				"written it; nobody can claim the election until the register is removed from the store", r.Epoch),
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
	if e.forgotten == holder || slices.Contains(c.endings, holder) || outlived(heartbeat, holder) {
		return false
	}

	e.forgotten = holder
	return true
}
