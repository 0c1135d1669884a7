package orchestrate

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/work"
)

// This file is what a term takes over: the polls, the checkpoint of the last term, and what workers have of its slots.

// load reads the polls and the checkpoint of the last term, and continues there.
func (t *term) load() error {
	stored, damaged, err := t.polls.Load(t.ctx)
	if err != nil {
		return err
	}
	if damaged != nil {
		t.o.opts.Log.Error("some polls in the store cannot be parsed, and do not run", "error", damaged)
	}

	cp, err := readCheckpoint(t.Saved())
	if err != nil {
		t.o.opts.Log.Error("the checkpoint cannot be parsed: slots since the last leader's end may be lost",
			"error", err)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if cp.Through == 0 {
		cp.Through = t.began.UnixMilli()
		t.firstLeader = t.Epoch == 1
	}
	if err := t.addEntriesLocked(stored); err != nil {
		return err
	}

	t.restoreLocked(cp)
	t.emitMissedLocked()
	t.openPool(cp)
	return nil
}

// addEntriesLocked adds the polls of the store, and those of the configuration file, which win.
func (t *term) addEntriesLocked(stored []poll.Poll) error {
	for _, p := range stored {
		e, err := newEntry(p, false)
		if err != nil { // for example a time zone that this machine does not know
			t.o.opts.Log.Error("a poll cannot be run", "poll", p.Name, "error", err)
			continue
		}
		t.entries[p.Name] = e
	}

	for _, p := range t.o.opts.Fixed {
		e, err := newEntry(p, true)
		if err != nil {
			return err
		}
		t.entries[p.Name] = e
	}

	return nil
}

// restoreLocked continues where a checkpoint ends.
func (t *term) restoreLocked(cp checkpoint) {
	now := t.began
	t.through = time.UnixMilli(cp.Through)
	t.repeatMark = cp.Again

	ahead := 0
	furthest := t.through
	for _, e := range t.entries {
		start, restarted := t.beginLocked(e, t.through, time.UnixMilli(cp.Again), now)
		if restarted {
			ahead++
			furthest = later(furthest, start)
		}
	}
	t.checkpointAheadLocked(ahead, furthest, now)

	for _, id := range cp.Open {
		t.restoreSlotLocked(id)
	}
	for _, name := range cp.Down {
		if e := t.entries[name]; e != nil {
			e.state = Down
			e.since = now
		}
	}
}

// restoreSlotLocked queues an open slot of the last term.
func (t *term) restoreSlotLocked(text string) {
	id, ok := schedule.ParseSlot(text)
	e := t.entries[id.Name]
	if !ok || e == nil || !e.poll.Enabled || id.Manual {
		return
	}
	if t.repeatOfLocked(id.Due) != id.Repeat && e.next.UnixMilli() <= id.Due {
		return // it is run again when it is due by this node's clock
	}

	s := newSlot(e, id)
	if e.notYetDue(id.Due) { // it would be queued once more
		e.enqueueEarly(s)
	} else {
		e.enqueue(s)
	}
	t.open[s] = struct{}{}
	t.addPendingLocked(e)
}

// beginLocked computes the slots of a poll from a time on, up to which all slots were queued, and returns the time
// that it begins at. All slots up to repeat were queued too, before a clock was set back, so that the poll begins
// there if it can wait for so long. It reports whether the poll begins at now instead, because that time is too far
// ahead.
func (t *term) beginLocked(e *entry, from, repeat, now time.Time) (start time.Time, restarted bool) {
	e.lastRun = time.Now()
	start = later(later(from, repeat), e.poll.Since)
	missed := e.begin(start, now)
	if e.tooFarAhead(e.next, now) {
		start = later(from, e.poll.Since)
		missed = e.begin(start, now)
	}
	if restarted = e.tooFarAhead(e.next, now); restarted {
		e.restart(now)
	}

	if missed > 0 {
		t.addMissedLocked(e, missed, fmt.Sprintf("they were due more than %v before %s, when this leader began: "+
			"there was no leader, or clocks differ", catchUp, now.UTC().Format(time.RFC3339)))
	}
	if !e.next.IsZero() {
		heap.Push(&t.due, e)
	}

	return start, restarted
}

// openPool opens the connections to workers. They are asked about everything since the oldest open slot.
func (t *term) openPool(cp checkpoint) {
	opts := t.o.opts.Pool
	opts.Leader = t.o.opts.Leader
	opts.Found = t.foundResult
	opts.Ready = t.workerReady
	opts.Recall = max(15*time.Second, t.began.Sub(cp.begin()).Abs()+10*time.Second)
	t.pool = work.NewPool(t.ctx, t.Term, opts)
}

// foundResult handles a result that a worker has of a slot which this term did not send.
func (t *term) foundResult(worker string, r work.Result) {
	id, ok := schedule.ParseSlot(r.ID)
	if !ok || id.Manual {
		return
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.entries[id.Name]
	if e == nil {
		return
	}

	s := e.find(id)
	switch {
	case s == nil && e.taken[id.Due]: // it is settled
		return
	case s == nil && (id.Repeat != t.repeatOfLocked(id.Due) || t.fromWrongClockLocked(e, id.Due)):
		return
	case s == nil && e.notYetDue(id.Due):
		s = t.openEarlyLocked(e, id)
	case s == nil:
		return
	case s.Attempt > id.Attempt && (s.worker != "" || !passed(r)):
		return // the result of the newer attempt counts, unless it was not sent and need not be
	case s.worker != "": // this term has sent it to another worker
		t.o.opts.Log.Warn("a slot was run twice", "slot", r.ID, "worker", worker, "other", s.worker)
		return
	}

	s.Attempt = id.Attempt
	s.worker = worker
	t.takeResultLocked(s, r)
	t.wakeLoop()
}

// passed reports whether a result is that of a check that succeeded.
func passed(r work.Result) bool {
	var found check.Outcome
	return r.Outcome == work.Done && json.Unmarshal(r.Data, &found) == nil && found.OK
}

// openEarlyLocked opens the slot of an earlier leader whose clock was ahead: it is not due yet by this node's clock.
func (t *term) openEarlyLocked(e *entry, id schedule.Slot) *slot {
	id.Attempt = 0
	s := newSlot(e, id)
	e.enqueueEarly(s)
	t.open[s] = struct{}{}

	return s
}

// workerReady handles the answer of a worker: the slots that it still runs for an earlier term. Each is sent to it once
// more, so that its result is reported to this term.
func (t *term) workerReady(worker string, running []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, text := range running {
		id, ok := schedule.ParseSlot(text)
		e := t.entries[id.Name]
		if !ok || e == nil || id.Manual {
			continue
		}

		s := e.find(id)
		switch {
		case s == nil && (id.Repeat != t.repeatOfLocked(id.Due) || t.fromWrongClockLocked(e, id.Due)):
			continue
		case s == nil && !e.taken[id.Due] && e.notYetDue(id.Due):
			s = t.openEarlyLocked(e, id)
		case s == nil || s.worker != "" || s.Attempt > id.Attempt:
			continue
		}

		s.Attempt = id.Attempt
		t.sendLocked(s, &work.WorkerView{ID: worker}, now)
	}

	delete(t.unanswered, worker)
	t.wakeLoop()
}
