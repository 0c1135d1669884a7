package orchestrate

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

// enqueueManual queues a slot that is not on the schedule. The channel receives its result.
func (t *term) enqueueManual(name string) (<-chan Run, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[name]
	switch {
	case e == nil:
		return nil, fmt.Errorf("poll %q: %w", name, ErrNoPoll)
	case t.quiescing:
		return nil, fmt.Errorf("poll %q: %w", name, ErrStopping)
	}

	s := newSlot(e, schedule.Slot{Due: t.o.now().UnixMilli(), Manual: true})
	s.done = make(chan Run, 1)
	for e.find(s.Slot) != nil {
		s.Due++
	}

	e.enqueue(s)
	t.open[s] = struct{}{}
	t.addPendingLocked(e)
	t.wakeLoop()
	return s.done, nil
}

// replace puts an entry in the place of another one; either may be nil. Open slots stay, unless the poll is no longer
// run.
func (t *term) replace(old, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	defer t.wakeLoop()
	if old != nil && e != nil && e.poll.Since.Equal(old.poll.Since) { // its slots are the same
		old.poll = e.poll
		old.prefix = e.prefix
		return
	}

	if old != nil {
		t.removeLocked(old, e)
	}
	if e == nil {
		if len(t.entries) == 0 && t.stopWatch != nil {
			t.stopWatch() // without polls no worker is needed
		}
		return
	}

	now := t.o.now()
	t.entries[e.poll.Name] = e
	t.beginLocked(e, now, now, now)
	t.addPendingLocked(e)
	select {
	case t.firstPoll <- struct{}{}:
	default:
	}
}

// removeLocked removes an entry. Its successor, which may be nil, gets its history and its open slots.
func (t *term) removeLocked(old, successor *entry) {
	if old.heapIndex >= 0 {
		heap.Remove(&t.due, old.heapIndex)
	}
	delete(t.entries, old.poll.Name)

	for _, s := range slices.Concat(old.queue, old.running) {
		if successor != nil && (successor.poll.Enabled || s.Manual) {
			s.entry = successor
			continue
		}
		s.settled = true
		delete(t.open, s)
		if s.done != nil {
			s.done <- Run{Slot: s.String(), Due: s.DueTime(), Outcome: outcomeError, Message: "the poll was removed"}
		}
	}

	if successor != nil {
		settled := func(s *slot) bool { return s.settled }
		successor.history = old.history
		successor.queue = slices.DeleteFunc(old.queue, settled)
		successor.running = slices.DeleteFunc(old.running, settled)
	}
	old.queue = nil
	old.running = nil
}
