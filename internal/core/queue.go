package core

// This file holds what makes a step cost no more than what has changed: entities are advanced only when something has
// happened to them, or their time has come. The due times are a heap, in which every entity knows its place.

// exists reports whether a ref still names an entity: elections, sights and retirements come and go.
func (c *Core) exists(r ref) bool {
	switch r.kind() {
	case memberKind, floorKind, rosterKind:
		return true
	case electionKind:
		return c.elections.get(r.index()) != nil
	case sightKind:
		return c.sights.get(r.index()) != nil
	case retireKind:
		return c.retirements.get(r.index()) != nil
	}

	return false
}

func (c *Core) entity(r ref) *entity {
	switch r.kind() {
	case electionKind:
		return &c.elections.all[r.index()].entity
	case sightKind:
		return &c.sights.all[r.index()].entity
	case floorKind:
		return &c.floor.entity
	case retireKind:
		return &c.retirements.all[r.index()].entity
	case rosterKind:
		return &c.roster.entity
	}

	return &c.member.entity
}

// enqueue has an entity advanced in this step, or in the next one if this one has done its portion.
func (c *Core) enqueue(r ref) {
	e := c.entity(r)
	if !e.queued {
		e.queued = true
		c.queue = append(c.queue, r)
	}
}

// enqueueAll has every election advanced, in portions: at the end, after a reconnection, and when the member may lead.
func (c *Core) enqueueAll() { c.all = 0 }

// schedule puts an entity at its place in the heap of due times. What has just been advanced is not due again at
// the same moment: it would be advanced for ever.
func (c *Core) schedule(r ref, e *entity) {
	if !c.exists(r) || c.entity(r) != e {
		return // it was dropped
	}

	e.due = e.next
	if e.due <= c.now {
		e.due = c.now + 1
	}

	switch {
	case e.due == Never && e.place >= 0:
		c.unschedule(e)
	case e.due == Never:
	case e.place < 0:
		e.place = int32(len(c.due))
		c.due = append(c.due, r)
		c.up(int(e.place))
	default:
		c.down(c.up(int(e.place)))
	}
}

func (c *Core) unschedule(e *entity) {
	if e.place < 0 {
		return
	}

	i := int(e.place)
	e.place = -1
	last := len(c.due) - 1
	moved := c.due[last]
	c.due = c.due[:last]
	if i < last {
		c.due[i] = moved
		c.entity(moved).place = int32(i)
		c.down(c.up(i))
	}
}

func (c *Core) before(a, b ref) bool {
	x := c.entity(a).due
	y := c.entity(b).due
	return x < y || x == y && a < b
}

func (c *Core) exchange(i, j int) {
	c.due[i], c.due[j] = c.due[j], c.due[i]
	c.entity(c.due[i]).place = int32(i)
	c.entity(c.due[j]).place = int32(j)
}

func (c *Core) up(i int) int {
	for i > 0 && c.before(c.due[i], c.due[(i-1)/2]) {
		c.exchange(i, (i-1)/2)
		i = (i - 1) / 2
	}

	return i
}

func (c *Core) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(c.due) && c.before(c.due[child], c.due[least]) {
				least = child
			}
		}

		if least == i {
			return
		}

		c.exchange(i, least)
		i = least
	}
}
