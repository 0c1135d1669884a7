package orchestrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// virtualCluster is a cluster in virtual time: workers are called without a network, and the clock of each leader can be
// set.
type virtualCluster struct {
	t     *testing.T
	store *memstore.Store
	fixed []poll.Poll

	mu      sync.Mutex
	workers map[string]*work.Worker
	runs    []started
	events  []regent.Event
	rev     int
	down    atomic.Bool // what the checks find
}

// started is a run of a slot, with its time by the clock that is never set.
type started struct {
	id  string
	due time.Time
	at  time.Time
}

func newVirtualCluster(t *testing.T, polls ...poll.Poll) *virtualCluster {
	h := &virtualCluster{t: t, store: memstore.New(), fixed: polls, workers: map[string]*work.Worker{}}
	for _, name := range []string{"w1", "w2"} {
		w := &work.Worker{Election: "seat"}
		w.Handle("tcp", func(_ context.Context, t work.Task) (json.RawMessage, error) {
			var due int64
			_, rest, _ := strings.Cut(t.ID, "/")
			fmt.Sscan(strings.FieldsFunc(rest, func(r rune) bool { return r == '~' || r == '#' })[0], &due)
			h.mu.Lock()
			h.runs = append(h.runs, started{t.ID, time.UnixMilli(due), time.Now()})
			h.mu.Unlock()
			return json.Marshal(check.Outcome{OK: !h.down.Load(), Latency: time.Millisecond})
		})
		h.workers[name] = w
	}
	return h
}

// RoundTrip calls a worker.
func (h *virtualCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	w := h.workers[r.URL.Hostname()]
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

func (h *virtualCluster) members(context.Context) ([]regent.MemberView, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []regent.MemberView
	for name := range h.workers {
		v := regent.MemberView{
			ID:          name,
			Addr:        name + ":1",
			Incarnation: "1",
			Lease:       6 * time.Second,
			Rev:         fmt.Sprint(h.rev),
		}
		v.Worker = true
		h.rev++
		all = append(all, v)
	}
	return all, nil
}

// skewedLeader is a leader whose clock is wrong by an offset.
type skewedLeader struct {
	*orchestrate.Orchestrator
	client *memstore.Client
	offset atomic.Int64
	stop   func()
}

func (n *skewedLeader) set(d time.Duration) { n.offset.Store(int64(d)) }

func (h *virtualCluster) leader(id string, offset time.Duration) *skewedLeader {
	n := &skewedLeader{}
	n.set(offset)
	n.client = h.store.Client(id, memstore.Faults{})
	m := &regent.Member{Store: n.client, ID: id, Config: regent.Cluster()}
	n.Orchestrator = orchestrate.New(orchestrate.Options{
		Store:        n.client,
		Election:     "seat",
		Leader:       id,
		Fixed:        h.fixed,
		Members:      h.members,
		ListInterval: time.Second,
		Pool:         work.Options{Client: &http.Client{Transport: h}},
		Log:          slog.New(slog.DiscardHandler),
		Now:          func() time.Time { return time.Now().Add(time.Duration(n.offset.Load())) },
		Emit: func(e regent.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
		},
	})

	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx, regent.Duty{Election: "seat", Name: "polls", Run: n.Orchestrator.Run})
	}()
	n.stop = func() {
		cancel()
		<-done
	}
	return n
}

// take returns what has run since the last call.
func (h *virtualCluster) take() []started {
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := h.runs
	h.runs = nil
	return runs
}

func (h *virtualCluster) close() {
	for _, w := range h.workers {
		_ = w.Close()
	}
}

// eventsOf returns the events of a kind.
func (h *virtualCluster) eventsOf(kind string) []regent.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.events), func(e regent.Event) bool { return e.Kind != kind })
}

// longest returns the longest time without a run, from a time on until now.
func longest(runs []started, from time.Time) (gap time.Duration) {
	for _, r := range runs {
		gap = max(gap, r.at.Sub(from))
		from = r.at
	}
	return max(gap, time.Since(from))
}

// most returns how often the slot that ran most often did.
func most(runs []started) (n int) {
	times := map[int64]int{}
	for _, r := range runs {
		times[r.due.UnixMilli()]++
		n = max(n, times[r.due.UnixMilli()])
	}
	return n
}

func TestClocks(t *testing.T) {
	brief := define(t, "p", `"interval":"2s","timeout":"1s"`)
	const bound = 2*time.Second + 2*time.Second + 5*time.Second + time.Second // a slot, the wait of an interval and the slack, a second to take over

	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("a_successor_of_a_leader_whose_clock_was_ahead_goes_on_at_once/it_died_%v", dies), func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				h := newVirtualCluster(t, brief)
				defer h.close()
				a := h.leader("a", 5*time.Minute)
				time.Sleep(time.Minute)
				if dies { // what it has run is not in its last checkpoint
					a.client.SetFaults(memstore.Faults{CutRequests: true, CutAnswers: true})
					time.Sleep(20 * time.Second)
				}
				a.stop()
				first := h.take()
				if len(first) < 28 || len(h.eventsOf(orchestrate.EventClock)) != 0 {
					t.Fatalf("%d runs, events %v", len(first), h.eventsOf(orchestrate.EventClock))
				}

				b := h.leader("b", 0)
				from := time.Now()
				time.Sleep(time.Minute)
				if v, err := b.Get("p"); err != nil || len(v.Results) == 0 || v.Results[0].Epoch != 2 {
					t.Errorf("its last result is of the former leader: %+v, %v", v.Results, err)
				}
				time.Sleep(9 * time.Minute)
				second := h.take()
				if gap := longest(second, from); gap > bound {
					t.Errorf("nothing ran for %v", gap)
				}
				events := h.eventsOf(orchestrate.EventClock)
				if len(events) != 1 || events[0].Metadata["polls"] != "1" || !strings.Contains(events[0].Metadata["error"], "ahead of this node's clock") {
					t.Errorf("events %v", events)
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
				// Beyond what the first one ran, slots have their usual identities.
				if last := second[len(second)-1]; strings.Contains(last.id, "~") {
					t.Errorf("the last is %s", last.id)
				}
				b.stop()
			})
		})
	}

	t.Run("clocks_that_go_back_by_an_hour_stop_nothing_under_any_later_leader", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, brief)
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(time.Minute)
			var all []started
			all = append(all, h.take()...)

			a.set(-time.Hour)
			from := time.Now()
			time.Sleep(time.Minute)
			runs := h.take()
			if gap := longest(runs, from); gap > bound {
				t.Errorf("nothing ran for %v", gap)
			}
			all = append(all, runs...)
			a.stop()

			b := h.leader("b", -time.Hour)
			from = time.Now()
			time.Sleep(2 * time.Hour) // beyond all that was run before
			runs = h.take()
			if gap := longest(runs, from); gap > bound {
				t.Errorf("under the next leader nothing ran for %v", gap)
			}
			all = append(all, runs...)
			b.stop()
			if events := h.eventsOf(orchestrate.EventClock); len(events) != 1 || !strings.Contains(events[0].Metadata["error"], "went back by 1h0m0s") {
				t.Errorf("events %v", events)
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
		})
	})

	t.Run("a_clock_that_goes_back_twice_stops_nothing", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, brief)
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(10 * time.Minute)
			h.take()
			from := time.Now()
			for _, offset := range []time.Duration{-5 * time.Minute, -6*time.Minute - 30*time.Second, -8 * time.Minute, -20 * time.Minute} {
				a.set(offset)
				time.Sleep(2 * time.Minute)
			}
			if gap := longest(h.take(), from); gap > bound {
				t.Errorf("nothing ran for %v", gap)
			}
			a.stop()
		})
	})

	t.Run("a_clock_that_goes_back_by_less_than_the_bound_runs_nothing_twice", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, brief)
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
			if gap := longest(runs[1:], runs[0].at); gap > bound || most(runs) != 1 || len(h.eventsOf(orchestrate.EventClock)) != 0 {
				t.Errorf("a gap of %v, a slot ran %d times, events %v", gap, most(runs), h.eventsOf(orchestrate.EventClock))
			}
		})
	})

	for name, polls := range map[string][]poll.Poll{"alone": nil, "beside_another": {brief}} {
		t.Run("a_poll_with_an_interval_longer_than_the_jump_is_not_run_twice_"+name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) { notTwice(t, append(polls, define(t, "hourly", `"cron":"0 * * * *"`))...) })
		})
	}

	t.Run("a_target_that_goes_down_after_the_clock_went_back_is_noticed", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, brief)
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

	t.Run("a_clock_that_is_set_ahead_skips_slots_and_misses_none", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, brief)
			defer h.close()
			a := h.leader("a", 0)
			time.Sleep(time.Minute)
			h.take()
			from := time.Now()
			a.set(time.Hour)
			time.Sleep(time.Minute)
			if gap := longest(h.take(), from); gap > bound {
				t.Errorf("nothing ran for %v", gap)
			}
			events := h.eventsOf(orchestrate.EventClock)
			if len(events) != 1 || events[0].Metadata["offset"] != "1h0m0s" || events[0].Metadata["skipped"] != "1800" {
				t.Errorf("events %v", events)
			}
			if s := a.Stats(); s.Slots["missed"] != 0 || s.Slots["skipped"] != 1800 || len(h.eventsOf(orchestrate.EventMissed)) != 0 {
				t.Errorf("%v, %v", s.Slots, h.eventsOf(orchestrate.EventMissed))
			}
			a.stop()
		})
	})

	t.Run("a_poll_that_was_made_by_a_leader_whose_clock_was_ahead_runs_under_the_next", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t)
			defer h.close()
			a := h.leader("a", time.Hour)
			time.Sleep(2 * time.Second)
			if _, err := a.Put(t.Context(), brief, 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			a.stop()
			h.take()
			b := h.leader("b", 0)
			from := time.Now()
			time.Sleep(time.Minute)
			if gap := longest(h.take(), from); gap > bound {
				t.Errorf("nothing ran for %v", gap)
			}
			b.stop()
		})
	})

	t.Run("a_poll_that_nobody_can_run_is_overdue_and_says_why", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			h := newVirtualCluster(t, define(t, "p", `"interval":"2s","timeout":"1s","kind":"htpp"`), define(t, "q", `"interval":"2s","timeout":"1s","assign":"node:nobody"`))
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
				for _, why := range strings.Split(e.Metadata["reason"], "; ") {
					if why != "no worker matches assign (node:nobody)" && why != "no worker makes htpp checks" {
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

// notTwice sets the clock back by half an hour, and then changes the leader.
func notTwice(t *testing.T, polls ...poll.Poll) {
	h := newVirtualCluster(t, polls...)
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
		if again := w.Stats().Duplicates; again != 0 {
			t.Errorf("%s was sent %d slots that it had run", name, again)
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
