package core

import "time"

// The sweep reads the elections that this member holds by its heartbeat. A store that has lost a claim, but not the
// heartbeat, is noticed by that: within half a lease and the time of a request, or within as many heartbeat intervals
// as there are batches, if that is longer. Elections with leases of their own need no sweep: their renewals are
// conditional on the record itself.

const sweepBatch = 1000 // how many held elections are read at once

// addHeld adds a term to those that depend on the member's heartbeat.
func (c *Core) addHeld(e *election) {
	e.heldPos = len(c.held)
	c.held = append(c.held, e.index())
	c.member.fresh = append(c.member.fresh, e.index())
	c.sweepAt = min(c.sweepAt, c.now.Add(c.cfg.LeaseDuration/2))
	c.enqueue(c.member.ref)
}

func (c *Core) dropHeld(e *election) {
	last := len(c.held) - 1
	moved := c.elections.all[c.held[last]]
	c.held[e.heldPos] = moved.index()
	moved.heldPos = e.heldPos
	c.held = c.held[:last]
	if last == 0 {
		c.sweepAt = Never
		c.sweepLeft = 0
	}
}

// sweep reads the next held elections, if their time has come.
func (c *Core) sweep() {
	m := &c.member
	if c.now >= c.sweepAt && len(c.held) > 0 {
		c.sweptAt = c.now
		c.sweepAt = c.now.Add(c.sweepInterval())
		c.sweepLeft = max(c.sweepLeft, min(sweepBatch, len(c.held)))
	}

	c.sweepLeft = min(c.sweepLeft, len(c.held))
	for n := 0; n < portion && c.sweepLeft > 0; n++ {
		if c.sweepFrom >= len(c.held) {
			c.sweepFrom = 0
		}

		e := c.elections.all[c.held[c.sweepFrom]]
		c.sweepFrom++
		c.sweepLeft--
		e.check = max(c.now, 1)
		c.enqueue(e.ref)
	}

	if c.sweepLeft > 0 {
		c.enqueue(m.ref)
	}

	m.wake(c.sweepAt)
}

// sweepInterval is the time from one batch to the next: all batches together take half a lease, unless that is more
// than one batch for each heartbeat.
func (c *Core) sweepInterval() time.Duration {
	half := c.cfg.LeaseDuration / 2
	batches := (len(c.held) + sweepBatch - 1) / sweepBatch
	if batches < 2 {
		return half
	}

	return max(half/time.Duration(batches), c.cfg.HeartbeatInterval)
}

// sweepSoon has the held elections read without waiting for their turn, but no more often than once a heartbeat.
func (c *Core) sweepSoon() {
	if c.sweepAt != Never {
		c.sweepAt = min(c.sweepAt, c.sweptAt.Add(c.cfg.HeartbeatInterval))
		c.enqueue(c.member.ref)
	}
}

// poked has all held elections read: somebody may have asked something of this member.
func (c *Core) poked() {
	c.called()
	c.sweepLeft = len(c.held)
	c.enqueue(c.member.ref)
}

// checkClaims has the elections read that were won before the heartbeat which has just been applied. A store that
// lost the tail of its log has lost the claim, the heartbeat, or neither: if the claim is gone, the read shows it.
func (c *Core) checkClaims() {
	for _, i := range c.member.claims {
		if e := c.elections.all[i]; e != nil && e.term.state == leading {
			e.check = max(c.now, 1)
			c.enqueue(e.ref)
		}
	}

	c.member.claims = nil
}
