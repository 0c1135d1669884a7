package core

import (
	"time"

	"github.com/regentd/regent/driver"
)

// This file is what a core knows of the other members. Ranks need it, and unhealthy leaders. It is a hint and never a
// proof. The members are listed only when a decision depends on them, and what was listed counts for a short time. The
// candidates are kept in their order, so that a decision reads the best of them and no other.

// roster is the list of the other members, as it was last read.
type roster struct {
	entity
	peers  slab[peer]
	byName map[string]uint32 // by register

	everywhere order            // the candidates in every election
	named      map[string]order // the candidates in one election, by its name
	ring       ring             // the candidates in every election, under rank first
	own        []uint64         // this member's points on it

	known     bool
	listedAt  Time            // when the last list was complete
	retryAt   Time            // after a list that failed
	wanted    bool            // a decision depends on a list
	seek      *Seek           // where that list may end; nil if all members are wanted
	sought    *Seek           // the same of the list that is under way, or is taken in
	partial   bool            // it has ended there
	coming    []driver.Record // of a list that is taken in, portion by portion
	came      call            // its request
	round     uint64          // counts the lists
	waiting   []ref           // who is advanced when a list is complete
	waking    []ref           // those of the last list who were not advanced yet
	attending bool            // attend waits for a list
	left      int             // how many of the elections are not yet attended to

	skims       bool       // the members are to be listed for the choice of watchers
	appointedAt Time       // when that was last begun
	appointSoon int        // how many lists are made soon, because the member has won an election
	list        watchList  // who watches this member closely, as it has last chosen
	published   []byte     // the same as JSON; nil if everybody is to watch closely
	heard       *watchList // what a leader has last published, if this member follows it
	heardAt     Time       // when that was read
	informs     bool       // after the next list all members are informed that this one leads
	uninformed  []string   // who is to be informed yet
	informing   []string   // the registers that are being touched for that
	informAt    Time       // when the next ones are informed

	handoverAt Time // when an unhealthy member next searches for a successor
	preemptAt  Time // when a member next searches for leaders that it outranks
}

// ListTimeouts is how many request timeouts a List may take.
const ListTimeouts = 8

// takeIn is how much of a list one step takes in: records, and what has changed in them.
const takeIn = 1024

// recentFor is how long a list counts. When many members join at once, each of them wakes all others: so a short age is
// accepted.
func (c *Core) recentFor() time.Duration { return min(c.cfg.HeartbeatInterval, time.Second) / 2 }

// recent reports whether the members were listed a short time ago.
func (c *Core) recent() bool {
	r := &c.roster
	return r.known && r.call.id == 0 && len(r.coming) == 0 && c.now < r.listedAt.Add(c.recentFor())
}

// listSoon has the members listed, unless that was done a short time ago or has just failed.
func (c *Core) listSoon() {
	r := &c.roster
	if !c.recent() && c.now >= r.retryAt {
		r.wanted = true
		r.seek = nil
		c.enqueue(r.ref)
	}
}

// awaitList has an entity advanced when the next list is complete, or has failed.
func (c *Core) awaitList(e *entity) {
	if !e.lists {
		e.lists = true
		c.roster.waiting = append(c.roster.waiting, e.ref)
	}
}

// advanceRoster lists the members if a decision depends on it, and takes in what was listed.
func (c *Core) advanceRoster() {
	r := &c.roster
	if r.busy() {
		return
	}

	if len(r.coming) > 0 {
		c.takeList()
	}
	if len(r.coming) > 0 {
		r.wake(c.now) // the rest in the next step
		return
	}

	c.wakeWaiting()
	c.attend()
	c.appoint()
	c.inform()
	if !r.wanted && !r.skims || c.closing {
		return
	}

	kind := listCall
	verb := List
	if !r.wanted {
		kind = skimCall
		verb = Skim
	}

	r.wanted = false
	r.skims = r.skims && kind == listCall && r.seek != nil
	r.sought = r.seek
	r.seek = nil
	r.partial = false
	c.send(&r.entity, kind, verb, driver.Record{Name: driver.MemberPrefix})
	r.call.until = c.now.Add(ListTimeouts * c.timeout)
	r.wake(r.call.until)
}

// listAnswered takes in that a list was answered, or failed.
func (c *Core) listAnswered(done call, o Outcome) {
	r := &c.roster
	r.came = done
	whole := !r.partial && r.sought.Before() == ""
	if done.kind == listCall && (whole || o != Done || r.seek != nil && r.seek.election == r.sought.election) {
		r.wanted = false
	}

	if o == Done {
		r.round++
		if len(r.coming) == 0 {
			c.listTaken()
		}
		return
	}
	r.coming = nil
	r.retryAt = c.now.Add(c.failureWait())
	c.listOver()
}

// takeList takes in the next portion of a list.
func (c *Core) takeList() {
	r := &c.roster
	for n := 0; n < takeIn && len(r.coming) > 0; {
		rec := &r.coming[0]
		r.coming = r.coming[1:]
		n += c.takeMember(rec)
	}
	if len(r.coming) == 0 {
		r.coming = nil
		c.listTaken()
	}
}

// listTaken ends a list: members that it does not show have gone.
func (c *Core) listTaken() {
	r := &c.roster
	if r.partial || r.sought.Before() != "" {
		c.soughtTaken()
		return
	}

	for i, p := range r.peers.all {
		if p != nil && p.round != r.round {
			c.dropPeer(uint32(i))
		}
	}
	if r.came.kind == listCall {
		r.known = true
		r.wanted = false
		r.listedAt = c.now
	}

	c.chooseWatchers()
	c.informAll()
	c.listOver()
}

// listOver has everybody who waited for a list advanced.
func (c *Core) listOver() {
	r := &c.roster
	r.waking = append(r.waking, r.waiting...)
	r.waiting = nil
	c.enqueue(r.ref)
}

// wakeWaiting has the next of those who waited for a list advanced.
func (c *Core) wakeWaiting() {
	r := &c.roster
	n := min(len(r.waking), takeIn)
	for _, w := range r.waking[:n] {
		if c.exists(w) {
			c.entity(w).lists = false
			c.enqueue(w)
		}
	}
	r.waking = r.waking[n:]
	if len(r.waking) == 0 {
		r.waking = nil
		return
	}

	r.wake(c.now)
}
