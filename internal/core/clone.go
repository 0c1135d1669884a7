package core

import (
	"maps"
	"slices"
)

// Clone returns a core that goes on from the same state, with a source of its own. Slices that are only ever
// replaced are shared.
func (c *Core) Clone(src Source) *Core {
	d := *c
	d.src = src
	d.out = nil
	d.names = maps.Clone(c.names)
	d.sighted = maps.Clone(c.sighted)
	d.memory = maps.Clone(c.memory)
	d.held = slices.Clone(c.held)
	d.ends = slices.Clone(c.ends)
	d.queue = slices.Clone(c.queue)
	d.due = slices.Clone(c.due)
	d.member.fresh = slices.Clone(c.member.fresh)
	d.member.claims = slices.Clone(c.member.claims)

	d.led = slices.Clone(c.led)
	d.rivals = slices.Clone(c.rivals)
	d.roster = c.roster.clone()

	d.elections = c.elections.clone()
	d.sights = c.sights.clone()
	d.retirements = c.retirements.clone()
	d.retiring.waiting = slices.Clone(c.retiring.waiting)
	d.dropped = slices.Clone(c.dropped)
	d.droppedAt = maps.Clone(c.droppedAt)
	d.floor.waiting = slices.Clone(c.floor.waiting)
	for _, s := range d.sights.all {
		if s != nil {
			s.deps = slices.Clone(s.deps)
			s.waiting = slices.Clone(s.waiting)
		}
	}

	return &d
}

// clone returns a roster of its own.
func (r *roster) clone() roster {
	d := *r
	d.peers = r.peers.clone()
	d.byName = maps.Clone(r.byName)
	d.everywhere = slices.Clone(r.everywhere)
	d.named = maps.Clone(r.named)
	for name, o := range d.named {
		d.named[name] = slices.Clone(o)
	}

	d.ring = r.ring.clone()
	d.waiting = slices.Clone(r.waiting)
	d.waking = slices.Clone(r.waking)
	return d
}

// Awaits reports whether an answer to the request would still be taken in.
func (c *Core) Awaits(id uint64) bool {
	r := ref(id & (1<<32 - 1))
	return !c.closed && c.exists(r) && c.entity(r).call.id == id
}
