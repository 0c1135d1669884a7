package reaper

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/runner/brood"
	"github.com/regentd/regent/memstore"
)

func told(incarnation string, killAt time.Duration) line {
	return line{Register: "r", ID: "a", Incarnation: incarnation, KillAt: killAt}
}

func TestBoard(t *testing.T) {
	t.Run("a_process_is_given_its_deadline_and_the_stop_timeout_less_half_of_what_its_terms_end_early", func(t *testing.T) {
		l := newLine(regent.Lifeline{Left: 20 * time.Second}, time.Hour, 5*time.Second)
		if l.KillAt != time.Hour+25*time.Second-100*time.Millisecond {
			t.Error(l.KillAt)
		}
	})
	t.Run("the_end_of_an_incarnation_is_not_the_end_of_the_next", func(t *testing.T) {
		b := newBoard()
		first, second := told("1", 1), told("2", 2)
		over := first
		over.Over = true
		for _, l := range []line{first, second, over} {
			b.take(message{Line: &l})
		}
		if b.idle() || b.lines["r"] != second {
			t.Error(b)
		}
		over = second
		over.Over = true
		if b.take(message{Line: &over}); !b.idle() {
			t.Error(b)
		}
	})
	t.Run("one_whose_duties_have_stopped_is_not_overdue_but_is_freed_when_its_process_dies", func(t *testing.T) {
		w := watch{board: newBoard()}
		running, stopped := told("1", boottime()-time.Second), told("1", 0)
		stopped.Stopped = true
		if w.take(message{Line: &running}); w.overdue() == nil {
			t.Error("it is overdue while it runs")
		}
		w.take(message{Line: &stopped})
		if w.overdue() != nil || w.idle() || w.lines["r"].KillAt != running.KillAt {
			t.Error(w.lines)
		}
	})
	t.Run("a_group_is_known_by_its_mark", func(t *testing.T) {
		b, g := newBoard(), brood.New()
		b.take(message{Group: &g})
		g.Leader = 5
		b.take(message{Group: &g})
		if len(b.groups) != 1 || b.groups[g.Mark].Leader != 5 {
			t.Error(b)
		}
		if b.take(message{Gone: &g}); !b.idle() {
			t.Error(b)
		}
	})
	t.Run("lines_are_taken_in_however_they_are_cut", func(t *testing.T) {
		first, second := told("1", time.Hour), told("2", time.Hour)
		second.Register = "s"
		text := message{Line: &second}.encode(message{Line: &first}.encode(nil))
		for cut := range text {
			w := watch{board: newBoard(), timer: -1, log: slog.New(slog.DiscardHandler), link: &link{}}
			w.link.once.Do(func() {}) // it opens nothing
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
		r.Group(brood.New())
		r.Ungroup(brood.New())
		r.Close()
		if r.PID() != 0 {
			t.Error(r.PID())
		}
	})
}

func TestLink(t *testing.T) {
	dead := told("1", 0)
	t.Run("a_store_that_cannot_be_opened_or_does_not_answer_is_opened_again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			if _, err := store.Swap(t.Context(), regent.Lease{Name: "r", Holder: dead.holder(), Epoch: 1, Nonce: 1, Duration: time.Minute}); err != nil {
				t.Fatal(err)
			}
			var opened atomic.Int64
			l := &link{ctx: t.Context(), log: slog.New(slog.DiscardHandler), ready: make(chan struct{}), dial: func(context.Context, string) (regent.Store, error) {
				switch n := opened.Add(1); {
				case n < 3:
					return nil, errors.New("not yet")
				case n == 3:
					return store.Client("broken", memstore.Faults{Outage: true}), nil
				}
				return store.Client("works", memstore.Faults{}), nil
			}}
			if err := l.reap(t.Context(), dead); err != nil || opened.Load() != 4 {
				t.Errorf("%v after %d", err, opened.Load())
			}
			if got, err := store.Get(t.Context(), "r"); err != nil || !got.Vacant() {
				t.Errorf("%+v, %v", got, err)
			}
			l.close()
		})
	})
	t.Run("reaping_is_given_up_when_it_makes_no_sense_any_more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("broken")
			open, stop := context.WithCancel(t.Context())
			l := &link{ctx: open, log: slog.New(slog.DiscardHandler), ready: make(chan struct{}), dial: func(ctx context.Context, _ string) (regent.Store, error) {
				if ctx.Err() != nil {
					return memstore.New(), nil // so that the goroutine ends
				}
				return nil, broken
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := l.reap(ctx, dead); !errors.Is(err, broken) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			stop()
			<-l.ready
		})
	})
}
