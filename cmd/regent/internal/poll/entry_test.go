package poll

import (
	"slices"
	"testing"
	"time"
)

func entryOf(t *testing.T, p Poll) *entry {
	t.Helper()
	p.Name, p.Kind, p.Target, p.Enabled = "p", "tcp", "h:1", true
	e, err := newEntry(p.WithDefaults(), false)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// dues releases everything that is due, and returns the due times as seconds before now.
func dues(e *entry, now time.Time) (ago []time.Duration, missed int) {
	for !e.next.IsZero() && !e.next.After(now) {
		e.release()
		missed += len(e.trim(e.queue[len(e.queue)-1].dueTime()))
	}
	missed += len(e.trim(now))
	for _, s := range e.queue {
		ago = append(ago, now.Sub(s.dueTime()).Truncate(time.Second))
	}
	return ago, missed
}

// sure has no doubt.
func sure(*slot) time.Time { return time.Time{} }

func TestLateSlots(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cron := Poll{Cron: "0 3 * * *"}

	t.Run("those_within_a_minute_are_all_run", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(10 * time.Second)})
		if missed := e.begin(now.Add(-45*time.Second), now); missed != 0 {
			t.Errorf("%d missed", missed)
		}
		if ago, _ := dues(e, now); len(ago) < 4 || len(ago) > 5 {
			t.Errorf("got %v", ago)
		}
	})

	t.Run("older_ones_are_missed_and_counted", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(time.Second)})
		missed := e.begin(now.Add(-time.Hour), now)
		ago, more := dues(e, now)
		if missed != 3540 || more != 0 || len(ago) != 60 {
			t.Errorf("%d missed, %d more, %d to run", missed, more, len(ago))
		}
	})

	t.Run("the_newest_is_run_however_late", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(5 * time.Hour)})
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
		e := entryOf(t, Poll{Cron: "*/2 * * * *"})
		odd := now.Add(time.Minute + 30*time.Second)
		missed := e.begin(odd.AddDate(0, -2, 0), odd)
		if ago, _ := dues(e, odd); missed != mostCounted || !slices.Equal(ago, []time.Duration{90 * time.Second}) {
			t.Errorf("%d missed, to run: %v", missed, ago)
		}
	})

	t.Run("a_week_without_a_leader_costs_no_time", func(t *testing.T) {
		e := entryOf(t, Poll{Cron: "* * * * *"})
		missed := e.begin(now.Add(-7*24*time.Hour), now)
		ago, _ := dues(e, now)
		if missed+uint64(len(ago)) != 7*24*60 || len(ago) > 2 {
			t.Errorf("%d missed, to run %v", missed, ago)
		}
	})

	t.Run("one_that_piles_up_for_want_of_a_worker_is_missed_after_a_minute_but_the_newest", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(20 * time.Second)})
		e.begin(now, now)
		ago, missed := dues(e, now.Add(10*time.Minute))
		if len(ago) > 4 || len(ago) == 0 || missed+len(ago) != 30 {
			t.Errorf("%d missed, to run %v", missed, ago)
		}
	})

	t.Run("they_are_spread_over_half_intervals", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(10 * time.Second), Concurrency: 10})
		e.begin(now.Add(-35*time.Second), now)
		dues(e, now)
		var sent []time.Duration
		for at := now; len(e.queue) > 0; at = at.Add(time.Second) {
			if s, _ := e.sendable(at, sure); s != nil {
				e.took(s, at)
				sent = append(sent, at.Sub(now))
			}
		}
		if !slices.Equal(sent, []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second}[:len(sent)]) || len(sent) < 3 {
			t.Errorf("sent after %v", sent)
		}
	})

	t.Run("no_more_than_its_concurrency_are_out", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(time.Second), Concurrency: 2})
		e.begin(now.Add(-5*time.Second), now)
		dues(e, now)
		sent := 0
		for i := range 100 {
			at := now.Add(time.Duration(i) * time.Second)
			if s, _ := e.sendable(at, sure); s != nil {
				e.took(s, at)
				sent++
			}
		}
		if sent != 2 {
			t.Errorf("%d are out", sent)
		}
		e.putBack(&slot{entry: e, due: now.UnixMilli(), manual: true})
		if s, _ := e.sendable(now, sure); s == nil || !s.manual {
			t.Error("what somebody asks for waits")
		}
	})

	t.Run("one_in_doubt_lets_those_behind_it_pass", func(t *testing.T) {
		e := entryOf(t, Poll{Interval: Duration(time.Second)})
		e.begin(now.Add(-2500*time.Millisecond), now)
		dues(e, now)
		doubt := func(s *slot) time.Time {
			if s == e.queue[0] {
				return now.Add(time.Minute)
			}
			return time.Time{}
		}
		first := e.queue[0]
		s, _ := e.sendable(now, doubt)
		if s == nil || s == first {
			t.Fatalf("got %v", s)
		}
		e.took(s, now)
		e.queue = e.queue[:1]
		if s, at := e.sendable(now, doubt); s != nil || !at.Equal(now.Add(time.Minute)) {
			t.Errorf("got %v at %v", s, at)
		}
	})
}

func TestSlotID(t *testing.T) {
	e := &entry{poll: Poll{Name: "a.b-c_d"}}
	for _, s := range []*slot{{due: 1794725637240}, {due: 5, attempt: 3}, {due: 5, again: 9}, {due: 5, again: 9, attempt: 2}, {due: 7, manual: true}, {due: 7, manual: true, attempt: 1}} {
		s.entry = e
		i, ok := parseID(s.id())
		if !ok || i != (identity{e.poll.Name, s.due, s.manual, s.again, s.attempt}) {
			t.Errorf("%s: %+v %v", s.id(), i, ok)
		}
	}
	for _, id := range []string{"", "x", "x/", "x/y", "x/1#", "x/1#y", "x/1#-1", "/", "x/now-", "x/1~", "x/1~0", "x/1~-1", "x/1~a", "x/~1"} {
		if i, ok := parseID(id); ok {
			t.Errorf("%q is %+v", id, i)
		}
	}
}

func TestRecord(t *testing.T) {
	at := time.Unix(1000, 0)
	run := func(n int, outcome string) Run {
		return Run{Slot: time.Duration(n).String(), Due: at.Add(time.Duration(n) * time.Second), Outcome: outcome, Latency: time.Duration(n) * time.Millisecond}
	}
	var r record
	for i, c := range []struct {
		outcome string
		from    State
		changed bool
	}{{outcomeOK, Unknown, false}, {outcomeOK, Up, false}, {outcomeFailed, Up, true}, {outcomeError, Down, false}, {outcomeOK, Down, true}} {
		if from, changed := r.note(run(i, c.outcome)); from != c.from || changed != c.changed {
			t.Errorf("run %d: from %s, changed %v", i, from, changed)
		}
	}
	t.Run("a_run_that_is_told_again_or_late_changes_nothing", func(t *testing.T) {
		if _, changed := r.note(run(2, outcomeFailed)); changed || r.state != Up {
			t.Error("it does")
		}
		var late record
		late.note(run(5, outcomeOK))
		if _, changed := late.note(run(4, outcomeFailed)); changed || late.state != Up {
			t.Error("an older run decides")
		}
	})
	t.Run("the_first_failure_is_told", func(t *testing.T) {
		var r record
		if _, changed := r.note(run(0, outcomeFailed)); !changed {
			t.Error("it is not")
		}
	})
	t.Run("the_last_ten_are_kept", func(t *testing.T) {
		for i := range 40 {
			r.note(run(i, outcomeOK))
		}
		if len(r.runs) != kept || r.runs[0].Slot != run(30, "").Slot || r.runs[9].Slot != run(39, "").Slot {
			t.Errorf("got %v", r.runs)
		}
	})
	t.Run("latencies_are_counted_in_buckets", func(t *testing.T) {
		var h Histogram
		for _, d := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, time.Minute} {
			h.add(d)
		}
		cumulative, n := h.Buckets()
		if n != 4 || cumulative[0.001] != 2 || cumulative[0.005] != 3 || cumulative[10] != 3 || h.Counts[len(bounds)] != 1 {
			t.Errorf("%v %d", cumulative, n)
		}
	})
}
