package orchestrate

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

// List returns all polls, by name; with their last runs if those are wanted.
func (o *Orchestrator) List(runs bool) ([]View, error) {
	t, err := o.term()
	if err != nil {
		return nil, err
	}

	all := t.views(runs)
	for i := range all { // without the lock, since it takes long
		all[i].Poll = all[i].Redacted()
	}
	slices.SortFunc(all, func(a, b View) int { return strings.Compare(a.Name, b.Name) })

	return all, nil
}

// views returns all polls in any order, with their secrets, and with their last runs if those are wanted.
func (t *term) views(runs bool) []View {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]View, 0, len(t.entries))
	for _, e := range t.entries {
		v := e.view(runs)
		v.Latency = nil
		all = append(all, v)
	}

	return all
}

// Get returns the poll with a name, with its history.
func (o *Orchestrator) Get(name string) (View, error) {
	t, err := o.term()
	if err != nil {
		return View{}, err
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[name]
	if e == nil {
		return View{}, fmt.Errorf("poll %q: %w", name, ErrNoPoll)
	}

	v := e.view(true)
	v.Poll = v.Redacted()
	return v, nil
}

// Put keeps a new or changed poll in the store and has it run from now on. It reports whether the poll is new. An epoch
// other than 0 must be the current one.
func (o *Orchestrator) Put(ctx context.Context, p poll.Poll, epoch uint64) (created bool, err error) {
	if len(o.opts.Kinds) > 0 {
		if err := p.CheckKind(o.opts.Kinds); err != nil {
			return false, err
		}
	}

	err = o.edit(ctx, epoch, p.Name, func(ctx context.Context, t *term, old *entry) error {
		created = old == nil
		return t.put(ctx, p, old)
	})

	return created, err
}

// put keeps a poll in the place of an old one, which may be nil.
func (t *term) put(ctx context.Context, p poll.Poll, old *entry) error {
	if old != nil && old.fixed {
		return fmt.Errorf("poll %q: %w", p.Name, ErrFixed)
	}

	p.Since = t.o.now().UTC()
	if old != nil && sameSlots(old.poll, p) {
		p.Since = old.poll.Since
	}
	e, err := newEntry(p, false)
	if err != nil {
		return err
	}
	if err := t.saveFirst(ctx); err != nil {
		return err
	}
	if err := t.polls.Put(ctx, p); err != nil {
		return err
	}

	t.replace(old, e)
	return nil
}

// sameSlots reports whether a changed poll has the slots of the old one.
func sameSlots(old, changed poll.Poll) bool {
	return old.Enabled && changed.Enabled && old.Interval == changed.Interval && old.Cron == changed.Cron &&
		old.TimeZone == changed.TimeZone
}

// Remove removes a poll from the store. A poll in the configuration file stays.
func (o *Orchestrator) Remove(ctx context.Context, name string, epoch uint64) error {
	return o.edit(ctx, epoch, name, func(ctx context.Context, t *term, old *entry) error {
		stored := t.polls.Has(name)
		switch {
		case old == nil && !stored:
			return fmt.Errorf("poll %q: %w", name, ErrNoPoll)
		case !stored:
			return fmt.Errorf("poll %q: %w", name, ErrFixed)
		}

		if err := t.polls.Remove(ctx, name); err != nil {
			return err
		}
		if old != nil && !old.fixed {
			t.replace(old, nil)
		}
		return nil
	})
}

// edit changes polls: one change at a time, no longer than the term. It returns nil only if the term was in force until
// the end of the change.
func (o *Orchestrator) edit(ctx context.Context, epoch uint64, name string,
	change func(context.Context, *term, *entry) error) error {
	t, err := o.termAt(epoch)
	if err != nil {
		return err
	}

	t.editing.Lock()
	defer t.editing.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(poll.ErrTermEnded) })()
	if t.ctx.Err() != nil {
		return poll.ErrTermEnded
	}

	t.mu.Lock()
	old := t.entries[name]
	t.mu.Unlock()
	if err := change(ctx, t, old); err != nil {
		return err
	}

	if !t.Valid() {
		return fmt.Errorf("poll %q: it may have been changed, but this node no longer leads: %w", name, ErrNotLeading)
	}
	return nil
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

// RunNow has a poll run at once, besides its schedule, and returns the result.
func (o *Orchestrator) RunNow(ctx context.Context, name string, epoch uint64) (Run, error) {
	t, err := o.termAt(epoch)
	if err != nil {
		return Run{}, err
	}
	done, err := t.enqueueManual(name)
	if err != nil {
		return Run{}, err
	}

	select {
	case r := <-done:
		return r, nil
	case <-ctx.Done():
		return Run{}, fmt.Errorf("poll %q: the run was requested, but has not ended: %w", name, context.Cause(ctx))
	case <-t.ctx.Done():
		return Run{}, fmt.Errorf("poll %q: the run was requested, but the term has ended: %w",
			name, context.Cause(t.ctx))
	}
}

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
