package regent

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestLife is about a life that ends while others look at it.
func TestLife(t *testing.T) {
	t.Run("a_term_whose_life_ends_has_no_time_left", func(t *testing.T) {
		clock := newSystemClock()
		e := &engine{clock: clock}
		for i := range 20000 {
			l := newLife("a", "1.a")
			l.believe(clock.Now() + time.Minute)
			term := Term{t: &term{e: e, life: l}}
			var wg sync.WaitGroup
			var most time.Duration
			started := make(chan struct{})
			wg.Go(func() {
				close(started)
				for range 200 {
					r := term.Remaining()
					most = max(most, r)
					if r == 0 {
						return
					}
				}
			})
			<-started
			for range i % 50 {
				_ = clock.Now()
			}
			l.end(ErrLost)
			wg.Wait()
			if most > time.Hour {
				t.Fatalf("after %d ends: a term of a minute has %v left", i, most)
			}
		}
	})

	t.Run("the_reaper_is_never_told_of_time_that_is_not_left", func(t *testing.T) {
		clock := newSystemClock()
		var mu sync.Mutex
		var most time.Duration
		m := &Member{OnLifeline: func(l Lifeline) {
			mu.Lock()
			defer mu.Unlock()
			if !l.Stopped {
				most = max(most, l.Left)
			}
		}}
		e := &engine{clock: clock, m: m}
		for i := range 20000 {
			l := newLife("a", "1.a")
			l.held.Add(1)
			l.believe(clock.Now() + time.Minute)
			b := &beat{name: "r", life: l}
			var wg sync.WaitGroup
			started := make(chan struct{})
			wg.Go(func() {
				close(started)
				for range 20 {
					e.lifeline(b, false, false)
				}
			})
			<-started
			for range i % 50 {
				_ = clock.Now()
			}
			l.end(ErrLost)
			wg.Wait()
			if most > time.Hour {
				t.Fatalf("after %d ends: the reaper is told that a lease of a minute has %v left", i, most)
			}
		}
	})

	t.Run("no_duty_starts_under_a_life_that_is_ending", func(t *testing.T) {
		var said bool
		m := &Member{OnLifeline: func(l Lifeline) { said = said || l.Holds }}
		e := &engine{clock: newSystemClock(), m: m, mu: &m.mu, kicked: make(chan struct{}, 1), seats: map[string]*seat{}}
		e.ctx, e.cancel = context.WithCancelCause(t.Context())
		l := newLife("a", "1.a")
		l.believe(time.Hour * 1e5)
		b := &beat{name: "r", life: l}
		ran := make(chan bool, 1)
		tm := &term{e: e, s: &seat{name: "x"}, life: l, line: b, first: true, stopped: make(chan struct{}), finished: make(chan struct{})}
		tm.run = func(context.Context, Term) error { ran <- true; return nil }
		tm.ctx, tm.cancel = context.WithCancelCause(t.Context())
		tm.cand = &candidate{result: make(chan error, 1)}
		l.duties.Add(1)
		l.held.Add(1)
		e.duties.Add(1)
		e.finishing.Add(1)
		l.attach(tm)

		l.mu.Lock() // end() stands between its first two steps
		go l.end(ErrLost)
		for !l.hasEnded() {
			time.Sleep(time.Millisecond)
		}
		e.start(tm)
		l.mu.Unlock()
		<-tm.finished
		select {
		case <-ran:
			if !said {
				t.Error("a duty ran, and the reaper was never told that anything is held")
			}
		default:
		}
	})
}
