package core

import (
	"bytes"
	"encoding/json"
	"slices"
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
	coming    []driver.Record // of a list that is taken in, portion by portion
	came      call            // its request
	round     uint64          // counts the lists
	waiting   []ref           // who is advanced when a list is complete
	waking    []ref           // those of the last list who were not advanced yet
	attending bool            // attend waits for a list
	left      int             // how many of the elections are not yet attended to

	handoverAt Time // when an unhealthy member next searches for a successor
	preemptAt  Time // when a member next searches for leaders that it outranks
}

// peer is another member.
type peer struct {
	standing
	who       driver.Identity
	rev       string
	nonce     uint64
	edits     uint64
	data      []byte
	since     Time // when this heartbeat was first received
	lease     time.Duration
	round     uint64
	live      bool // its heartbeat had not expired when it was last listed
	candidate bool // in the elections that it names
	elections []string
	points    []uint64 // its places on the ring
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
	if !r.wanted || c.closing {
		return
	}
	r.wanted = false
	c.send(&r.entity, listCall, List, driver.Record{Name: driver.MemberPrefix})
	r.call.until = c.now.Add(ListTimeouts * c.timeout)
	r.wake(r.call.until)
}

// listAnswered takes in that a list was answered, or failed.
func (c *Core) listAnswered(done call, o Outcome) {
	r := &c.roster
	r.came = done
	r.wanted = false
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
	for i, p := range r.peers.all {
		if p != nil && p.round != r.round {
			c.dropPeer(uint32(i))
		}
	}
	r.known = true
	r.wanted = false
	r.listedAt = c.now
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

// takeMember takes in the register of a member, and returns what that has cost.
func (c *Core) takeMember(rec *driver.Record) int {
	r := &c.roster
	if rec.Name == c.member.rec.Name {
		return 1
	}

	c.showSight(rec)
	i, ok := r.byName[rec.Name]
	if rec.Vacant() || rec.Name != driver.MemberRegister(rec.Holder.ID) { // else something else has written it
		if ok {
			c.dropPeer(i)
		}
		return 1
	}

	if r.byName == nil {
		r.byName = map[string]uint32{}
		r.named = map[string]order{}
	}

	if !ok {
		i = r.peers.add(&peer{})
		r.byName[rec.Name] = i
	}

	p := r.peers.all[i]
	p.round = r.round
	edited := rec.Holder == p.who && rec.Nonce == p.nonce && rec.Edits > p.edits // which gives no time (rule 2)
	if rec.Rev != p.rev && !edited {
		p.since = c.watchedSince(rec)
	}

	p.rev = rec.Rev
	p.nonce = rec.Nonce
	p.edits = rec.Edits
	p.lease = rec.Duration

	live := c.now < p.since.Add(p.lease) && !c.provedDead(rec)
	if ok && live == p.live && rec.Holder == p.who && bytes.Equal(rec.Data, p.data) {
		return 1
	}

	cost := 8 + len(p.elections) + len(rec.Data)/32
	c.unrank(i)
	p.who = rec.Holder
	p.live = live
	p.data = rec.Data
	c.learnPeer(p)
	c.enrank(i)
	return cost + len(p.elections) + 2*len(p.points)
}

// watchedSince is when a heartbeat was first received: now, unless it is watched already.
func (c *Core) watchedSince(rec *driver.Record) Time {
	if i, ok := c.sighted[rec.Name]; ok {
		if w := &c.sights.all[i].watch; w.seen && w.rec.Rev == rec.Rev {
			return w.since
		}
	}

	return c.now
}

// showSight shows what was listed to whoever watches the register, unless the watcher has seen something newer. Where
// the watcher waits for an answer of its own, it takes in only that the heartbeat was replaced: should the one before
// come back, the store has gone back, and it is watched anew (rule 2).
func (c *Core) showSight(rec *driver.Record) {
	i, ok := c.sighted[rec.Name]
	if !ok {
		return
	}

	s := c.sights.all[i]
	listed := c.roster.came.order()
	switch {
	case s.proof == 0 || s.proof >= listed:
		return
	case s.call.id == 0:
		c.seen(s, rec, c.roster.came)
	default:
		s.watch.replaced(rec, listed, c.seq)
	}

	c.enqueue(s.ref)
}

// learnPeer reads what a member says of itself. One whose register cannot be read says nothing, and is no candidate.
func (c *Core) learnPeer(p *peer) {
	var says struct {
		Eligible  bool     `json:"eligible"`
		Healthy   bool     `json:"healthy"`
		Priority  int      `json:"priority"`
		Region    string   `json:"region"`
		Elections []string `json:"elections"`
	}
	readable := json.Unmarshal(p.data, &says) == nil
	p.standing = standing{p.who.ID, c.rank.place(says.Priority, says.Region)}
	p.candidate = readable && p.live && says.Eligible && says.Healthy
	p.elections = nil
	if p.candidate {
		slices.Sort(says.Elections)
		p.elections = slices.Compact(says.Elections)
	}

	if slices.Contains(p.elections, everyElection) {
		p.elections = []string{everyElection}
	}
}

// everyElection stands for more elections than a member lists.
const everyElection = "*"
