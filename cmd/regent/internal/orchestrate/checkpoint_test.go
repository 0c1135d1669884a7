package orchestrate

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// termWithOpenSlots returns a term with a poll whose target is down.
func termWithOpenSlots(t *testing.T) (*term, *entry) {
	tm := &term{entries: map[string]*entry{}, open: map[*slot]struct{}{}, through: time.UnixMilli(1_000_000)}
	e := entryOf(t, poll.Poll{Interval: poll.Duration(time.Second)})
	e.state = Down
	tm.entries["p"] = e

	return tm, e
}

// addOpen adds an open slot that a worker runs, or that waits if the worker is empty.
func (t *term) addOpen(e *entry, due int64, worker string) {
	s := newSlot(e, schedule.Slot{Due: due})
	s.worker = worker
	t.open[s] = struct{}{}
}

func TestCheckpoint(t *testing.T) {
	t.Run("slots_that_do_not_fit_are_due_after_its_time", func(t *testing.T) {
		tm, e := termWithOpenSlots(t)
		for i := range 10_000 {
			tm.addOpen(e, int64(900_000+i), "w")
		}
		tm.open[newSlot(e, schedule.Slot{Due: 1, Manual: true})] = struct{}{}

		cp, _ := tm.checkpoint()
		b, err := json.Marshal(cp)
		if err != nil || len(b) > driver.MaxData {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		if len(cp.Open) < 1000 || cp.Open[0] != "p/900000" || len(cp.Down) != 1 {
			t.Errorf("%d open, first %s, down %v", len(cp.Open), cp.Open[0], cp.Down)
		}
		if last, _ := schedule.ParseSlot(cp.Open[len(cp.Open)-1]); cp.Through != last.Due {
			t.Errorf("through %d, last open %d", cp.Through, last.Due)
		}

		back, err := readCheckpoint(b)
		if err != nil || back.begin().UnixMilli() != 900_000 {
			t.Errorf("%v %v", back.begin(), err)
		}
	})

	t.Run("late_slots_that_no_worker_takes_do_not_move_its_time", func(t *testing.T) {
		tm, e := termWithOpenSlots(t)
		for i := range 10_000 {
			tm.addOpen(e, int64(100+i), "")
		}
		tm.addOpen(e, 999_999, "w")
		if cp, _ := tm.checkpoint(); cp.Through != 1_000_000 || cp.Open[0] != "p/999999" {
			t.Errorf("through %d, first open %s", cp.Through, cp.Open[0])
		}
	})

	t.Run("a_damaged_one_is_an_error", func(t *testing.T) {
		if _, err := readCheckpoint([]byte("damaged")); err == nil {
			t.Error("anything is a checkpoint")
		}
	})

	t.Run("an_older_one_never_overwrites_a_newer_one", func(t *testing.T) {
		leadOnce(t, func(ctx context.Context, lead regent.Term) error {
			tm := idleTerm(t, lead, nil)
			done := make(chan error, 20)
			for i := range 20 {
				tm.mu.Lock()
				tm.through = time.UnixMilli(int64(i + 1))
				tm.mu.Unlock()
				go func() { done <- tm.save(ctx) }()
			}
			for range 20 {
				if err := <-done; err != nil {
					return err
				}
			}

			if cp, err := readCheckpoint(lead.Saved()); err != nil || cp.Through != 20 {
				t.Errorf("%+v %v", cp, err)
			}
			return nil
		})
	})

	t.Run("a_full_one_queues_no_slot_twice", func(t *testing.T) {
		virtual.Test(t, fullCheckpoint) // which begins within seconds of a full minute
	})
}

// leadOnce runs a function as the leader of an election.
func leadOnce(t *testing.T, run func(context.Context, regent.Term) error) {
	t.Helper()
	m := &regent.Member{Store: memstore.New(), ID: "a"}
	if err := m.Lead(t.Context(), "e", run); err != nil {
		t.Fatal(err)
	}
}

// fullCheckpoint has 2000 polls due at the same time, and then loads the checkpoint that does not hold them all.
func fullCheckpoint(t *testing.T) {
	var fixed []poll.Poll
	for i := range 2000 {
		p := poll.Poll{Name: fmt.Sprintf("poll-%04d", i), Kind: "tcp", Target: "h:1", Cron: "* * * * *", Enabled: true}
		fixed = append(fixed, p.WithDefaults())
	}

	leadOnce(t, func(ctx context.Context, lead regent.Term) error {
		before := idleTerm(t, lead, nil, fixed...)
		before.quiescing = true
		if err := before.load(); err != nil {
			return err
		}
		defer before.pool.Close()
		before.step(before.began.Add(time.Minute))
		if err := before.save(ctx); err != nil {
			return err
		}

		after := idleTerm(t, lead, nil, fixed...)
		after.began = before.began.Add(62 * time.Second)
		after.quiescing = true
		if err := after.load(); err != nil {
			return err
		}
		defer after.pool.Close()
		after.step(after.began)

		if len(after.open) != len(fixed) {
			t.Errorf("%d slots are open", len(after.open))
		}
		seen := map[string]bool{}
		for s := range after.open {
			if seen[s.String()] {
				t.Errorf("%s is queued twice", s)
			}
			seen[s.String()] = true
		}
		return nil
	})
}
