package poll

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// bare is a conduct of a term that nobody leads, so that nothing is ever sent.
func bare(t *testing.T, term regent.Term, told *[]regent.Event, fixed ...Poll) *conduct {
	emit := func(e regent.Event) {
		if told != nil {
			*told = append(*told, e)
		}
	}
	o := NewOrchestrator(Options{Store: memstore.New(), Emit: emit, Log: slog.New(slog.DiscardHandler), Fixed: fixed})
	c := newConduct(t.Context(), o, term)
	c.pool = work.NewPool(t.Context(), term, work.Options{})
	t.Cleanup(c.pool.Close)
	c.looked = c.beganAt
	return c
}

func (c *conduct) wait(e *entry, due time.Time) *slot {
	c.entries[e.poll.Name] = e
	s := &slot{entry: e, due: due.UnixMilli()}
	e.putBack(s)
	c.open[s] = struct{}{}
	c.list(e)
	return s
}

func TestTrouble(t *testing.T) {
	every := Poll{Interval: Duration(10 * time.Second)}
	nobody := regent.Term{Election: "e", Epoch: 2}

	t.Run("a_slot_that_nobody_can_have_does_not_hold_up_the_round", func(t *testing.T) {
		c := bare(t, nobody, nil)
		c.suspects["w"] = true
		c.wait(entryOf(t, every), c.began)
		now := c.beganAt.Add(45 * time.Second) // the doubt is over, and there is no other worker
		if next := c.dispatch(now, now); !next.Equal(now.Add(again)) {
			t.Errorf("the next look is at %v, now is %v", next, now)
		}
	})

	t.Run("when_the_doubt_is_over_what_must_not_run_twice_ends_as_unknown", func(t *testing.T) {
		c := bare(t, nobody, nil)
		c.suspects["w"] = true
		e := entryOf(t, every)
		e.poll.Kind = "exec"
		c.wait(e, c.began)
		c.dispatch(c.began.Add(45*time.Second), c.beganAt.Add(45*time.Second))
		if len(e.runs) != 1 || e.runs[0].Outcome != outcomeUnknown || len(c.open) != 0 || e.state != "" {
			t.Errorf("runs %v, %d open, state %s", e.runs, len(c.open), e.state)
		}
	})

	t.Run("what_must_not_run_twice_is_not_begun_anew_unless_its_worker_is_proved_dead", func(t *testing.T) {
		for _, proved := range []bool{false, true} {
			c := bare(t, nobody, nil)
			e := entryOf(t, every)
			e.poll.Kind = "exec"
			s := c.wait(e, c.began)
			s.worker = "w"
			c.members["w"] = &member{view: regent.MemberView{ID: "w", Incarnation: "1"}}
			if proved {
				c.members["w"].view.Incarnation = ""
			}
			c.ended(s, 0, work.Result{}, work.ErrGone)
			if again := !s.settled && s.attempt == 1; again != proved {
				t.Errorf("proved %v: begun anew %v, %v", proved, again, e.runs)
			}
		}
	})

	for what, change := range map[string]func(*entry) *entry{
		"disabled":  func(e *entry) *entry { e.poll.Enabled = false; return e },
		"changed":   func(e *entry) *entry { return e },
		"removed":   func(*entry) *entry { return nil },
		"retimed":   func(e *entry) *entry { e.poll.Interval *= 2; return e },
		"recreated": func(e *entry) *entry { e.poll.Target = "other:1"; return e },
	} {
		t.Run("a_poll_with_waiting_slots_can_be_"+what, func(t *testing.T) {
			c := bare(t, nobody, nil)
			old := entryOf(t, every)
			first, second := c.wait(old, c.began), c.wait(old, c.began.Add(time.Second))
			asked := &slot{entry: old, due: c.began.UnixMilli(), manual: true, done: make(chan Run, 1)}
			old.putBack(asked)
			c.open[asked] = struct{}{}
			e := entryOf(t, every)
			e.poll.Since = time.Now()
			e = change(e)
			c.replace(old, e)
			for i := range 3 {
				c.step(time.Now().Add(time.Duration(i) * 2 * time.Second))
			}
			stays := e != nil && e.poll.Enabled
			if first.settled == stays || second.settled == stays || len(old.queue) != 0 {
				t.Errorf("settled %v %v, old queue %v", first.settled, second.settled, old.queue)
			}
			if e == nil && (len(c.listed) != 0 || len(c.open) != 0) {
				t.Errorf("%d listed, %d open", len(c.listed), len(c.open))
			}
			for _, l := range c.listed {
				if l == old {
					t.Error("the old one is still listed")
				}
			}
			if e == nil {
				if r := <-asked.done; !strings.Contains(r.Message, "removed") {
					t.Errorf("got %+v", r)
				}
			}
		})
	}

	t.Run("a_full_checkpoint_makes_no_slot_of_one_time_twice", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) { // it begins within seconds of a full minute
			var fixed []Poll
			for i := range 2000 {
				fixed = append(fixed, Poll{Name: fmt.Sprintf("poll-%04d", i), Kind: "tcp", Target: "h:1", Cron: "* * * * *", Enabled: true}.WithDefaults())
			}
			m := &regent.Member{Store: memstore.New(), ID: "a"}
			err := m.Lead(t.Context(), "e", func(ctx context.Context, term regent.Term) error {
				c := bare(t, term, nil, fixed...)
				c.quiet = true
				if err := c.load(); err != nil {
					return err
				}
				defer c.pool.Close()
				c.step(c.began.Add(time.Minute)) // all are due, at the same time
				if err := c.save(ctx); err != nil {
					return err
				}
				d := bare(t, term, nil, fixed...)
				d.began, d.quiet = c.began.Add(62*time.Second), true
				if err := d.load(); err != nil {
					return err
				}
				defer d.pool.Close()
				d.step(d.began)
				if len(d.open) != len(fixed) {
					t.Errorf("%d slots are open", len(d.open))
				}
				seen := map[string]bool{}
				for s := range d.open {
					if seen[s.id()] {
						t.Errorf("%s is there twice", s.id())
					}
					seen[s.id()] = true
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	})

	t.Run("an_older_checkpoint_never_overwrites_a_newer", func(t *testing.T) {
		m := &regent.Member{Store: memstore.New(), ID: "a"}
		err := m.Lead(t.Context(), "e", func(ctx context.Context, term regent.Term) error {
			c := bare(t, term, nil)
			done := make(chan error, 20)
			for i := range 20 {
				c.mu.Lock()
				c.through = time.UnixMilli(int64(i + 1))
				c.mu.Unlock()
				go func() { done <- c.save(ctx) }()
			}
			for range 20 {
				if err := <-done; err != nil {
					return err
				}
			}
			if cp, err := readCheckpoint(term.Saved()); err != nil || cp.Through != 20 {
				t.Errorf("%+v %v", cp, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})

	t.Run("thousands_of_missed_slots_are_one_event", func(t *testing.T) {
		var told []regent.Event
		c := bare(t, nobody, &told)
		for i := range 3000 {
			e := entryOf(t, every)
			e.poll.Name = fmt.Sprintf("p%04d", i)
			for n := range 5 {
				c.wait(e, c.began.Add(time.Duration(-2*n)*time.Minute))
			}
		}
		c.step(c.began)
		if len(told) != 1 || told[0].Kind != EventMissed || told[0].Metadata["slots"] != "12000" || !strings.HasSuffix(told[0].Metadata["polls"], "p0009 and 2990 more") {
			t.Errorf("%d events, first %+v", len(told), told[0])
		}
		if len(c.open) != 3000 {
			t.Errorf("%d open", len(c.open))
		}
	})

	t.Run("what_is_no_finding_about_the_target_does_not_move_its_state", func(t *testing.T) {
		for _, outcome := range []string{outcomeError, outcomeUnknown} {
			var r record
			r.note(Run{Slot: "p/1", Due: time.UnixMilli(1), Outcome: outcomeOK})
			if _, changed := r.note(Run{Slot: "p/2", Due: time.UnixMilli(2), Outcome: outcome}); changed || r.state != Up || len(r.runs) != 2 {
				t.Errorf("%s: changed %v, %s, %d runs", outcome, changed, r.state, len(r.runs))
			}
		}
	})

	t.Run("a_run_that_waited_too_long_goes_elsewhere", func(t *testing.T) {
		c := bare(t, nobody, nil)
		e := entryOf(t, every)
		s := c.wait(e, c.began)
		e.took(s, c.began)
		s.worker = "w"
		c.ended(s, 0, work.Result{Outcome: work.Expired}, nil)
		if s.settled || s.attempt != 1 || len(s.refused) != 1 || len(e.queue) != 1 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("a_completed_run_that_is_told_late_saves_its_slot_from_being_run_again", func(t *testing.T) {
		c := bare(t, nobody, nil)
		e := entryOf(t, every)
		s := c.wait(e, c.began)
		s.attempt = 1 // its worker was lost
		c.found("w", work.Result{ID: fmt.Sprintf("p/%d", s.due), Outcome: work.Done, Data: []byte(`{"ok":false}`)})
		if s.settled {
			t.Error("a failed check is taken for the end")
		}
		c.found("w", work.Result{ID: fmt.Sprintf("p/%d", s.due), Outcome: work.Done, Data: []byte(`{"ok":true}`)})
		if !s.settled || len(e.runs) != 1 || e.runs[0].Outcome != outcomeOK {
			t.Errorf("got %+v, %v", s, e.runs)
		}
	})

	t.Run("the_leader_has_its_own_worker_run_only_what_no_other_can", func(t *testing.T) {
		turn := 0
		members := map[string]*member{"self": {}, "w1": {}, "w2": {}}
		crew := &crew{workers: []work.WorkerView{{ID: "self", Ready: true}, {ID: "w1", Ready: true, Tasks: 5}, {ID: "w2", Ready: true, Busy: true}}, members: members, self: "self", turn: &turn}
		s := &slot{entry: entryOf(t, every)}
		if w := crew.pick(s); w == nil || w.ID != "w1" {
			t.Errorf("got %+v", w)
		}
		s.refused = []string{"w1"}
		if w := crew.pick(s); w == nil || w.ID != "self" {
			t.Errorf("got %+v", w)
		}
	})
}
