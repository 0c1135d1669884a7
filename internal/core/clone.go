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
	d.freeElections = slices.Clone(c.freeElections)
	d.freeSights = slices.Clone(c.freeSights)
	d.held = slices.Clone(c.held)
	d.queue = slices.Clone(c.queue)
	d.due = slices.Clone(c.due)
	d.member.fresh = slices.Clone(c.member.fresh)
	d.member.claims = slices.Clone(c.member.claims)

	d.elections = make([]*election, len(c.elections))
	for i, e := range c.elections {
		if e != nil {
			copied := *e
			d.elections[i] = &copied
		}
	}
	d.sights = make([]*sight, len(c.sights))
	for i, s := range c.sights {
		if s != nil {
			copied := *s
			copied.deps = slices.Clone(s.deps)
			copied.waiting = slices.Clone(s.waiting)
			d.sights[i] = &copied
		}
	}
	return &d
}

// Awaits reports whether an answer to the request would still be taken in.
func (c *Core) Awaits(id uint64) bool {
	r := ref(id & (1<<32 - 1))
	return !c.closed && c.exists(r) && c.entity(r).call.id == id
}
