package core

// This file is what a member does that should not lead: its health check fails, or a duty keeps failing. It does not
// claim, and hands over what it leads, but only to somebody healthy: an unhealthy leader is better than none. And it is
// what a member does that should lead rather than somebody else: it asks for that.

// setHealth takes in whether the member should lead.
func (c *Core) setHealth(in Health) {
	if c.healthy == in.Healthy && c.failing == in.DutyFailing {
		return
	}

	c.healthy = in.Healthy
	c.failing = in.DutyFailing
	if c.healthy { // it may claim, be it as a last resort
		c.enqueueAll()
	}

	c.roster.handoverAt = c.now
	c.enqueue(c.roster.ref)
}

// well reports whether the member should lead.
func (c *Core) well() bool { return c.healthy && !c.failing }

// active reports whether the member may claim anything now, as far as that does not depend on its health.
func (c *Core) active() bool {
	return c.cfg.Eligible && !c.closing && (c.cfg.OwnLease || c.member.lives(c.now))
}

// mayLead reports whether this member may claim anything now.
func (c *Core) mayLead() bool { return c.well() && c.active() }

// lastResort reports whether a duty that keeps failing is all that keeps the member from leading. Then it leads if
// nobody healthy is there. A member whose own health check fails never does.
func (c *Core) lastResort() bool { return c.healthy && c.failing && c.active() }

// aloneFor reports whether nobody healthy is there for a free election, so that this member claims it as a last resort.
// Every healthy candidate comes first.
func (c *Core) aloneFor(e *election) bool {
	if at := c.headStart(e, &e.rec).Add(c.cfg.HeartbeatInterval); c.now < at {
		e.wake(at)
		return false
	}

	e.wake(c.now.Add(c.cfg.HeartbeatInterval))
	if !c.recent() {
		c.awaitList(&e.entity)
		c.listSoon()
		return false
	}

	return c.successor(e.name) == ""
}

// mayRevoke reports whether the member may revoke an expired heartbeat: one that should not lead leaves that to those
// who run for an election that depends on it.
func (c *Core) mayRevoke(s *sight) bool {
	if !c.lastResort() {
		return c.mayLead()
	}

	s.wake(c.now.Add(c.cfg.HeartbeatInterval))
	if !c.recent() {
		c.awaitList(&s.entity)
		c.listSoon()
		return false
	}

	for s.cleared < len(s.deps) { // in portions: nothing that is left to others is asked for twice
		if c.successor(c.elections.all[s.deps[s.cleared]].name) != "" {
			s.cleared = 0
			return false
		}

		s.cleared++
		if s.cleared%takeIn == 0 {
			s.wake(c.now)
			return false
		}
	}

	s.cleared = 0
	return true
}

// registers reports whether the member has a register of its own. An unhealthy leader, and one that is ranked, can only
// know by those whether anybody else is there.
func (c *Core) registers() bool {
	return !c.cfg.OwnLease || c.cfg.Register || c.rank.kind != rankFirst || c.cfg.CheckHealth
}

// joins reports whether there is a reason to join.
func (c *Core) joins() bool { return c.registers() && (c.wanted > 0 || c.cfg.Register) }

// preempts reports whether the member asks leaders of lower rank to hand over.
func (c *Core) preempts() bool { return c.cfg.Preempt && c.rank.kind != rankFirst }

// subset is some of the elections. Each knows its place there.
type subset []uint32

// spot is the place of an election in a subset.
type spot struct {
	in bool
	at int
}

// put makes an election a part of a subset, or not.
func (c *Core) put(s *subset, of func(*election) *spot, e *election, in bool) {
	p := of(e)
	switch {
	case p.in == in:
	case in:
		*p = spot{true, len(*s)}
		*s = append(*s, e.index())
		c.enqueue(c.roster.ref)
	default:
		last := len(*s) - 1
		moved := c.elections.all[(*s)[last]]
		(*s)[p.at] = moved.index()
		of(moved).at = p.at
		*s = (*s)[:last]
		*p = spot{}
	}
}

func ledSpot(e *election) *spot   { return &e.led }
func rivalSpot(e *election) *spot { return &e.rival }

// attendable keeps the subsets that attend reads in step with an election.
func (c *Core) attendable(e *election) {
	c.put(&c.led, ledSpot, e, e.term.state == leading)
	if c.preempts() {
		c.put(&c.rivals, rivalSpot, e, e.wanted && c.followed(e) && e.rec.Next == "" && !e.rec.Paused)
	}
}

// attend hands over elections that an unhealthy member leads, and asks for those that a member of lower rank leads. It
// lists the members for that: the unhealthy one at every heartbeat, the other one at every election interval.
func (c *Core) attend() {
	r := &c.roster
	s := c.led
	at := &r.handoverAt
	every := c.cfg.HeartbeatInterval
	if c.well() {
		s = c.rivals
		at = &r.preemptAt
		every = c.cfg.ElectionInterval
	}

	outranked := c.well() && c.spares() // else it would be named
	if len(s) == 0 || c.closing || outranked || c.well() && !(c.cfg.Eligible && c.member.phase == memberIn) {
		r.attending = false
		r.left = 0
		return
	}

	if r.left == 0 {
		if c.now < *at && !(r.attending && c.recent()) {
			r.wake(*at)
			return
		}

		*at = c.now.Add(c.cfg.HeartbeatInterval)
		r.attending = !c.recent()
		if r.attending {
			c.listSoon()
			r.wake(*at)
			return
		}

		r.left = len(s)
	}

	for n := 0; n < portion && r.left > 0; n++ {
		r.left--
		if r.left < len(s) {
			c.attendTo(c.elections.all[s[r.left]])
		}
	}

	if r.left > 0 {
		r.wake(c.now)
		return
	}

	*at = c.now.Add(every)
	r.wake(*at)
}

// attendTo hands over one election, or asks for it.
func (c *Core) attendTo(e *election) {
	if !c.well() {
		if to := c.successor(e.name); to != "" && !e.rec.Paused { // nobody could take a paused one
			c.end(e, Unhealthy, to)
		}

		return
	}

	if len(e.asks) == 0 && c.outranks(e) {
		c.ask(e.name, ask{to: c.cfg.ID, at: e.rec.Epoch, until: c.now.Add(c.timeout)}) // again after the next list
	}
}
