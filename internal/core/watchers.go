package core

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is how a leader chooses who watches it closely, so that all others can watch it seldom: see idle.go. Those
// who would take over are chosen, in the order of their rank. The leader lists the members every half lease, publishes
// its choice with its heartbeat, and touches the register of whoever gets a place: that member's next heartbeat meets a
// record that has moved, and the member reads.

// maxWatchers is how many members a list names at most, if a leader has several elections with different candidates.
const maxWatchers = 32

// appoints reports whether the member leads elections that others should watch. If it leads very many, every candidate
// is to take its share of them, and watches closely.
func (c *Core) appoints() bool {
	return c.cfg.Watchers > 0 && !c.cfg.OwnLease && !c.closing && len(c.led) > 0 && len(c.led) <= manyFree
}

// appoint has the members listed when their turn has come.
func (c *Core) appoint() {
	r := &c.roster
	if !c.appoints() {
		r.list = watchList{}
		r.published = nil
		return
	}

	c.inheritWatchers()
	due := r.appointedAt.Add(c.appointInterval())
	if c.now >= due {
		r.appointedAt = c.now
		r.appointSoon = max(0, r.appointSoon-1)
		r.skims = true
		due = r.appointedAt.Add(c.appointInterval())
	}

	r.wake(due)
}

// appointAnew has watchers chosen for an election that this member has won. It takes two lists to know who sends
// heartbeats. Members that watch a former leader seldom are informed of this one.
func (c *Core) appointAnew() {
	r := &c.roster
	r.appointSoon = 2
	r.appointedAt = c.now
	r.informs = r.heard != nil && !c.notified
	if r.informs {
		r.appointedAt = c.now.Add(-c.appointInterval()) // list them at once
	}
}

// appointInterval is the time from one list of the members to the next. While there are so few members that all of them
// watch closely, a list is of little use.
func (c *Core) appointInterval() time.Duration {
	switch {
	case c.roster.appointSoon > 0:
		return c.cfg.HeartbeatInterval * 5 / 4 // by then everybody has sent another
	case len(c.roster.byName) <= c.cfg.Watchers:
		return idleLeast * c.cfg.LeaseDuration
	}

	return c.cfg.LeaseDuration / 2
}

// chooseWatchers chooses anew, after a list of the members.
func (c *Core) chooseWatchers() {
	r := &c.roster
	if !c.appoints() || r.published != nil && r.appointSoon > 0 { // they are inherited, and the next list shows more
		return
	}

	list := watchList{Enough: true, Members: 1}
	for _, p := range r.peers.all {
		if p != nil && p.live && p.beats {
			list.Members++
		}
	}

	for _, i := range c.led {
		name := c.elections.all[i].name
		best := r.firstOf(name, c.cfg.Watchers)
		list.Elections = append(list.Elections, name)
		list.Enough = list.Enough && len(best) == c.cfg.Watchers
		for _, id := range best {
			if !slices.Contains(list.IDs, id) {
				list.IDs = append(list.IDs, id)
			}
		}
	}

	if list.Members <= c.cfg.Watchers+1 || len(list.IDs) > maxWatchers { // everybody watches closely
		list = watchList{}
	}

	c.callWatchers(list.IDs)
	c.publishWatchers(list)
}

// publishWatchers has a list published with the next heartbeat.
func (c *Core) publishWatchers(list watchList) {
	r := &c.roster
	slices.Sort(list.Elections)
	r.list = list
	r.published = nil
	if list.Members > 0 {
		r.published, _ = json.Marshal(list) // which holds nothing that JSON cannot hold
		r.heard = &list                     // some watch seldom from now on
		r.heardAt = c.now
	}
}

// callWatchers has those watch closely who did not until now, as far as that is known.
func (c *Core) callWatchers(ids []string) {
	known := c.roster.list.IDs
	if heard := c.heardLately(); known == nil && heard != nil {
		known = heard.IDs
	}

	for _, id := range ids {
		if !slices.Contains(known, id) {
			c.callMember(id)
		}
	}
}

// heardLately returns what a leader has published a short time ago, or nil.
func (c *Core) heardLately() *watchList {
	if c.now < c.roster.heardAt.Add(2*c.cfg.LeaseDuration) {
		return c.roster.heard
	}

	return nil
}

// firstWatcher reports whether this member is the best candidate for an election, as its last leader has published.
func (c *Core) firstWatcher(e *election) bool {
	l := c.heardLately()
	return l != nil && len(l.Elections) == 1 && l.Elections[0] == e.name && len(l.IDs) > 0 && l.IDs[0] == c.cfg.ID
}

// callMember touches the register of a member, so that it reads its elections.
func (c *Core) callMember(id string) {
	name := driver.MemberRegister(id)
	p := c.roster.peer(name)
	if p == nil {
		return
	}

	s := c.sightOf(name)
	if len(s.pokes) == 0 {
		s.pokes = []poke{{holder: p.who, until: c.now.Add(askTimeouts * c.timeout)}}
		c.enqueue(s.ref)
	}
}

// callSuccessor has a member watch that is to take over and was not named until now.
func (c *Core) callSuccessor(id string) {
	r := &c.roster
	if id != "" && id != anyone && r.published != nil && !slices.Contains(r.list.IDs, id) {
		c.callMember(id)
	}
}

// publishedInfo is what the member register carries: what the member says of itself, and who watches it closely.
func (c *Core) publishedInfo() []byte {
	list := c.roster.published
	if list == nil {
		return c.info
	}

	own := c.info
	if len(own) == 0 {
		own = []byte("{}")
	}

	var b []byte
	switch {
	case own[0] != '{' || own[len(own)-1] != '}':
		return c.info
	case len(own) == 2:
		b = append(b, `{"watchers":`...)
	default:
		b = append(b, own[:len(own)-1]...)
		b = append(b, `,"watchers":`...)
	}

	b = append(b, list...)
	b = append(b, '}')
	if len(b) > driver.MaxData {
		return c.info
	}

	return b
}

// firstOf returns the IDs of the best candidates for an election that were seen to send heartbeats, the best first.
func (r *roster) firstOf(name string, n int) []string {
	var ids []string
	named := r.named[name]
	all := r.everywhere
	for len(ids) < n && len(named)+len(all) > 0 {
		from := &named
		if len(named) == 0 || len(all) > 0 && r.before(all[0], named[0]) {
			from = &all
		}

		if p := r.peers.all[(*from)[0]]; p.beats {
			ids = append(ids, p.id)
		}
		*from = (*from)[1:]
	}

	return ids
}
