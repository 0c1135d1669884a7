package core

import "time"

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

// beginReading decides, when the start-up jitter is over, when the shell subscribes and the elections are first read.
// That is never after the cold start, before which nothing could be claimed. The wait is short, since the member is
// notified of nobody who joins meanwhile.
func (c *Core) beginReading() {
	if c.subscribed || c.closing { // a member that is stopped during its start-up jitter asks for nothing (rule 11)
		return
	}

	if c.readFrom == 0 {
		c.readFrom = max(c.now, 1)
		left := min(time.Duration(c.coldStartEnd(nil)-c.now), c.spread()/3)
		if c.spreads() && left > 0 && c.joins() {
			c.readFrom = c.now.Add(c.phaseOf(left))
		}

		if c.spreads() && !c.cfg.Restarted {
			c.emit(Event{Kind: EventStarted, Took: time.Duration(c.now - c.joinedAt)})
		}
	}

	if c.now >= c.readFrom {
		c.subscribed = true
		c.emit(Subscribe{Members: c.rank.kind != rankFirst})
	}
}

// readingNext reports whether the time to subscribe comes before everything else that is due.
func (c *Core) readingNext() bool {
	return !c.subscribed && !c.closing && len(c.queue) == 0 && c.all >= len(c.elections.all) &&
		(len(c.due) == 0 || c.readFrom < c.entity(c.due[0]).due)
}
