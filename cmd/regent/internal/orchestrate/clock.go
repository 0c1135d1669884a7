package orchestrate

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/internal/millis"
)

// Due times are wall-clock times. Wall clocks differ between machines and are set while processes run. This file keeps
// that from stopping polls unnoticed. The rules, for each poll:
//
//   - If the next slot is later than the first one that is due by this node's clock, by more than the interval of the
//     poll and clockSlack, the clock was set back, or the last leader's was ahead. The poll then begins at now. Up to
//     that bound it waits, so that no slot runs twice.
//   - Slots that ran before the clock was set back are then run again when they are due, once, with IDs of their own:
//     NAME/DUE~MARK. Otherwise workers would answer with the old results.
//   - If the clock is set forward, the slots that it has passed over are skipped. They do not count as missed.
//
// Each of these is counted, and an event is sent.

const (
	// clockSlack is how much the clocks of two machines may differ, beyond the interval of a poll.
	clockSlack = 5 * time.Second
	// clockStep is the least change of a clock that the rules apply to.
	clockStep = time.Second
	// clockInterval is the longest time between two checks of the clock, while there are polls.
	clockInterval = 5 * time.Second
)

// now returns the time by the wall clock of the node.
func (o *Orchestrator) now() time.Time {
	if o.opts.Now != nil {
		return o.opts.Now().Round(0)
	}

	return time.Now().Round(0) // without its monotonic part, which cannot be set back
}

// wallClock compares the wall clock with the monotonic clock, which is never set.
type wallClock struct {
	wall time.Time
	mono time.Time
}

// jumped returns how much the wall clock was set since the last jump, or 0 if that is less than clockStep.
func (c *wallClock) jumped(wall, mono time.Time) time.Duration {
	if c.mono.IsZero() {
		c.wall = wall
		c.mono = mono
		return 0
	}

	offset := wall.Sub(c.wall) - mono.Sub(c.mono)
	if offset.Abs() < clockStep {
		return 0 // small changes may add up
	}

	c.wall = wall
	c.mono = mono
	return offset
}

// tooFarAhead reports whether a due time is later than the first one after now by more than an interval and clockSlack:
// it was computed by another clock.
func (e *entry) tooFarAhead(due, now time.Time) bool {
	first := e.schedule.Next(now)
	if due.IsZero() || first.IsZero() || !due.After(first) {
		return false
	}

	period := schedule.Period(e.schedule, now)
	return period > 0 && due.Sub(first) > period+clockSlack
}

// fromWrongClockLocked reports whether the slot of a worker is so far ahead that the clock of the leader that sent it
// was wrong. Its result says nothing about the slot that is due at this time by this node's clock: that one gets an ID
// of its own.
func (t *term) fromWrongClockLocked(e *entry, due int64) bool {
	if !e.tooFarAhead(time.UnixMilli(due), t.o.now()) {
		return false
	}

	t.repeatMark = max(t.repeatMark, due)
	t.changes++
	return true
}

// restart begins a poll at now, whatever was run before.
func (e *entry) restart(now time.Time) {
	e.next = e.schedule.Next(now)
	e.taken = nil
	e.forgetAfter(now)
}

// repeatOfLocked returns the Repeat of the ID of a slot: 0, unless it may have run before a clock was set back.
func (t *term) repeatOfLocked(due int64) int64 {
	if due <= t.repeatMark {
		return t.repeatMark
	}

	return 0
}

// markRepeatLocked gives the slots that are due up to a time IDs that were not used before.
func (t *term) markRepeatLocked(through time.Time) {
	t.repeatMark = max(t.repeatMark+1, through.UnixMilli())
}

// checkpointAheadLocked reports polls that begin at now because the checkpoint was ahead of this node's clock.
func (t *term) checkpointAheadLocked(polls int, through, now time.Time) {
	if polls == 0 {
		return
	}

	t.markRepeatLocked(through)
	text := fmt.Sprintf("the last leader had polls run up to %s, which is %v ahead of this node's clock: "+
		"one of the two clocks is wrong. %d polls begin at now; slots that ran already run again",
		through.UTC().Format(time.RFC3339), through.Sub(now).Round(time.Millisecond), polls)
	t.emitClock(now.Sub(through), polls, 0, text)
}

// clockJumpedLocked handles a wall clock that was set while polls were run.
func (t *term) clockJumpedLocked(offset time.Duration, now time.Time) {
	t.changes++
	switch {
	case offset < 0:
		t.clockSetBackLocked(offset, now)
	case offset > clockSlack:
		t.skipLocked(offset, now)
	}
}

// clockSetBackLocked begins the polls at now whose next slots are too far ahead.
func (t *term) clockSetBackLocked(offset time.Duration, now time.Time) {
	if t.began.After(now) {
		t.began = now
	}

	polls := 0
	for _, e := range t.due {
		if e.tooFarAhead(e.next, now) {
			e.restart(now)
			polls++
		}
	}
	t.sortDueLocked()

	if polls > 0 {
		t.markRepeatLocked(t.through)
		text := fmt.Sprintf("the clock of this node went back by %v: %d polls begin at now; "+
			"slots that ran already run again", -offset.Round(time.Millisecond), polls)
		t.emitClock(offset, polls, 0, text)
	}

	// Under the next leader, polls that wait do not begin before the mark.
	t.repeatMark = max(t.repeatMark, t.through.UnixMilli())
	t.through = now
}

// skipLocked skips the slots that the clock was set past. Slots that were due before that are queued first.
func (t *term) skipLocked(offset time.Duration, now time.Time) {
	t.enqueueDueLocked(now.Add(-offset))

	skipped := uint64(0)
	polls := 0
	for _, e := range t.due {
		if e.next.After(now) {
			continue
		}
		n := schedule.Count(e.schedule, e.next, now.Add(1))
		e.next = e.schedule.Next(now)
		e.count(outcomeSkipped, n)
		t.o.count(outcomeSkipped, e.poll.Kind, 0, n)
		skipped += n
		polls++
	}
	t.sortDueLocked()

	text := fmt.Sprintf("the clock of this node went ahead by %v: %d slots of %d polls are skipped",
		offset.Round(time.Millisecond), skipped, polls)
	t.emitClock(offset, polls, skipped, text)
}

// sortDueLocked restores the heap after due times have changed.
func (t *term) sortDueLocked() {
	t.due = slices.DeleteFunc(t.due, func(e *entry) bool {
		e.heapIndex = -1
		return e.next.IsZero()
	})
	for i, e := range t.due {
		e.heapIndex = i
	}
	heap.Init(&t.due)
}

// emitClock counts a jump of a clock and sends an event.
func (t *term) emitClock(offset time.Duration, polls int, skipped uint64, text string) {
	t.o.mu.Lock()
	t.o.jumps++
	t.o.mu.Unlock()

	t.o.opts.Emit(regent.Event{
		Kind:         EventClock,
		Election:     t.Election,
		Epoch:        t.Epoch,
		Measurements: map[string]float64{"offsetMs": millis.Of(offset.Round(time.Millisecond))},
		Metadata: map[string]string{
			"polls":   strconv.Itoa(polls),
			"skipped": strconv.FormatUint(skipped, 10),
			"error":   text,
		},
	})
}
