package core

import "time"

// moved makes the next poll come soon. The poll interval grows only while nothing changes.
func (c *Core) moved(e *election) {
	e.quiet = 0
	e.pollAt = min(e.pollAt, c.pollTime(c.cfg.ElectionInterval))
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

// pollTime is when an election is polled that is to be polled within d. The polls of all elections come at moments
// that are the election interval apart, so that the shell can send many of them as one batch. Those of a fleet's
// member come in its phase.
func (c *Core) pollTime(d time.Duration) Time {
	if c.spreads() {
		return c.now.Add(c.untilPhase(c.now, d))
	}

	every := c.cfg.ElectionInterval
	if c.pollAt <= c.now {
		c.pollAt = c.now.Add(every)
	}

	at := c.now.Add(max(d, every))
	return at - (at-c.pollAt)%Time(every)
}
