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
	d.queue = slices.Clone(c.queue)
	d.due = slices.Clone(c.due)
	d.member.fresh = slices.Clone(c.member.fresh)
	d.member.claims = slices.Clone(c.member.claims)

	d.elections = c.elections.clone()
	d.sights = c.sights.clone()
	d.retirements = c.retirements.clone()
	d.floor.waiting = slices.Clone(c.floor.waiting)
	for _, s := range d.sights.all {
		if s != nil {
			s.deps = slices.Clone(s.deps)
			s.waiting = slices.Clone(s.waiting)
		}
	}
	return &d
}

// Awaits reports whether an answer to the request would still be taken in.
func (c *Core) Awaits(id uint64) bool {
	r := ref(id & (1<<32 - 1))
	return !c.closed && c.exists(r) && c.entity(r).call.id == id
}
