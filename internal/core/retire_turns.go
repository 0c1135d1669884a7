package core

// This file keeps the removal of very many registers from filling the store with requests, and ends retirements.

// maxRetiring is how many retirements wait for an answer of the store at once. The others wait for their turn.
const maxRetiring = 256

// turns is who may ask the store for something.
type turns struct {
	active  int   // retirements that wait for an answer
	waiting []ref // retirements that wait for their turn, first come first
}

// asks reports whether the next step of a retirement is a request.
func (t *retirement) asks() bool {
	switch t.phase {
	case retireSilent, retireRest, retireExpire, retireRaise:
		return false
	}

	return true
}

// itsTurn reports whether a retirement may send a request. If not, it is advanced when its turn has come.
func (c *Core) itsTurn(t *retirement) bool {
	if c.retiring.active < maxRetiring {
		return true
	}

	t.waits = true
	t.giveUp = 0
	t.next = Never
	c.retiring.waiting = append(c.retiring.waiting, t.ref)
	return false
}

// tookTurn notes what a retirement has done with its turn. If it has to wait for something first, another has the turn.
func (c *Core) tookTurn(t *retirement) {
	if t.call.id != 0 {
		c.retiring.active++
		return
	}

	c.nextTurn()
}

// nextTurn gives the turn to the retirement that has waited longest.
func (c *Core) nextTurn() {
	q := &c.retiring
	for len(q.waiting) > 0 {
		r := q.waiting[0]
		q.waiting = q.waiting[1:]
		if c.exists(r) && c.retirements.all[r.index()].waits {
			c.retirements.all[r.index()].waits = false
			c.enqueue(r)
			return
		}
	}
}

// retireDone ends a retirement.
func (c *Core) retireDone(t *retirement, code ResultCode) {
	if code == OK {
		c.emit(Event{Kind: EventRetired, Register: t.name, Epoch: t.rec.Epoch})
	}

	c.emit(Result{ID: t.id, Result: code, Epoch: t.rec.Epoch})
	c.unschedule(&t.entity)
	c.retirements.drop(t.ref.index())
}
