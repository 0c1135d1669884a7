package core

import (
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// This file keeps the members of a fleet out of step. Start-up jitter spreads their first requests. What they do later
// is triggered by moments that all of them share: the end of the jitter window, and notifications. So each member of a
// fleet has a phase of its own, and does what can wait at that phase. Heartbeats, renewals, takeovers and releases do
// not wait.

// spreads reports whether this member is one of a fleet.
func (c *Core) spreads() bool { return c.cfg.StartDelayMax > 0 }

// spread is the time over which a fleet spreads what all its members do after a shared moment.
func (c *Core) spread() time.Duration {
	return min(c.cfg.StartDelayMax, c.cfg.ElectionInterval) * 3 / 5
}

// phaseOf returns this member's share of a duration.
func (c *Core) phaseOf(d time.Duration) time.Duration { return time.Duration(c.cfg.Phase * float64(d)) }

// untilPhase returns how long to wait, from a moment on, for the next of a series of moments that are d apart. It is d
// itself, unless the member is one of a fleet: then the series has the member's phase, and the first wait may be
// shorter.
func (c *Core) untilPhase(from Time, d time.Duration) time.Duration {
	if !c.spreads() || d <= 0 {
		return d
	}

	past := (time.Duration(from) - c.phaseOf(d)) % d
	if past < 0 {
		past += d
	}

	return d - past
}

// phased returns when a watched heartbeat is read in the member's phase, if it would else be read at that time.
func (c *Core) phased(at Time, w *watch) Time {
	if at == Never || !c.spreads() {
		return at
	}

	return min(at, w.began.Add(c.untilPhase(w.began, w.rec.Duration/3)))
}

// coldStartEnd returns until when a candidate with a smaller ID may still be waiting for its jitter, if all of them
// were started at once; 0 where the rank does not ask for the smallest. It does not depend on what the store holds: a
// fleet that is started again over a used store waits as well. Where their hosts have died, so that nothing was
// released, each member has to wait for its own last lease before it joins: the wait begins when the election of a
// leader that was never seen alive has become free.
func (c *Core) coldStartEnd(e *election) Time {
	if c.rank.kind != rankLexicographic || c.cfg.Restarted {
		return 0
	}

	began := c.joinedAt
	if e != nil && e.foundHeld && !e.seenLed {
		began = max(began, e.openSince)
	}

	return began.Add(c.cfg.StartDelayMax + min(c.cfg.HeartbeatInterval, time.Second))
}

// turn is when, after the cold start, this member lists the others to learn whether its ID is the smallest. Whoever was
// notified of a smaller one comes after all those who were not: by then the election is most likely held.
func (c *Core) turn() time.Duration {
	wait := c.phaseOf(c.spread())
	if c.outranked {
		wait += c.spread()
	}

	return wait
}

// firstLook decides, when the start-up jitter is over, when the shell subscribes and the elections are first read. That
// is never after the cold start, before which nothing could be claimed. The wait is short, since the member is notified
// of nobody who joins meanwhile.
func (c *Core) firstLook() {
	if c.subscribed || c.closing { // a member that is stopped during its start-up jitter asks for nothing (rule 11)
		return
	}

	if c.lookAt == 0 {
		c.lookAt = max(c.now, 1)
		left := min(time.Duration(c.coldStartEnd(nil)-c.now), c.spread()/3)
		if c.spreads() && left > 0 && c.joins() {
			c.lookAt = c.now.Add(c.phaseOf(left))
		}

		if c.spreads() && !c.cfg.Restarted {
			c.emit(Event{Kind: EventStarted, Took: time.Duration(c.now - c.joinedAt)})
		}
	}

	if c.now >= c.lookAt {
		c.subscribed = true
		c.emit(Subscribe{})
	}
}

// looksNext reports whether the time to subscribe comes before everything else that is due.
func (c *Core) looksNext() bool {
	return !c.subscribed && !c.closing && len(c.queue) == 0 && c.all >= len(c.elections.all) &&
		(len(c.due) == 0 || c.lookAt < c.entity(c.due[0]).due)
}

// memberNotice takes in a notification about the register of a member. Those that wait for a better candidate list the
// members again: it may have left.
func (c *Core) memberNotice(name string) {
	id := strings.TrimPrefix(name, driver.MemberPrefix)
	c.outranked = c.outranked || c.rank.kind == rankLexicographic && id < c.cfg.ID
	if r := &c.roster; len(r.waiting) > 0 && !c.spreads() {
		c.listSoon()
	}
}

// claimedByOther notes that a vacant election has changed: most likely somebody holds it now. Members of a fleet do
// not all read it at that moment, but each at its next poll. It reports false where the election has to be read at
// once: the record that the notification brought shows it vacant again, or names this member as the next.
func (c *Core) claimedByOther(e *election, r *driver.Record) bool {
	if r.Rev != "" && r.Vacant() || r.Next == c.cfg.ID {
		return false
	}

	if !c.spreads() || e.term.state != noTerm || e.stale || !e.seen || !e.rec.Vacant() || e.rec.Paused {
		return false
	}

	e.claimed = true
	e.pollAt = min(e.pollAt, c.now.Add(c.untilPhase(c.now, c.cfg.ElectionInterval)))
	c.enqueue(e.ref)
	return true
}
