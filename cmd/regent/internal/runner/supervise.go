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

// Policy says how often a program is run, and how long a campaign may take.
//
//	          the program exits with 0   it fails                        leadership is lost
//	zero      done: 0                    done: its code                  done: 90
//	Restart   done: 0                    run again, after a while        campaign, and run again
//
// When the program is done the election is released. Under Restart a program that fails is run again in the same term,
// after a backoff of 1 s that doubles up to 30 s. If it fails for the third time in a row, the election is released, so
// that others may try, and the member campaigns again after the backoff. A run of more than 30 s resets the backoff and
// the count. A program that cannot be started is not tried again, nor is one that has ended because of a signal to this
// process: see [Result.Ended].
type Policy struct {
	Restart bool          // run until the program succeeds, in every term of this member
	NoWait  bool          // campaign only until a heartbeat shows that another member leads
	Timeout time.Duration // of each campaign; 0 for none

	OnTimeout func() // called when a campaign was not won in time, before it ends; nil for none
}

// Validate returns an error if the policy contradicts itself.
func (p Policy) Validate() error {
	switch {
	case p.NoWait && p.Restart:
		return errors.New("--no-wait and --restart exclude each other: --restart waits to lead again")
	case p.Timeout < 0:
		return fmt.Errorf("--timeout %v: must not be negative", p.Timeout)
	}

	return nil
}

const (
	restartAfter    = time.Second
	restartAfterMax = 30 * time.Second
	failuresPerTerm = 3
)

// Supervise campaigns for an election, and runs the program while the member leads, as the policy says. It returns when
// everything has stopped and the election was released. The code is the exit code for this process: that of the
// program; ExitNotAcquired or ExitLost with an error that says why; or, if ctx ended before the program had begun, 128
// and the signal that ended it, or 1.
func Supervise(ctx context.Context, m *regent.Member, election string, c *Command, p Policy) (int, error) {
	if err := p.Validate(); err != nil {
		return 1, err
	}
	if _, err := exec.LookPath(c.Path); err != nil && c.Dir == "" { // before it wins the election for nothing
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

// ending is how a campaign has ended.
type ending struct {
	code  int
	err   error
	again bool // campaign again after the backoff
}

// errDone ends a campaign whose result is known.
var errDone = errors.New("done")

// campaign campaigns until the program is done. It returns nil if the program has not begun.
func (s *supervision) campaign(ctx context.Context) (*ending, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	clock := newTimeout(s.p.Timeout, func() {
		if s.p.OnTimeout != nil {
			s.p.OnTimeout()
		}
		cancel(ErrNotAcquired)
	})
	defer clock.won()

	if s.p.NoWait {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			s.giveUp(inner, clock)
		}()
		defer func() {
			cancel(nil)
			<-watched
		}()
	}

	var end *ending
	err := s.m.Lead(inner, s.election, func(tctx context.Context, t regent.Term) error {
		if !clock.won() {
			return nil
		}
		if end = s.term(tctx, t, ctx); end == nil { // the term was lost: Lead campaigns again
			clock.restart()
			return nil
		}

		// Lead returns when this function returns within the term. If the term is lost meanwhile, Lead would campaign
		// again.
		context.AfterFunc(tctx, func() {
			if !errors.Is(context.Cause(tctx), regent.ErrReturned) {
				cancel(errDone)
			}
		})

		return nil
	})

	if end == nil && !clock.won() {
		return &ending{code: ExitNotAcquired, err: s.notAcquired(clock.why)}, nil
	}

	return end, err
}

// term runs the program in a term, as often as the policy says. It returns nil if the term was lost and the policy is
// to campaign again.
func (s *supervision) term(ctx context.Context, t regent.Term, outer context.Context) *ending {
	if s.c.Node == "" {
		s.c.Node = s.m.ID
	}

	for {
		began := time.Now()
		r, err := s.c.Run(ctx, t)

		if time.Since(began) > restartAfterMax {
			s.failures = 0
			s.wait = restartAfter
		}

		switch {
		case err != nil:
			return &ending{code: r.Code, err: err}
		case s.p.Restart && r.Ended():
			return &ending{code: r.Code}
		case r.Lost && outer.Err() != nil: // this process ends: that is no loss
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

// lost returns how the campaign ends when the term is lost, or nil if it does not end.
func (s *supervision) lost(t regent.Term, cause error) *ending {
	if s.p.Restart {
		return nil
	}
	return &ending{code: ExitLost, err: fmt.Errorf("%w: election %s, epoch %d: %w", ErrLost, t.Election, t.Epoch,
		cause)}
}

// pause returns the backoff after a failure, and doubles it.
func (s *supervision) pause() time.Duration {
	d := s.wait
	s.wait = min(2*d, restartAfterMax)
	return d
}

// timeout calls f when a campaign takes too long, unless it was won before: one of the two, never both.
type timeout struct {
	d     time.Duration
	f     func()
	mu    sync.Mutex
	timer *time.Timer
	round int
	ended bool // the campaign was won
	late  bool
	why   string // it was ended early
}

func newTimeout(d time.Duration, f func()) *timeout {
	t := &timeout{d: d, f: f}
	t.restart()
	return t
}

// restart begins another campaign.
func (t *timeout) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.d <= 0 || t.late {
		return
	}
	t.round++
	t.ended = false
	round := t.round
	t.timer = time.AfterFunc(t.d, func() { t.expire(round) })
}

// expire calls f unless the campaign of that round was won.
func (t *timeout) expire(round int) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.round == round {
		t.late = true
		t.f()
	}
}

// expireNow calls f unless the campaign was won, or f was called before.
func (t *timeout) expireNow(why string) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if t.ended || t.late {
		return
	}
	t.late = true
	t.why = why
	t.f()
}

// over reports whether the campaign was won or has expired.
func (t *timeout) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.ended || t.late
}

// won records that the campaign was won, and reports whether it was in time.
func (t *timeout) won() bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.round++
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}

	return !t.late
}

// sleep waits for d, or until ctx ends, and reports whether it has waited for d.
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
