package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

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
	refreshAt  Time   // when the next of them is taken in; Never if there is none
	refreshed  Time   // when the last one was
	healthy    bool
	failing    bool // a duty keeps failing

	subscribed bool // a Subscribe effect was sent
	readFrom   Time // when elections are first read
	joinedAt   Time // when the member was started, before the start-up jitter
	outranked  bool // a notification has named a member with a smaller ID
	notified   bool // a notification has named a register: the store sends some

	rank   ranking
	roster roster
	led    subset // elections that this member leads
	rivals subset // elections that another member leads, and this one might ask for
	loose  int    // elections that are free, or were never judged

	sharing  int  // claims under way of this member's share of many free elections
	sharedAt Time // when a share of them was last seen to be claimed
	mergeAt  Time // when those of a crowd are read that have changed

	member    member
	elections slab[election]
	names     map[string]uint32
	live      int // elections
	wanted    int // candidacies
	sights    slab[sight]
	sighted   map[string]uint32

	floor       floor
	retirements slab[retirement]
	retiring    turns

	held []uint32 // elections whose term depends on the member's heartbeat

	known     []known              // records of elections that this member has released; replaced, never changed
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

	stats   Stats
	latency time.Duration // of the store, as published under rank latency; 0 if not measured yet
	seq     uint64        // the last request
	queue   []ref         // to be advanced in this step, or the next
	head    int           // the place in queue of the next one
	all     int           // the elections from this index on are to be advanced too
	due     []ref         // a heap by due time
	woken   Time          // the last Wake
	work    int           // what the advance of an entity has cost beyond the usual
	spent   int           // by the last step: entities that were advanced, and what that has cost beyond the usual
	out     []Effect
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
	c.latency = cfg.Latency
	c.roster.init(makeRef(rosterKind, 0))
	c.sweepAt = Never
	c.refreshAt = Never
	c.woken = Never
	return c
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
