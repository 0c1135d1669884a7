package core

import "github.com/regentd/regent/driver"

// This file is one step of a core, from its input to its effects: take changes the state, run advances the entities
// that the input concerns and those that are due.

// portion is how many entities one step advances. What is left is advanced by the next step, which is due at once.
const portion = 256

// Step takes in one thing that has happened at now, and returns what to do about it. The slice is valid until the
// next call.
func (c *Core) Step(now Time, in Input) []Effect {
	c.now = max(c.now, now)
	clear(c.out)
	c.out = c.out[:0]
	c.spent = 0

	if !c.closed {
		c.take(in)
		c.run()
	}

	if at := c.Next(); at != c.woken {
		c.woken = at
		c.emit(Wake{at})
	}
	return c.out
}

// Next returns when to call Step with a Tick, at the latest.
func (c *Core) Next() Time {
	switch {
	case c.closed || !c.started:
		return Never
	case c.now < c.startAt:
		return c.startAt
	case c.readingNext():
		return max(c.now, c.readFrom)
	case len(c.queue) > 0 || c.all < len(c.elections.all):
		return c.now
	case len(c.due) > 0:
		return min(c.refreshAt, c.entity(c.due[0]).due)
	}

	return c.refreshAt
}

// take changes the state by one input, and queues what it concerns.
func (c *Core) take(in Input) {
	switch in := in.(type) {
	case Join:
		c.start()
	case Campaign:
		c.campaignIn(in.Election)
	case Withdraw:
		c.withdraw(in.Election)
	case Watch:
		e := c.elect(in.Election)
		e.watchers++
		c.show(e)
	case Unwatch:
		c.unwatch(in.Election)
	case Answer:
		c.answer(in)
	case *Answer:
		c.answer(*in)
	case Notice:
		c.notice(in.Record)
	case DutyStopped:
		c.dutyStopped(in.Election, in.Epoch)
	case Expired:
		c.expired(in)
	case Health:
		c.setHealth(in)
	case Publish:
		c.info = in.Info
	case Shown:
		c.late(c.seq, &in.Record)
	case HandOff:
		c.ask(in.Election, ask{id: in.ID, to: in.To, at: in.AtEpoch})
	case StepDown:
		c.ask(in.Election, ask{id: in.ID, to: anyone, at: in.AtEpoch})
	case Pause:
		c.ask(in.Election, ask{id: in.ID, pause: true, at: in.AtEpoch})
	case Resume:
		c.ask(in.Election, ask{id: in.ID, resume: true, at: in.AtEpoch})
	case Save:
		c.save(in)
	case Observed:
		c.observe(in.Election, in.Epoch)
	case Fenced:
		c.fenced(in)
	case Retire:
		c.retire(in)
	case Close:
		c.close(in.Cause)
	}
}

// run advances what is queued or due, up to one portion.
func (c *Core) run() {
	if !c.started || c.now < c.startAt { // rule 11: the start-up jitter comes before the first request of any kind
		return
	}

	c.refreshAll()
	c.beginReading()
	for ; c.spent < portion; c.spent += 1 + c.work {
		c.work = 0
		r, ok := c.pop()
		if !ok {
			return
		}
		c.advance(r)
	}
}

// pop returns the next entity to advance: queued, or due.
func (c *Core) pop() (ref, bool) {
	for len(c.queue) > 0 {
		r := c.queue[c.head]
		c.head++
		if c.head == len(c.queue) {
			c.queue = c.queue[:0]
			c.head = 0
		}

		if c.exists(r) && c.entity(r).queued {
			c.entity(r).queued = false
			return r, true
		}
	}

	for c.all < len(c.elections.all) {
		c.all++
		if e := c.elections.all[c.all-1]; e != nil {
			return e.ref, true
		}
	}

	if len(c.due) > 0 && c.entity(c.due[0]).due <= c.now {
		return c.due[0], true
	}

	return 0, false
}

// advance lets one entity do what is due, and notes when it is to be advanced again.
func (c *Core) advance(r ref) {
	e := c.entity(r)
	e.next = Never
	if e.call.id != 0 && c.now >= e.call.until {
		c.settle(r, Unknown, driver.Record{})
	}
	if !c.exists(r) { // a retirement ends with some requests
		return
	}

	switch r.kind() {
	case memberKind:
		c.advanceMember()
	case electionKind:
		c.advanceElection(c.elections.all[r.index()])
	case sightKind:
		c.advanceSight(c.sights.all[r.index()])
	case floorKind:
		c.advanceFloor()
	case retireKind:
		c.advanceRetirement(c.retirements.all[r.index()])
	case rosterKind:
		c.advanceRoster()
	}

	c.schedule(r, e)
}

// answer takes in what became of a request, unless it is not waited for any more.
func (c *Core) answer(a Answer) {
	r := ref(a.ID & (1<<32 - 1))
	if !c.exists(r) || c.entity(r).call.id != a.ID {
		if a.Outcome == Done {
			c.late(a.ID>>32, &a.Record)
		}

		return
	}

	if a.Outcome == Done || a.Outcome == Conflict || a.Outcome == NotFound {
		c.answered = c.now
	}

	c.entity(r).call.gone = a.Gone
	c.entity(r).call.error = a.Error
	c.entity(r).call.err = a.Err
	if r.kind() == rosterKind {
		c.roster.coming = a.Records
		c.roster.partial = a.Partial && c.roster.sought != nil && len(a.Records) > 0
	}

	c.settle(r, a.Outcome, a.Record)
	if c.exists(r) {
		c.enqueue(r)
	}
}

// settle ends the request of an entity with its outcome.
func (c *Core) settle(r ref, o Outcome, rec driver.Record) {
	e := c.entity(r)
	done := e.call
	e.call = call{}
	if done.kind != readCall && (o == Done || o == Conflict) {
		c.passed(r, done.rev)
	}

	switch r.kind() {
	case memberKind:
		c.memberAnswered(done, o, rec)
	case electionKind:
		c.electionAnswered(c.elections.all[r.index()], done, o, rec)
	case sightKind:
		c.sightAnswered(c.sights.all[r.index()], done, o, rec)
	case floorKind:
		c.floorAnswered(done, o, rec)
	case retireKind:
		c.retirementAnswered(c.retirements.all[r.index()], done, o, &rec)
	case rosterKind:
		c.listAnswered(done, o)
	}
}
