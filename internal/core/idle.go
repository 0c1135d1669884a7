package core

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is how a standby watches a leader seldom, because others watch it closely. The leader names those others in
// its heartbeat: see watchers.go. That is a courtesy to the store, and no rule depends on it: whoever watches seldom
// counts the lease of the leader from anew each time (rule 2).
//
// A standby that is not named idles: it reads neither the heartbeat of the leader nor the elections that depend on it.
// From time to time it watches closely, until it sees the leader send a heartbeat. If none comes, it takes over as
// everybody does. Each member does so at a time of its own. So of many members one watches closely at most moments, and
// the death of the leader is noticed soon even if all who were named have died with it.

// watchList is what a leader publishes with its heartbeat.
type watchList struct {
	IDs       []string `json:"ids"`       // who watches closely
	Enough    bool     `json:"enough"`    // no election needs more candidates that watch closely
	Elections []string `json:"elections"` // that the list is for
	Members   int      `json:"members"`   // how many members are alive
}

// idleness is how a standby watches a leader.
type idleness struct {
	spare      bool // others watch it closely
	idles      bool // so it is not read before idleUntil, unless something asks for that
	anew       bool // the next read begins the watch anew
	idleUntil  Time
	closeUntil Time       // another member has asked this one to watch
	eagerUntil Time       // the same, and its elections are read often
	data       []byte     // what list was read from
	list       *watchList // what its holder has published; nil if nothing
}

const (
	idleLeast  = 3                // leases: how long a standby idles at the least
	idleEach   = time.Second      // for each member: so that all together send about as much, however many they are
	idleMost   = 10 * time.Minute // so that a standby knows who leads, even where nobody notifies it
	eagerBeats = 2                // heartbeat intervals: how long a member that was woken reads its elections often
)

// idleTime returns the time from one watch of a standby to the next, in a cluster of that size.
func (c *Core) idleTime(members int) time.Duration {
	least := idleLeast * c.cfg.LeaseDuration
	return min(max(time.Duration(min(members, 1<<20))*idleEach, least), max(least, idleMost))
}

// idleUntil returns when a standby that idles from now on watches again. Each member has a phase of its own, so that
// they do not all watch at the same time.
func (c *Core) idleUntil(members int) Time {
	d := c.idleTime(members)
	past := (time.Duration(c.now) - c.phaseOf(d)) % d
	if past < 0 {
		past += d
	}

	return c.now.Add(d - past)
}

// considerIdling decides whether the leader is to be watched closely, after its heartbeat register was read.
func (c *Core) considerIdling(s *sight) {
	w := &s.watch
	if s.anew { // what was seen before it idled is too old to count
		s.anew = false
		s.idles = false
		w.since = c.now
		return
	}

	if c.cfg.Watchers == 0 {
		return
	}

	var list *watchList
	if w.renewed && w.since == c.now {
		list = c.listOf(s)
	}

	if !c.dispensable(s, list) {
		c.watchClosely(s)
		return
	}

	c.decided(0, s.name, "it sends heartbeats, and others watch it closely: read it again after a while")
	s.spare = true
	s.idles = true
	s.anew = true
	s.idleUntil = c.idleUntil(list.Members)
}

// watchClosely notes that a leader is to be watched closely: it is silent, or its list does not do without this member.
func (c *Core) watchClosely(s *sight) {
	if s.spare {
		s.spare = false
		c.enqueue(c.floor.ref) // which was not kept fresh
		c.enqueue(c.roster.ref)
		for _, i := range s.deps { // they are polled from now on
			c.enqueue(c.elections.all[i].ref)
		}
	}
}

// listOf returns what the leader has published, or nil.
func (c *Core) listOf(s *sight) *watchList {
	if s.data == nil || !bytes.Equal(s.data, s.watch.rec.Data) {
		var says struct {
			Watchers *watchList `json:"watchers"`
		}
		if json.Unmarshal(s.watch.rec.Data, &says) != nil {
			says.Watchers = nil
		}

		s.data = s.watch.rec.Data
		s.list = says.Watchers
	}

	if s.list != nil && len(s.deps) > 0 {
		c.roster.heard = s.list
		c.roster.heardAt = c.now
	}

	return s.list
}

// dispensable reports whether others watch a leader closely enough: for every election of this member that depends on
// it, and for which nothing is under way.
func (c *Core) dispensable(s *sight, list *watchList) bool {
	if list == nil || slices.Contains(list.IDs, c.cfg.ID) || c.now < s.closeUntil {
		return false
	}

	if len(s.deps) == 0 || len(s.deps) > manyFree || len(s.pokes) > 0 {
		return false
	}

	for _, i := range s.deps {
		e := c.elections.all[i]
		if e.wanted && c.cfg.Eligible && !list.Enough || !slices.Contains(list.Elections, e.name) {
			return false
		}

		if len(e.asks) > 0 || len(e.claims) > 0 || e.check != 0 || e.rec.Next != "" || c.now < e.barred {
			return false
		}
	}

	return true
}

// wakeIdle ends the idling of a standby: it watches closely from now on.
func (c *Core) wakeIdle(s *sight) {
	s.idles = false
	c.readDependents(s)
	c.enqueue(s.ref)
}

// readDependents has the elections read that depend on a heartbeat register.
func (c *Core) readDependents(s *sight) {
	for _, i := range s.deps {
		c.elections.all[i].stale = true
		c.enqueue(c.elections.all[i].ref)
	}
}

// called takes in that another member has touched this member's register: it is to watch closely, or to take over, or
// somebody else has.
func (c *Core) called() {
	for _, s := range c.sights.all {
		if s == nil || len(s.deps) > manyFree {
			continue
		}

		if !s.spare {
			c.readDependents(s)
			continue
		}

		s.closeUntil = c.now.Add(c.cfg.LeaseDuration) // the leader publishes its list with its next heartbeat
		s.eagerUntil = c.now.Add(eagerBeats * c.cfg.HeartbeatInterval)
		c.watchClosely(s)
		c.wakeIdle(s)
	}
}

// eager reports whether the record of an election is read often: its leader, or somebody else, has asked for that.
func (c *Core) eager(r *driver.Record) bool {
	i, ok := c.sighted[r.Via]
	return ok && c.now < c.sights.all[i].eagerUntil
}

// idling reports whether an election is not polled, because others watch its leader closely. It is read once, each time
// that this member watches the leader.
func (c *Core) idling(e *election) bool {
	i, ok := c.sighted[e.via]
	return ok && c.sights.all[i].spare
}

// spares reports whether others watch every leader closely that this member follows.
func (c *Core) spares() bool {
	any := false
	for _, s := range c.sights.all {
		if s == nil || len(s.deps) == 0 {
			continue
		}

		if !s.spare {
			return false
		}

		any = true
	}

	return any
}

// WatchesSeldom reports whether this member watches a leader seldom.
func (c *Core) WatchesSeldom() bool {
	return slices.ContainsFunc(c.sights.all, func(s *sight) bool { return s != nil && s.idles })
}

// sightDue is when a heartbeat register is to be read, if nothing else asks for that.
func (c *Core) sightDue(s *sight) Time {
	at := s.watch.readAt(c.cfg.TakeoverDelay)
	switch {
	case s.idles:
		return s.idleUntil
	case s.spare: // members idle until different times, which keeps them out of step
		return at
	}

	return c.phased(at, &s.watch)
}
