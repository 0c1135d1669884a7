package runner

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"

	"github.com/regentd/regent"
)

// Policy is how often a program is run, and how long a seat is waited for.
//
//	               the program exits with 0   it fails                        leadership is lost
//	zero, or Once  done: 0                    done: its code                  done: 90
//	Restart        done: 0                    run again, after a while        campaign, and run again
//
// Whatever is done, the seat is released after it. Under Restart a program that fails is run again
// in the same term after a second, then after twice that, up to half a minute; if it fails for the
// third time in a row, the seat is released, so that others may try, and it campaigns again after
// that while. One that ran for longer than half a minute is as new. A program that cannot be
// started is not tried again, and neither is one that has ended because this process was told to
// end: see [Result.Ended].
type Policy struct {
	Once    bool          // at most one run: the default, spelt out
	Restart bool          // runs until it succeeds, wherever this member leads
	Timeout time.Duration // for each campaign; 0 for ever
}

// Validate refuses what contradicts itself.
func (p Policy) Validate() error {
	switch {
	case p.Once && p.Restart:
		return errors.New("once and restart exclude each other")
	case p.Timeout < 0:
		return fmt.Errorf("timeout %v: must not be negative", p.Timeout)
	}
	return nil
}

const (
	restartAfter    = time.Second
	restartAfterMax = 30 * time.Second
	failuresPerTerm = 3
)

// Supervise campaigns for an election, and runs the program while the member leads, as the policy says. It returns the exit code for this
// process, when everything has stopped and the seat was released: the program's own; ExitNotAcquired or ExitLost with the reason as an error; or, if
// ctx ended before the program had begun, 128 and the signal that ended it, or 1.
func Supervise(ctx context.Context, m *regent.Member, election string, c *Command, p Policy) (int, error) {
	if err := p.Validate(); err != nil {
		return 1, err
	}
	if _, err := exec.LookPath(c.Path); err != nil && c.Dir == "" { // before it takes a seat for nothing
		return cannotStart(err), fmt.Errorf("run %s: %w", c.Path, err)
	}
	s := &supervision{m: m, election: election, c: c, p: p, wait: restartAfter}
	for {
		end, err := s.campaign(ctx)
		switch {
		case end == nil && ctx.Err() != nil:
			return interrupted(ctx), context.Cause(ctx)
		case end == nil:
			return 1, err
		case !end.again:
			return end.code, end.err
		}
		if !sleep(ctx, s.pause()) {
			return interrupted(ctx), context.Cause(ctx)
		}
	}
}

// supervision is one call of Supervise.
type supervision struct {
	m        *regent.Member
	election string
	c        *Command
	p        Policy

	failures int           // in a row
	wait     time.Duration // after the next one
}

// ending is how a campaign ended.
type ending struct {
	code  int
	err   error
	again bool // the seat was given up for a while
}

// errEnough ends a candidacy whose result is known.
var errEnough = errors.New("done")

// campaign stands for the election until the program has run to an end. A nil ending means that it has not begun.
func (s *supervision) campaign(ctx context.Context) (*ending, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := newTimeout(s.p.Timeout, func() { cancel(ErrNotAcquired) })
	defer clock.won()
	var end *ending
	err := s.m.Lead(inner, s.election, func(tctx context.Context, t regent.Term) error {
		if !clock.won() {
			return nil
		}
		if end = s.term(tctx, t, ctx); end == nil { // lost: the campaign goes on by itself
			clock.restart()
			return nil
		}
		// Lead returns if this does while the term holds. If it was lost, even in the last moment, Lead would campaign again.
		context.AfterFunc(tctx, func() {
			if !errors.Is(context.Cause(tctx), regent.ErrReturned) {
				cancel(errEnough)
			}
		})
		return nil
	})
	if end == nil && !clock.won() {
		return &ending{code: ExitNotAcquired, err: fmt.Errorf("%w: %s, %v", ErrNotAcquired, s.election, s.p.Timeout)}, nil
	}
	return end, err
}

// term runs the program in a term that was won, again and again if the policy says so. It returns nil if the term was lost and that is
// no end.
func (s *supervision) term(ctx context.Context, t regent.Term, outer context.Context) *ending {
	if s.c.Node == "" {
		s.c.Node = s.m.ID
	}
	for {
		began := time.Now()
		r, err := s.c.Run(ctx, t)
		if time.Since(began) > restartAfterMax {
			s.failures, s.wait = 0, restartAfter
		}
		switch {
		case err != nil:
			return &ending{code: r.Code, err: err}
		case s.p.Restart && r.Ended():
			return &ending{code: r.Code}
		case r.Lost && outer.Err() != nil: // this process is to end: that is no loss
			return &ending{code: r.Code}
		case r.Lost:
			return s.lost(t, r.Cause)
		case r.Code == 0 || !s.p.Restart:
			return &ending{code: r.Code}
		}
		if s.failures++; s.failures%failuresPerTerm == 0 {
			return &ending{code: r.Code, again: true}
		}
		if !sleep(ctx, s.pause()) {
			if outer.Err() != nil {
				return &ending{code: r.Code}
			}
			return s.lost(t, context.Cause(ctx))
		}
	}
}

func (s *supervision) lost(t regent.Term, cause error) *ending {
	if s.p.Restart {
		return nil
	}
	return &ending{code: ExitLost, err: fmt.Errorf("%w: %s, epoch %d: %w", ErrLost, t.Election, t.Epoch, cause)}
}

// pause returns how long to wait after a failure, and doubles it.
func (s *supervision) pause() time.Duration {
	d := s.wait
	s.wait = min(2*d, restartAfterMax)
	return d
}

// timeout ends a campaign that takes too long, unless it was won: one of both, never both.
type timeout struct {
	d     time.Duration
	f     func()
	mu    sync.Mutex
	timer *time.Timer
	round int
	late  bool
}

func newTimeout(d time.Duration, f func()) *timeout {
	t := &timeout{d: d, f: f}
	t.restart()
	return t
}

func (t *timeout) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.d <= 0 || t.late {
		return
	}
	t.round++
	round := t.round
	t.timer = time.AfterFunc(t.d, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.round == round {
			t.late = true
			t.f()
		}
	})
}

// won stops the clock, and reports whether it was in time.
func (t *timeout) won() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	if t.timer != nil {
		t.timer.Stop()
	}
	return !t.late
}

// sleep reports whether it has slept in full.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
