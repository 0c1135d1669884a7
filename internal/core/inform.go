package core

import (
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is how a new leader informs those that watch seldom that it leads, on a store that notifies nobody. They
// read no register but their own, so it touches that: their next heartbeat meets a record that has moved, and they
// read. It costs nothing while nothing changes. Whoever is not reached reads when its time has come.

const (
	informAtOnce = 16                     // how many members are informed at the same time, at the most
	informEvery  = 100 * time.Millisecond // from one portion to the next
)

// informAll has all members informed of who leads, after a list, but for those that watch closely.
func (c *Core) informAll() {
	r := &c.roster
	if !r.informs {
		return
	}

	r.informs = false
	r.uninformed = nil
	for _, p := range r.peers.all {
		if p != nil && p.live && !slices.Contains(r.list.IDs, p.id) {
			r.uninformed = append(r.uninformed, p.id)
		}
	}
}

// inform informs the next members.
func (c *Core) inform() {
	r := &c.roster
	if !c.appoints() {
		r.informs = false
		r.uninformed = nil
		r.informing = nil
		return
	}

	if c.now >= r.informAt {
		r.informing = slices.DeleteFunc(slices.Clone(r.informing), func(name string) bool { return !c.touching(name) })
		for len(r.uninformed) > 0 && len(r.informing) < informAtOnce {
			id := r.uninformed[0]
			r.uninformed = r.uninformed[1:]
			c.callMember(id)
			r.informing = append(r.informing, driver.MemberRegister(id))
		}

		r.informAt = c.now.Add(informEvery)
	}

	if len(r.uninformed) > 0 {
		r.wake(r.informAt)
	}
}

// touching reports whether the register of a member is still to be touched.
func (c *Core) touching(name string) bool {
	i, ok := c.sighted[name]
	return ok && len(c.sights.all[i].pokes) > 0
}

// inheritWatchers names those that the former leader has named, until this one has found out by itself who sends
// heartbeats. So all others need not watch closely meanwhile.
func (c *Core) inheritWatchers() {
	r := &c.roster
	heard := c.heardLately()
	if r.published != nil || r.appointSoon == 0 || heard == nil || !slices.Contains(heard.IDs, c.cfg.ID) {
		return
	}

	list := watchList{Enough: heard.Enough, Members: heard.Members - 1}
	for _, id := range heard.IDs {
		if id != c.cfg.ID {
			list.IDs = append(list.IDs, id)
		}
	}

	for _, i := range c.led {
		list.Elections = append(list.Elections, c.elections.all[i].name)
		if !slices.Contains(heard.Elections, c.elections.all[i].name) {
			return
		}
	}

	if len(list.IDs) > 0 {
		c.publishWatchers(list)
	}
}
