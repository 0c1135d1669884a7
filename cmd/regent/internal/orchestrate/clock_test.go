package orchestrate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// everyTwoSeconds returns the poll p, which is due every two seconds.
func everyTwoSeconds(t *testing.T) poll.Poll {
	return define(t, "p", `"interval":"2s","timeout":"1s"`)
}

// longestGap is the longest time without a run of everyTwoSeconds: a slot, the wait of an interval and the slack, and a
// second to take over.
const longestGap = 2*time.Second + 2*time.Second + 5*time.Second + time.Second

// noGap checks that no time without a run was longer than longestGap.
func noGap(t *testing.T, runs []started, from time.Time) {
	t.Helper()
	if gap := longest(runs, from); gap > longestGap {
		t.Errorf("nothing ran for %v", gap)
	}
}

// oneClockEvent checks that one event about clocks was sent, and returns it.
func oneClockEvent(t *testing.T, h *virtualCluster) regent.Event {
	t.Helper()
	events := h.eventsOf(orchestrate.EventClock)
	if len(events) != 1 {
		t.Fatalf("events %v", events)
	}

	return events[0]
}

func TestClockAhead(t *testing.T) {
	for _, dies := range []bool{false, true} {
		name := fmt.Sprintf("the_successor_of_a_leader_whose_clock_was_ahead_continues_at_once/it_died_%v", dies)
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) { clockAhead(t, dies) })
		})
	}

	t.Run("a_poll_that_was_put_by_a_leader_whose_clock_was_ahead_runs_under_the_next", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t)
			defer h.close()
			a := h.leader("a", time.Hour)
			time.Sleep(2 * time.Second)
			if _, err := a.Put(t.Context(), everyTwoSeconds(t), 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			a.stop()
			h.take()

			b := h.leader("b", 0)
			from := time.Now()
			time.Sleep(time.Minute)
			noGap(t, h.take(), from)
			b.stop()
		})
	})

	t.Run("a_clock_that_is_set_forward_skips_slots_and_misses_none", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, everyTwoSeconds(t))
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(time.Minute)
			h.take()

			from := time.Now()
			a.set(time.Hour)
			time.Sleep(time.Minute)
			noGap(t, h.take(), from)
			e := oneClockEvent(t, h)
			if e.Measurements["offsetMs"] != 3_600_000 || e.Metadata["skipped"] != "1800" {
				t.Errorf("event %v", e)
			}
			missed := h.eventsOf(orchestrate.EventMissed)
			if s := a.Stats(); s.Slots["missed"] != 0 || s.Slots["skipped"] != 1800 || len(missed) != 0 {
				t.Errorf("%v, %v", s.Slots, missed)
			}
			a.stop()
		})
	})
}

// clockAhead has a leader run polls whose clock is ahead by five minutes, and then another one.
func clockAhead(t *testing.T, dies bool) {
	h := newVirtualCluster(t, everyTwoSeconds(t))
	defer h.close()
	a := h.leader("a", 5*time.Minute)
	time.Sleep(time.Minute)
	if dies { // its last runs are not in its last checkpoint
		a.client.SetFaults(memstore.Faults{CutRequests: true, CutAnswers: true})
		time.Sleep(20 * time.Second)
	}
	a.stop()
	first := h.take()
	if events := h.eventsOf(orchestrate.EventClock); len(first) < 28 || len(events) != 0 {
		t.Fatalf("%d runs, events %v", len(first), events)
	}

	b := h.leader("b", 0)
	from := time.Now()
	time.Sleep(time.Minute)
	if v, err := b.Get("p"); err != nil || len(v.Results) == 0 || v.Results[0].Epoch != 2 {
		t.Errorf("its last result is of the former leader: %+v, %v", v.Results, err)
	}
	time.Sleep(9 * time.Minute)
	second := h.take()
	noGap(t, second, from)
	e := oneClockEvent(t, h)
	if e.Metadata["polls"] != "1" || !strings.Contains(e.Metadata["error"], "ahead of this node's clock") {
		t.Errorf("event %v", e)
	}

	if n := most(second); n != 1 {
		t.Errorf("b ran a slot %d times", n)
	}
	if n := most(append(first, second...)); n > 2 {
		t.Errorf("a slot ran %d times", n)
	}
	if s := b.Stats(); s.Jumps != 1 || s.Overdue != 0 {
		t.Errorf("%+v", s)
	}
	if missed := h.eventsOf(orchestrate.EventMissed); len(missed) != 0 {
		t.Errorf("missed %v", missed)
	}
	if last := second[len(second)-1]; strings.Contains(last.id, "~") {
		t.Errorf("a slot that the first leader did not run has the ID %s", last.id)
	}
	b.stop()
}

func TestClockSetBack(t *testing.T) {
	t.Run("by_an_hour_stops_nothing_under_any_later_leader", func(t *testing.T) {
		virtual.Test(t, clockSetBack)
	})

	t.Run("twice_stops_nothing", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, everyTwoSeconds(t))
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(10 * time.Minute)
			h.take()

			from := time.Now()
			for _, seconds := range []time.Duration{300, 390, 480, 1200} {
				a.set(-seconds * time.Second)
				time.Sleep(2 * time.Minute)
			}
			noGap(t, h.take(), from)
			a.stop()
		})
	})

	t.Run("by_less_than_the_bound_runs_nothing_twice", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, everyTwoSeconds(t))
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(time.Minute)
			a.set(-4 * time.Second)
			time.Sleep(time.Second)
			a.stop()
			b := h.leader("b", -4*time.Second)
			time.Sleep(time.Minute)
			b.stop()

			runs := h.take()
			noGap(t, runs[1:], runs[0].at)
			if events := h.eventsOf(orchestrate.EventClock); most(runs) != 1 || len(events) != 0 {
				t.Errorf("a slot ran %d times, events %v", most(runs), events)
			}
		})
	})

	t.Run("by_less_than_an_interval_runs_nothing_twice/alone", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) { hourlyNotTwice(t) })
	})
	t.Run("by_less_than_an_interval_runs_nothing_twice/beside_another_poll", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) { hourlyNotTwice(t, everyTwoSeconds(t)) })
	})

	t.Run("a_target_that_goes_down_after_it_is_noticed", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, everyTwoSeconds(t))
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(time.Minute)
			a.set(-time.Hour)
			time.Sleep(30 * time.Second)
			h.down.Store(true)
			time.Sleep(30 * time.Second)

			v, err := a.Get("p")
			if err != nil || v.State != orchestrate.Down || len(v.Results) == 0 || v.Results[0].Outcome != "failed" {
				t.Errorf("%+v, %v", v.Status, err)
			}
			a.stop()
		})
	})
}

// clockSetBack sets the clock back by an hour, and then changes the leader.
func clockSetBack(t *testing.T) {
	h := newVirtualCluster(t, everyTwoSeconds(t))
	defer h.close()
	a := h.leader("a", 0)
	time.Sleep(time.Minute)
	all := h.take()

	a.set(-time.Hour)
	from := time.Now()
	time.Sleep(time.Minute)
	runs := h.take()
	noGap(t, runs, from)
	all = append(all, runs...)
	a.stop()

	b := h.leader("b", -time.Hour)
	from = time.Now()
	time.Sleep(2 * time.Hour) // beyond all slots that ran before
	runs = h.take()
	noGap(t, runs, from)
	all = append(all, runs...)
	b.stop()

	if e := oneClockEvent(t, h); !strings.Contains(e.Metadata["error"], "went back by 1h0m0s") {
		t.Errorf("event %v", e)
	}
	ids := map[string]bool{}
	for _, r := range all {
		if ids[r.id] {
			t.Errorf("%s ran twice", r.id)
		}
		ids[r.id] = true
	}
	if n := most(all); n > 2 {
		t.Errorf("a slot ran %d times", n)
	}
}

// hourlyNotTwice sets the clock back by half an hour, and then changes the leader: an hourly poll runs each slot once.
func hourlyNotTwice(t *testing.T, others ...poll.Poll) {
	h := newVirtualCluster(t, append(others, define(t, "hourly", `"cron":"0 * * * *"`))...)
	defer h.close()
	a := h.leader("a", 0)
	time.Sleep(65 * time.Minute)
	a.set(-30 * time.Minute)
	time.Sleep(10 * time.Second)
	a.stop()
	b := h.leader("b", -30*time.Minute)
	time.Sleep(3 * time.Hour)
	b.stop()

	for name, w := range h.workers {
		if n := w.Stats().Duplicates; n != 0 {
			t.Errorf("%s was sent %d slots that it had run", name, n)
		}
	}
	var hourly []started
	for _, r := range h.take() {
		if strings.HasPrefix(r.id, "hourly/") {
			hourly = append(hourly, r)
		}
	}
	// 01:00, and then 02:00 to 03:00 by the clock that is behind.
	if most(hourly) != 1 || len(hourly) < 3 || longest(hourly[1:], hourly[0].at) > time.Hour+31*time.Minute {
		t.Errorf("%v", hourly)
	}
}

func TestOverdue(t *testing.T) {
	t.Run("a_poll_that_no_worker_can_run_is_overdue_and_has_a_reason", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t,
				define(t, "p", `"interval":"2s","timeout":"1s","kind":"htpp"`),
				define(t, "q", `"interval":"2s","timeout":"1s","assign":"node:nobody"`))
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(3 * time.Minute)
			if s := a.Stats(); s.Overdue != 2 {
				t.Errorf("%+v", s)
			}

			missed := h.eventsOf(orchestrate.EventMissed)
			if len(missed) == 0 {
				t.Fatal("nothing was missed")
			}
			for _, e := range missed {
				for reason := range strings.SplitSeq(e.Metadata["reason"], "; ") {
					if reason != "no worker matches assign (node:nobody)" && reason != "no worker makes htpp checks" {
						t.Fatalf("%v", e.Metadata)
					}
				}
			}

			v, err := a.Get("p")
			if err != nil || v.Problem != "no worker makes htpp checks" {
				t.Errorf("%+v, %v", v.Status, err)
			}
			a.stop()
		})
	})
}
