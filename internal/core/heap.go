package core

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
