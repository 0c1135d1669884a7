package poll

import (
	"container/heap"
	"fmt"
	"slices"
)

// runNow queues a slot that is on no schedule.
func (c *conduct) runNow(name string) (chan Run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[name]
	switch {
	case e == nil:
		return nil, fmt.Errorf("poll %q: %w", name, ErrNoPoll)
	case c.quiet:
		return nil, fmt.Errorf("poll %q: %w", name, ErrStopping)
	}
	s := &slot{entry: e, due: c.o.now().UnixMilli(), manual: true, done: make(chan Run, 1)}
	for e.find(identity{due: s.due, manual: true}) != nil {
		s.due++
	}
	e.putBack(s)
	c.open[s] = struct{}{}
	c.list(e)
	c.stir()
	return s.done, nil
}

// replace puts a poll in the place of another; either may be nil. What is under way, or waits, stays the poll's, unless it is conducted no more.
func (c *conduct) replace(old, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.o.now()
	c.moved++
	defer c.stir()
	if old != nil && e != nil && e.poll.Since.Equal(old.poll.Since) { // its slots are the same
		old.poll = e.poll
		old.write()
		return
	}
	var queue, out []*slot
	if old != nil {
		if old.place >= 0 {
			heap.Remove(&c.heap, old.place)
		}
		delete(c.entries, old.poll.Name)
		stays := func(s *slot) bool { return e != nil && (e.poll.Enabled || s.manual) }
		for _, s := range slices.Concat(old.queue, old.out) {
			if stays(s) {
				s.entry = e
				continue
			}
			s.settled = true
			delete(c.open, s)
			if s.done != nil {
				s.done <- Run{Slot: s.id(), Due: s.dueTime(), Outcome: outcomeError, Message: "the poll was removed"}
			}
		}
		gone := func(s *slot) bool { return s.settled }
		queue, out = slices.DeleteFunc(old.queue, gone), slices.DeleteFunc(old.out, gone)
		old.queue, old.out = nil, nil
	}
	if e == nil {
		return
	}
	if old != nil {
		e.record, e.queue, e.out = old.record, queue, out
	}
	c.entries[e.poll.Name] = e
	c.enter(e, now, now, now)
	c.list(e)
	select {
	case c.needed <- struct{}{}:
	default:
	}
}
