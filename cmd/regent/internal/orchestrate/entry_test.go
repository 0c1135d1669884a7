package orchestrate

import (
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

// dues queues everything that is due, and returns the ages of the queued slots in whole seconds.
func dues(e *entry, now time.Time) (ago []time.Duration, missed int) {
	for !e.next.IsZero() && !e.next.After(now) {
		e.enqueueNext()
		missed += len(e.trim(e.queue[len(e.queue)-1].DueTime()))
	}
	missed += len(e.trim(now))
	for _, s := range e.queue {
		ago = append(ago, now.Sub(s.DueTime()).Truncate(time.Second))
	}
	return ago, missed
}

// notHeld holds no slot back.
func notHeld(*slot) time.Time { return time.Time{} }

func TestLateSlots(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cron := poll.Poll{Cron: "0 3 * * *"}

	t.Run("slots_within_a_minute_are_all_run", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(10 * time.Second)})
		if missed := e.begin(now.Add(-45*time.Second), now); missed != 0 {
			t.Errorf("%d missed", missed)
		}
		if ago, _ := dues(e, now); len(ago) < 4 || len(ago) > 5 {
			t.Errorf("got %v", ago)
		}
	})

	t.Run("older_slots_are_missed_and_counted", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(time.Second)})
		missed := e.begin(now.Add(-time.Hour), now)
		ago, more := dues(e, now)
		if missed != 3540 || more != 0 || len(ago) != 60 {
			t.Errorf("%d missed, %d more, %d to run", missed, more, len(ago))
		}
	})

	t.Run("the_newest_is_run_however_late", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(5 * time.Hour)})
		missed := e.begin(now.Add(-100*time.Hour), now)
		if ago, _ := dues(e, now); len(ago) != 1 || ago[0] > 5*time.Hour || missed < 18 || missed > 19 {
			t.Errorf("%d missed, to run: %v", missed, ago)
		}
		e = entryOf(t, cron)
		missed = e.begin(now.Add(-50*time.Hour), now)
		if ago, _ := dues(e, now); missed != 1 || !slices.Equal(ago, []time.Duration{9 * time.Hour}) {
			t.Errorf("cron: %d missed, to run: %v", missed, ago)
		}
	})

	t.Run("the_newest_is_found_however_many_there_were", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Cron: "*/2 * * * *"})
		odd := now.Add(time.Minute + 30*time.Second)
		missed := e.begin(odd.AddDate(0, -2, 0), odd)
		ago, _ := dues(e, odd)
		if missed != schedule.MaxCount || !slices.Equal(ago, []time.Duration{90 * time.Second}) {
			t.Errorf("%d missed, to run: %v", missed, ago)
		}
	})

	t.Run("a_week_without_a_leader_is_caught_up_at_once", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Cron: "* * * * *"})
		missed := e.begin(now.Add(-7*24*time.Hour), now)
		ago, _ := dues(e, now)
		if missed+uint64(len(ago)) != 7*24*60 || len(ago) > 2 {
			t.Errorf("%d missed, to run %v", missed, ago)
		}
	})

	t.Run("slots_that_wait_for_a_worker_are_missed_after_a_minute_except_for_the_newest", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(20 * time.Second)})
		e.begin(now, now)
		ago, missed := dues(e, now.Add(10*time.Minute))
		if len(ago) > 4 || len(ago) == 0 || missed+len(ago) != 30 {
			t.Errorf("%d missed, to run %v", missed, ago)
		}
	})

	t.Run("late_slots_are_spread_over_half_intervals", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(10 * time.Second), Concurrency: 10})
		e.begin(now.Add(-35*time.Second), now)
		dues(e, now)
		var sent []time.Duration
		for at := now; len(e.queue) > 0; at = at.Add(time.Second) {
			if s, _ := e.sendable(at, notHeld); s != nil {
				e.markSent(s, at)
				sent = append(sent, at.Sub(now))
			}
		}
		want := []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second}
		if len(sent) < 3 || !slices.Equal(sent, want[:len(sent)]) {
			t.Errorf("sent after %v", sent)
		}
	})

	t.Run("no_more_than_its_concurrency_run_at_once", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(time.Second), Concurrency: 2})
		e.begin(now.Add(-5*time.Second), now)
		dues(e, now)
		sent := 0
		for i := range 100 {
			at := now.Add(time.Duration(i) * time.Second)
			if s, _ := e.sendable(at, notHeld); s != nil {
				e.markSent(s, at)
				sent++
			}
		}
		if sent != 2 {
			t.Errorf("%d run", sent)
		}
		e.enqueue(newSlot(e, schedule.Slot{Due: now.UnixMilli(), Manual: true}))
		if s, _ := e.sendable(now, notHeld); s == nil || !s.Manual {
			t.Error("a manual run waits")
		}
	})

	t.Run("a_slot_that_is_held_back_can_be_overtaken", func(t *testing.T) {
		e := entryOf(t, poll.Poll{Interval: poll.Duration(time.Second)})
		e.begin(now.Add(-2500*time.Millisecond), now)
		dues(e, now)
		held := func(s *slot) time.Time {
			if s == e.queue[0] {
				return now.Add(time.Minute)
			}
			return time.Time{}
		}
		first := e.queue[0]
		s, _ := e.sendable(now, held)
		if s == nil || s == first {
			t.Fatalf("got %v", s)
		}
		e.markSent(s, now)
		e.queue = e.queue[:1]
		if s, at := e.sendable(now, held); s != nil || !at.Equal(now.Add(time.Minute)) {
			t.Errorf("got %v at %v", s, at)
		}
	})
}
