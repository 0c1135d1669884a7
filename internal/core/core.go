package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// portion is how many entities one step advances. What is left is advanced by the next step, which is due at once.
const portion = 256

// Core is the protocol of one member.
type Core struct {
	cfg     Config
	src     Source
	now     Time
	timeout time.Duration // of one request

	started    bool
	startAt    Time
	closing    bool
	closed     bool
	closeCause Cause
	tidyEnd    Time   // when closing does not wait for the store any more
	refresh    uint64 // counts the notices that anything may have changed
	healthy    bool
	failing    bool // a duty keeps failing

	subscribed bool // a Subscribe effect was sent
	lookAt     Time // when elections are first read
	joinedAt   Time // when the member was started, before the start-up jitter
	outranked  bool // a notification has named a member with a smaller ID

	rank   ranking
	roster roster
	led    subset // elections that this member leads
	rivals subset // elections that another member leads, and this one might ask for
	loose  int    // elections that are free, or were never judged

	member    member
	elections slab[election]
	names     map[string]uint32
	live      int // elections
	wanted    int // candidacies
	sights    slab[sight]
	sighted   map[string]uint32

	floor       floor
	retirements slab[retirement]

	held []uint32 // elections whose term depends on the member's heartbeat

	memory    map[string]uint64    // the highest epoch ever seen of each election
	dropped   []string             // those of them in which this member has no interest any more
	droppedAt map[string]dropTimes // since when
	endings   []driver.Identity    // incarnations that this process has ended
	ends      []lifeEnd            // how the latest of them ended
	runs      uint64               // the count of the last incarnation
	info      []byte               // what the member register carries about the member

	pollAt    Time // the next of the moments at which elections are polled
	contended Time // when the last contention event was sent
	answered  Time // when the store last answered anything
	backoff   Time // no claim and no revocation before: the store has failed
	sweepAt   Time // when the next held elections are read
	sweptAt   Time
	sweepFrom int // the place in held where the sweep goes on
	sweepLeft int // how many of held are still to be read by this sweep

	stats Stats
	seq   uint64 // the last request
	queue []ref  // to be advanced in this step, or the next
	all   int    // the elections from this index on are to be advanced too
	due   []ref  // a heap by due time
	woken Time   // the last Wake
	work  int    // what the advance of an entity has cost beyond the usual
	spent int    // by the last step: entities that were advanced, and what that has cost beyond the usual
	out   []Effect
}

// New returns a core that has sent nothing yet.
func New(cfg Config, src Source) *Core {
	c := &Core{cfg: cfg, src: src}
	c.names = map[string]uint32{}
	c.sighted = map[string]uint32{}
	c.memory = map[string]uint64{}
	c.timeout = cfg.trust(cfg.LeaseDuration) / 4
	c.member.init(makeRef(memberKind, 0))
	c.floor.init(makeRef(floorKind, 0))
	c.member.rec.Name = driver.MemberRegister(cfg.ID)
	c.healthy = !cfg.CheckHealth
	c.info = cfg.Info
	c.rank = parseRank(cfg.Rank)
	c.roster.init(makeRef(rosterKind, 0))
	c.sweepAt = Never
	c.woken = Never
	return c
}

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
	case c.looksNext():
		return max(c.now, c.lookAt)
	case len(c.queue) > 0 || c.all < len(c.elections.all):
		return c.now
	case len(c.due) > 0:
		return c.entity(c.due[0]).due
	}
	return Never
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
	c.firstLook()
	for ; c.spent < portion; c.spent += 1 + c.work {
		c.work = 0
		r, ok := c.pop()
		if !ok {
			return
		}
		c.advance(r)
	}
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

// start lets the core send requests, after the start-up jitter.
func (c *Core) start() {
	if c.started {
		return
	}
	c.started = true
	c.joinedAt = c.now
	c.startAt = c.now.Add(c.cfg.StartDelay)
	c.decided(11, "", "the first request comes after the start-up jitter")
	c.enqueue(c.member.ref)
	c.enqueue(c.floor.ref)
}

// close ends all terms and leaves.
func (c *Core) close(cause Cause) {
	if c.closing {
		return
	}
	c.closing = true
	c.closeCause = cause
	if cause == "" {
		c.closeCause = Shutdown
	}

	c.tidyEnd = c.now.Add(2 * c.timeout)
	if !c.started {
		c.started = true
	}
	if c.now < c.startAt { // nothing was sent yet
		c.startAt = c.now
	}

	c.enqueueAll()
	c.enqueue(c.member.ref)
	for _, t := range c.retirements.all {
		if t != nil {
			c.enqueue(t.ref)
		}
	}
}

// failed notes that the store did not take or answer a request.
func (c *Core) failed() { c.backoff = max(c.backoff, c.now.Add(c.failureWait())) }

// failureWait comes after the store has failed.
func (c *Core) failureWait() time.Duration { return min(c.cfg.ElectionInterval, time.Second) }

func (c *Core) emit(e Effect) { c.out = append(c.out, e) }

// decided says what was decided, and by which rule, if anybody wants to know.
func (c *Core) decided(rule int, name, what string) {
	if c.cfg.Explain {
		c.emit(Decision{rule, name, what})
	}
}

// trust is D of rule 1: how long a holder may count on a heartbeat, from before it was sent. The clocks of the
// holder and of the observer may each be off by 0.1 %, and duties need the stop timeout to end.
func (cfg *Config) trust(w time.Duration) time.Duration { return w - w/500 - cfg.StopTimeout }

// interval is how often a register with lease w is renewed: at the latest at 80 % of what the holder may count on.
func (cfg *Config) interval(every, w time.Duration) time.Duration {
	return min(every, cfg.trust(w)*8/10)
}

// memberLease is W of the member register. Where no election depends on it, it need not be as short.
func (cfg *Config) memberLease() time.Duration {
	if cfg.OwnLease {
		return cfg.WorkerTimeout
	}
	return cfg.LeaseDuration
}
