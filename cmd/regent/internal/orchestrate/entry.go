package orchestrate

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/work"
)

// catchUp is how late a slot may be and still be run. The newest slot that is due is run however late it is.
const catchUp = time.Minute

// maxSpread is the longest wait between two late slots of a poll.
const maxSpread = 30 * time.Second

// entry is a poll with its slots. The mutex of its term guards it.
type entry struct {
	poll     poll.Poll
	schedule schedule.Schedule
	fixed    bool   // defined in the configuration file
	prefix   []byte // of the payload of its tasks

	next      time.Time // the due time of the first slot that was not queued; zero if there is none
	heapIndex int       // in the dueHeap of the term, or -1

	queue     []*slot // not sent; manual ones first, then in the order of their due times
	running   []*slot // sent, and not ended
	notBefore time.Time
	pause     time.Time      // no worker takes its slots: it does not send before this time
	taken     map[int64]bool // slots from next on that are settled or open: the clock of an earlier leader was ahead
	pending   bool           // in the pending entries of the term
	lastRun   time.Time      // when it last ran, or was added, by the monotonic clock
	problem   string         // why no worker takes its slots; empty if one does

	history
}

func newEntry(p poll.Poll, fixed bool) (*entry, error) {
	s, err := p.Schedule()
	if err != nil {
		return nil, err
	}

	return &entry{poll: p, schedule: s, fixed: fixed, prefix: payloadPrefix(p), heapIndex: -1}, nil
}

// begin sets the first slot that is due after from, and returns the number of slots that are too late to be run.
func (e *entry) begin(from, now time.Time) (missed uint64) {
	e.next = time.Time{}
	if e.poll.Enabled {
		e.next = e.schedule.Next(from)
	}

	horizon := now.Add(-catchUp)
	if e.next.IsZero() || !e.next.Before(horizon) {
		return 0
	}

	first := e.schedule.Next(horizon)
	if first.IsZero() || first.After(now) {
		first = schedule.Latest(e.schedule, now)
	}
	missed = schedule.Count(e.schedule, e.next, first)
	e.next = first

	return missed
}

// enqueueNext queues the next slot, unless it is taken, and returns it.
func (e *entry) enqueueNext() *slot {
	due := e.next.UnixMilli()
	e.next = e.schedule.Next(e.next)
	if e.taken[due] {
		delete(e.taken, due)
		return nil
	}

	s := newSlot(e, schedule.Slot{Due: due})
	e.queue = append(e.queue, s)
	return s
}

// trim removes the queued slots that are too late to be run, and returns them: all that are older than catchUp, except
// for the newest.
func (e *entry) trim(now time.Time) (late []*slot) {
	newest := int64(0)
	for _, s := range e.queue {
		if !s.Manual {
			newest = max(newest, s.Due)
		}
	}

	e.queue = slices.DeleteFunc(e.queue, func(s *slot) bool {
		if s.Manual || s.Due == newest || now.Sub(s.DueTime()) <= catchUp {
			return false
		}
		s.settled = true
		late = append(late, s)
		return true
	})

	return late
}

// find returns the open slot with an ID, of any attempt, or nil.
func (e *entry) find(id schedule.Slot) *slot {
	same := func(s *slot) bool { return s.Due == id.Due && s.Manual == id.Manual && s.Repeat == id.Repeat }
	if n := slices.IndexFunc(e.queue, same); n >= 0 {
		return e.queue[n]
	}
	if n := slices.IndexFunc(e.running, same); n >= 0 {
		return e.running[n]
	}

	return nil
}

// sendable returns the slot to send next, or the time at which there may be one. A slot is not sent before the time
// that held returns for it; later slots may overtake it.
func (e *entry) sendable(now time.Time, held func(*slot) time.Time) (s *slot, next time.Time) {
	if now.Before(e.pause) {
		return nil, e.pause
	}

	for _, s := range e.queue {
		until := held(s)
		switch {
		case s.Manual:
			return s, time.Time{}
		case now.Before(until):
			next = earlier(next, until)
			continue
		case len(e.running) >= e.poll.Concurrency:
			return nil, next
		case now.Before(e.notBefore):
			return nil, e.notBefore
		}
		return s, time.Time{}
	}

	return nil, next
}

// markSent moves a slot from the queue to the running slots. The slots behind it are late, and wait for half an
// interval each, so that a target which was unreachable does not get a burst of checks.
func (e *entry) markSent(s *slot, now time.Time) {
	e.remove(s)
	e.running = append(e.running, s)

	behind := slices.IndexFunc(e.queue, func(other *slot) bool { return !other.Manual && other.Due > s.Due })
	if behind >= 0 && !s.Manual {
		gap := e.queue[behind].DueTime().Sub(s.DueTime())
		e.notBefore = now.Add(min(gap/2, maxSpread))
	}
}

// enqueue puts a slot into the queue, in its place.
func (e *entry) enqueue(s *slot) {
	e.remove(s)
	n, _ := slices.BinarySearchFunc(e.queue, s, func(a, b *slot) int {
		switch {
		case a.Manual && !b.Manual:
			return -1
		case !a.Manual && b.Manual:
			return 1
		}
		return cmp.Compare(a.Due, b.Due)
	})
	e.queue = slices.Insert(e.queue, n, s)
}

// enqueueEarly queues a slot that is not due yet by the clock of this node.
func (e *entry) enqueueEarly(s *slot) {
	if e.taken == nil {
		e.taken = map[int64]bool{}
	}
	e.taken[s.Due] = true
	e.enqueue(s)
}

// remove removes a slot from the queue and from the running slots.
func (e *entry) remove(s *slot) {
	same := func(other *slot) bool { return other == s }
	e.queue = slices.DeleteFunc(e.queue, same)
	e.running = slices.DeleteFunc(e.running, same)
}

// notYetDue reports whether a due time has not been reached by the clock of this node.
func (e *entry) notYetDue(due int64) bool { return !e.next.IsZero() && due >= e.next.UnixMilli() }

// overdue reports whether the poll has not run for longer than an interval, all attempts and catchUp. It compares the
// monotonic clock, which is never set.
func (e *entry) overdue(now, mono time.Time) bool {
	if !e.poll.Enabled || e.lastRun.IsZero() {
		return false
	}

	longest := time.Duration(e.poll.Timeout) * time.Duration(1+e.poll.Retries)
	period := schedule.Period(e.schedule, now)
	return period > 0 && mono.Sub(e.lastRun) > period+longest+catchUp
}

// lateReason returns why slots of the poll have waited until they were too late.
func (e *entry) lateReason() string {
	switch {
	case e.problem != "":
		return e.problem
	case len(e.running) >= e.poll.Concurrency:
		return "the runs before it have not ended"
	}

	return "there were more than its workers could run in time"
}

// slot is a slot of a poll that is not settled: it waits in the queue of its entry, or a worker runs it.
type slot struct {
	schedule.Slot // its Attempt counts how often the slot may have been started before: a worker runs each attempt once

	entry   *entry
	retries int      // attempts that were used up by failed checks
	tried   []string // workers whose checks have failed, or that cannot be reached: others are preferred
	refused []string // workers that have not taken the slot
	unable  []string // workers that do not make checks of this kind
	worker  string   // that runs it; empty if it was not sent
	sent    time.Time
	settled bool
	done    chan Run // receives the result once, for a manual run; otherwise nil
}

// newSlot returns a slot of an entry.
func newSlot(e *entry, id schedule.Slot) *slot {
	id.Name = e.poll.Name
	return &slot{Slot: id, entry: e}
}

// result returns the result of a slot that ends without the result of a worker.
func (s *slot) result(attempts int, outcome, message string) Run {
	return Run{
		Slot:     s.String(),
		Due:      s.DueTime(),
		Worker:   s.worker,
		Attempts: attempts,
		Outcome:  outcome,
		Message:  message,
	}
}

// refuse notes that a worker has not taken the slot, and whether it cannot make such checks.
func (s *slot) refuse(worker string, err error) {
	s.refused = append(s.refused, worker)
	if errors.Is(err, work.ErrUnknownKind) && !slices.Contains(s.unable, worker) {
		s.unable = append(s.unable, worker)
	}
}

// earlier returns the earlier of two times; a zero time counts as none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}

	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}

	return a
}
