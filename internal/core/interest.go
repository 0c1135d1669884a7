package core

import "github.com/regentd/regent/driver"

// This file is who is interested in an election: this member as a candidate, and whoever watches it. An election that
// nobody is interested in is forgotten.

// elect returns an election, new if need be.
func (c *Core) elect(name string) *election {
	if i, ok := c.names[name]; ok {
		return c.elections.all[i]
	}

	e := &election{name: name}
	i := c.elections.add(e)
	if c.all == int(i) {
		c.all++ // it is queued by itself
	}

	e.init(makeRef(electionKind, i))
	c.names[name] = i
	c.live++

	c.judged(e, true) // for all we know
	c.enqueue(e.ref)
	c.emit(Follow{name})
	return e
}

// campaignIn makes the member a candidate.
func (c *Core) campaignIn(name string) {
	e := c.elect(name)
	if e.wanted || c.closing {
		return
	}

	e.wanted = true
	c.wanted++
	c.show(e)
	c.attendable(e)
	c.enqueue(e.ref)
	c.enqueue(c.member.ref)
	c.enqueue(c.floor.ref)
}

// withdraw ends a candidacy.
func (c *Core) withdraw(name string) {
	i, ok := c.names[name]
	if !ok {
		c.emit(Withdrawn{name})
		return
	}

	e := c.elections.all[i]
	c.unwant(e)
	c.enqueue(e.ref)
	if e.term.state == noTerm {
		c.emit(Withdrawn{name})
		return
	}

	e.withdrawn = true
	if e.term.state == leading {
		c.end(e, Shutdown, "")
	}
}

func (c *Core) unwant(e *election) {
	if e.wanted {
		e.wanted = false
		c.wanted--
		c.attendable(e)
	}
}

func (c *Core) unwatch(name string) {
	if i, ok := c.names[name]; ok && c.elections.all[i].watchers > 0 {
		c.elections.all[i].watchers--
		c.enqueue(c.elections.all[i].ref)
	}
}

// wantsNothing reports whether nobody is interested in an election any more.
func (c *Core) wantsNothing(e *election) bool {
	return !e.wanted && e.watchers == 0 && len(e.claims) == 0 && len(e.asks) == 0 && !c.mine(e, e.rec.Holder)
}

// dropElection forgets an election.
func (c *Core) dropElection(e *election) {
	for len(e.asks) > 0 {
		c.askDone(e, Unanswered)
	}

	c.unwant(e)
	c.keepKnown(e)
	e.seen = false
	e.rec = driver.Record{}
	c.attach(e)
	c.judged(e, false)
	c.claimedShare(e)
	c.unschedule(&e.entity)
	c.elections.drop(e.index())
	delete(c.names, e.name)
	c.emit(Unfollow{e.name})
	c.noteDropped(e.name, e.heldAt)
	c.live--
	if c.closing && c.resting() {
		c.enqueue(c.member.ref)
	}
}
