package reaper

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper/proctree"
	"golang.org/x/sys/unix"
)

// held returns a line on which a term depends.
func held(incarnation string, killAt time.Duration) line {
	return line{Register: "r", ID: "a", Incarnation: incarnation, KillAt: killAt, Holds: true}
}

// newCompanion returns a companion that has no timer and opens no store.
func newCompanion() *companion {
	w := &companion{state: newState(), timer: -1, log: slog.New(slog.DiscardHandler), link: &link{}}
	w.link.once.Do(func() {})
	return w
}

func TestState(t *testing.T) {
	t.Run("a_process_has_its_deadline_and_the_stop_timeout_less_half_of_what_its_terms_end_early", func(t *testing.T) {
		l := newLine(regent.Lifeline{Left: 20 * time.Second}, time.Hour, 5*time.Second)
		if l.KillAt != time.Hour+25*time.Second-100*time.Millisecond {
			t.Error(l.KillAt)
		}
	})

	t.Run("a_line_carries_whether_a_term_depends_on_it", func(t *testing.T) {
		for _, holds := range []bool{true, false} {
			if l := newLine(regent.Lifeline{Holds: holds}, 0, 0); l.Holds != holds {
				t.Error(l)
			}
		}
	})

	t.Run("the_end_of_an_incarnation_is_not_the_end_of_the_next", func(t *testing.T) {
		b := newState()
		first, second := held("1", 1), held("2", 2)
		over := first
		over.Over = true
		for _, l := range []line{first, second, over} {
			b.note(l)
		}

		if b.idle() || b.lines["r"] != second {
			t.Error(b)
		}

		over = second
		over.Over = true
		if b.note(over); !b.idle() {
			t.Error(b)
		}
	})

	t.Run("a_late_word_about_an_incarnation_that_has_ended_is_dropped", func(t *testing.T) {
		first := held("1", 1)
		second := held("2", 2)
		third := held("3", 3)
		stopped, over := first, first
		stopped.Stopped = true
		over.Stopped, over.Over = true, true
		for name, c := range map[string]struct {
			words []line
			want  line
		}{
			"stopped after it was replaced": {[]line{first, second, stopped}, second},
			"stopped after two others":      {[]line{first, second, third, stopped}, third},
			"renewed after it was replaced": {[]line{first, second, first}, second},
			"renewed after it has stopped":  {[]line{first, stopped, first}, stopped},
			"renewed after it was released": {[]line{first, stopped, over, first}, line{}},
			"stopped after it was released": {[]line{first, stopped, over, stopped}, line{}},
			"released though never known":   {[]line{over}, line{}},
		} {
			b := newState()
			for _, l := range c.words {
				b.note(l)
			}
			if got := b.lines["r"]; got != c.want {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

func TestOverdue(t *testing.T) {
	t.Run("one_whose_duties_have_stopped_is_not_overdue_but_is_freed_when_its_process_dies", func(t *testing.T) {
		w := companion{state: newState()}
		running, stopped := held("1", boottime()-time.Second), held("1", 0)
		stopped.Stopped = true
		if w.note(running); w.overdue() == nil {
			t.Error("it is overdue while it runs")
		}

		w.note(stopped)
		if w.overdue() != nil || w.idle() || w.lines["r"].KillAt != running.KillAt {
			t.Error(w.lines)
		}
	})

	t.Run("one_on_which_no_term_depends_is_not_overdue_but_is_freed_when_its_process_dies", func(t *testing.T) {
		w := companion{state: newState()}
		l := held("1", boottime()-time.Second)
		l.Holds = false
		w.note(l)
		if w.overdue() != nil || w.idle() {
			t.Error(w.lines)
		}
	})

	t.Run("the_timer_is_set_when_a_term_begins_to_depend_on_a_known_line_and_not_before", func(t *testing.T) {
		w := newCompanion()
		holds := held("1", boottime()+time.Hour)
		waits := holds
		waits.Holds = false
		if w.apply(message{Line: &waits}.encode(nil)); w.armed != 0 {
			t.Errorf("set to %v for a line that does not hold", w.armed)
		}

		if w.apply(message{Line: &holds}.encode(nil)); w.armed != holds.KillAt {
			t.Errorf("set to %v, not %v", w.armed, holds.KillAt)
		}

		w.apply(message{Line: &waits}.encode(nil))
		if w.expire(); w.armed != 0 {
			t.Errorf("set to %v after the term has ended", w.armed)
		}
	})
}

func TestPipe(t *testing.T) {
	t.Run("a_slow_reaper_is_sent_the_newest_state_of_a_register_and_nothing_older", func(t *testing.T) {
		who := driver.Identity{ID: "a", Incarnation: "1"}
		next := driver.Identity{ID: "a", Incarnation: "2"}
		r := &Reaper{state: newState(), pending: newPending(), kick: make(chan struct{}, 1)}
		w := newCompanion()
		for _, c := range []struct {
			words []regent.Lifeline
			want  line
		}{
			{
				[]regent.Lifeline{{Holder: who}},
				line{ID: "a", Incarnation: "1"},
			},
			{
				[]regent.Lifeline{{Holder: who, Holds: true}, {Holder: who}, {Holder: who, Holds: true}},
				line{ID: "a", Incarnation: "1", Holds: true},
			},
			{
				[]regent.Lifeline{
					{Holder: who, Stopped: true},
					{Holder: next, Holds: true},
					{Holder: who, Stopped: true, Over: true},
				},
				line{ID: "a", Incarnation: "2", Holds: true},
			},
			{[]regent.Lifeline{{Holder: next}}, line{ID: "a", Incarnation: "2"}},
			{[]regent.Lifeline{{Holder: next, Stopped: true}, {Holder: next, Stopped: true, Over: true}}, line{}},
		} {
			for _, l := range c.words {
				r.Lifeline(l)
			}

			changes, _ := r.changes()
			if len(changes) != 1 {
				t.Errorf("%d messages", len(changes))
			}

			for _, m := range changes {
				w.take(m)
			}

			got, known := w.lines[""]
			if got.KillAt = 0; got != c.want || known != (c.want != line{}) {
				t.Errorf("after %+v the reaper has %+v", c.words, got)
			}
		}
	})

	t.Run("a_reaper_that_is_late_or_has_left_the_pipe_full_listens_for_longer_but_not_for_ever", func(t *testing.T) {
		for late, want := range map[time.Duration]time.Duration{
			0:                      listenMin,
			100 * time.Millisecond: 100 * time.Millisecond,
			time.Hour:              listenMax,
		} {
			if got := listenFor(late, false); got != want {
				t.Errorf("late by %v: %v", late, got)
			}
			if got := listenFor(late, true); got != listenMax {
				t.Errorf("late by %v, with a full pipe: %v", late, got)
			}
		}
	})

	t.Run("a_pipe_that_was_full_is_noticed_until_it_is_read_again", func(t *testing.T) {
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer out.Close()

		w := newCompanion()
		w.in = int(in.Fd())
		if err := unix.SetNonblock(w.in, true); err != nil {
			t.Fatal(err)
		}

		l := held("1", time.Hour)
		var many []byte
		for len(many) < fullPipe {
			many = message{Line: &l}.encode(many)
		}

		for _, c := range []struct {
			text []byte
			full bool
		}{
			{message{Line: &l}.encode(nil), false},
			{many, true},
			{message{Line: &l}.encode(nil), false},
		} {
			if _, err := out.Write(c.text); err != nil {
				t.Fatal(err)
			}
			if w.listen(); w.full != c.full {
				t.Errorf("%d bytes: %t", len(c.text), w.full)
			}
		}
	})

	t.Run("a_process_tree_is_known_by_its_mark", func(t *testing.T) {
		s := newState()
		tree := proctree.New()
		s.take(message{Track: &tree})
		tree.Leader = 5
		s.take(message{Track: &tree})

		if m := s.tree(tree.Mark); m.Track == nil || *m.Track != tree {
			t.Error(m)
		}

		if len(s.trees) != 1 || s.trees[tree.Mark].Leader != 5 {
			t.Error(s)
		}

		if s.take(message{Untrack: &tree}); !s.idle() || s.tree(tree.Mark).Untrack == nil {
			t.Error(s)
		}
	})

	t.Run("lines_are_taken_in_however_they_are_cut", func(t *testing.T) {
		first, second := held("1", time.Hour), held("2", time.Hour)
		second.Register = "s"
		text := message{Line: &second}.encode(message{Line: &first}.encode(nil))
		for cut := range text {
			w := newCompanion()
			w.apply(text[:cut])
			w.apply(text[cut:])
			if len(w.lines) != 2 || len(w.part) > 0 {
				t.Errorf("cut at %d: %v", cut, w.lines)
			}
		}
	})

	t.Run("no_reaper_is_a_reaper_that_does_nothing", func(t *testing.T) {
		var r *Reaper
		r.Lifeline(regent.Lifeline{})
		r.Track(proctree.New())
		r.Untrack(proctree.New())
		r.Close()
		if r.PID() != 0 {
			t.Error(r.PID())
		}
	})
}
