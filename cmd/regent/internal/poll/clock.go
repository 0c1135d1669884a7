package poll

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

// Slots are due by wall clocks, which differ between machines and are set while processes run. This file keeps
// that from stopping polls without a word. The rules, for each poll by itself:
//
//   - If the next slot is later than the first one that is due by this node's clock, by more than the poll's interval and
//     clockSlack, the clock has gone back, or the last leader's was ahead. The poll then begins at now. Up to that bound it
//     waits, so that no slot is run twice.
//   - Slots that were run before the clock went back are then run again when their time comes, once, under identities of
//     their own: NAME/DUE~MARK. Workers would otherwise answer with the old results.
//   - If the clock is set ahead, the slots that it has passed over are skipped, and not called missed.
//
// Each of these is told by an event, and counted.

const (
	// clockSlack is what the clocks of two machines may differ by, beyond a poll's interval.
	clockSlack = 5 * time.Second
	// clockStep is by how much a clock must be set, while a leader has its polls run, to be looked at.
	clockStep = time.Second
	// longestWait is how long a leader with polls waits at most before it looks at its clock again.
	longestWait = 5 * time.Second
)

// EventClock says that clocks disagree about slots: metadata offset, polls, skipped, error.
const EventClock = "poll:clock_jumped"

// outcomeSkipped is that of slots which the clock was set past.
const outcomeSkipped = "skipped"

// now is the wall clock of the node.
func (o *Orchestrator) now() time.Time {
	if o.opts.Now != nil {
		return o.opts.Now().Round(0)
	}
	return time.Now().Round(0) // without its monotonic part, which does not go back
}

// clock compares the wall clock with one that is never set.
type clock struct {
	wall time.Time
	mono time.Time
}

// moved returns by how much the wall clock has been set since the last call, if that is worth to be looked at.
func (c *clock) moved(wall, mono time.Time) time.Duration {
	if c.mono.IsZero() {
		c.wall, c.mono = wall, mono
		return 0
	}
	offset := wall.Sub(c.wall) - mono.Sub(c.mono)
	if offset.Abs() < clockStep {
		return 0 // it may add up
	}
	c.wall, c.mono = wall, mono
	return offset
}

// interval is the time between two slots, as it is at now; 0 if there are no two.
func (e *entry) interval(now time.Time) time.Duration {
	if every := time.Duration(e.poll.Interval); every > 0 {
		return every
	}
	first := e.sched.Next(now)
	second := time.Time{}
	if !first.IsZero() {
		second = e.sched.Next(first)
	}
	if second.IsZero() {
		return 0
	}
	return second.Sub(first)
}

// tooFar reports whether the next slot is so far ahead that the clock which it was computed by cannot have been
// this one.
func (e *entry) tooFar(now time.Time) bool { return e.aheadOf(e.next, now) }

// aheadOf reports whether a slot is later than the first one that is due after now, by more than an interval and
// the slack.
func (e *entry) aheadOf(due, now time.Time) bool {
	first := e.sched.Next(now)
	if due.IsZero() || first.IsZero() || !due.After(first) {
		return false
	}
	every := e.interval(now)
	return every > 0 && due.Sub(first) > every+clockSlack
}

// beyond reports whether a slot that a worker tells of is so far ahead that the clock of the leader which sent it
// was wrong. Its result says nothing of the slot as it is due by this node's clock, which then has an identity of
// its own. The mutex is held.
func (c *conduct) beyond(e *entry, due int64) bool {
	if !e.aheadOf(time.UnixMilli(due), c.o.now()) {
		return false
	}
	c.mark = max(c.mark, due)
	c.moved++
	return true
}

// restart begins a poll at now, whatever was run before.
func (e *entry) restart(now time.Time) {
	e.next = e.sched.Next(now)
	e.ahead = nil
	e.forgetAfter(now)
}

// markOf is what the identity of a slot carries beside its due time: 0, unless it may have been run before a clock
// went back.
func (c *conduct) markOf(due int64) int64 {
	if due <= c.mark {
		return c.mark
	}
	return 0
}

// setMark gives the slots that are due up to a time identities that were not used before. The mutex is held.
func (c *conduct) setMark(through time.Time) { c.mark = max(c.mark+1, through.UnixMilli()) }

// behind follows the load of a checkpoint that is ahead of this node's clock, for polls that have begun at now.
// The mutex is held.
func (c *conduct) behind(polls int, through, now time.Time) {
	if polls == 0 {
		return
	}
	c.setMark(through)
	text := fmt.Sprintf("the last leader had polls run up to %s, which is %v ahead of this node's clock: one of the two "+
		"clocks is wrong. %d polls begin at now; slots that were run already are run again",
		through.UTC().Format(time.RFC3339), through.Sub(now).Round(time.Millisecond), polls)
	c.tellClock(now.Sub(through), polls, 0, text)
}

// adjust follows a wall clock that was set while polls were run. The mutex is held.
func (c *conduct) adjust(offset time.Duration, now time.Time) {
	c.moved++
	if offset > 0 {
		if offset > clockSlack {
			c.skip(offset, now)
		}
		return
	}
	if c.began.After(now) {
		c.began = now
	}
	polls := 0
	for _, e := range c.heap {
		if e.tooFar(now) {
			e.restart(now)
			polls++
		}
	}
	c.sort()
	if polls > 0 {
		c.setMark(c.through)
		text := fmt.Sprintf("the clock of this node went back by %v: %d polls begin at now; "+
			"slots that were run already are run again", -offset.Round(time.Millisecond), polls)
		c.tellClock(offset, polls, 0, text)
	}
	c.mark = max(c.mark, c.through.UnixMilli()) // for the next leader: polls that wait do not begin before it
	c.through = now
}

// sort makes a heap of the polls again after their next slots have changed.
func (c *conduct) sort() {
	c.heap = slices.DeleteFunc(c.heap, func(e *entry) bool {
		e.place = -1
		return e.next.IsZero()
	})
	for i, e := range c.heap {
		e.place = i
	}
	heap.Init(&c.heap)
}

// skip passes over the slots that the clock was set past. Those that were due before it was set are released
// first. The mutex is held.
func (c *conduct) skip(offset time.Duration, now time.Time) {
	c.release(now.Add(-offset))
	skipped := uint64(0)
	polls := 0
	for _, e := range c.heap {
		if e.next.After(now) {
			continue
		}
		n := e.between(e.next, now)
		e.next = e.sched.Next(now)
		e.count(outcomeSkipped, n)
		c.o.count(outcomeSkipped, e.poll.Kind, 0, n)
		skipped += n
		polls++
	}
	c.sort()
	text := fmt.Sprintf("the clock of this node went ahead by %v: %d slots of %d polls are skipped",
		offset.Round(time.Millisecond), skipped, polls)
	c.tellClock(offset, polls, skipped, text)
}

// between counts the slots from one that is due until a time. Beyond some number it is enough to know that they
// are many.
func (e *entry) between(due, until time.Time) (n uint64) {
	if every := time.Duration(e.poll.Interval); every > 0 {
		return uint64(until.Sub(due)/every) + 1
	}
	for t := due; !t.IsZero() && !t.After(until) && n < mostCounted; t = e.sched.Next(t) {
		n++
	}
	return n
}

func (c *conduct) tellClock(offset time.Duration, polls int, skipped uint64, text string) {
	c.o.mu.Lock()
	c.o.jumps++
	c.o.mu.Unlock()
	c.emit(EventClock, map[string]string{"offset": offset.Round(time.Millisecond).String(), "polls": fmt.Sprint(polls),
		"skipped": fmt.Sprint(skipped), "error": text})
}

// overdue reports whether a poll has not run for longer than it can take, however its clock was set.
func (e *entry) overdue(now, mono time.Time) bool {
	if !e.poll.Enabled || e.ran.IsZero() {
		return false
	}
	longest := time.Duration(e.poll.Timeout) * time.Duration(1+e.poll.Retries)
	every := e.interval(now)
	return every > 0 && mono.Sub(e.ran) > every+longest+catchUp
}
