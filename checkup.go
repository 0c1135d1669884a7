package regent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// checkHealth asks at every heartbeat whether the member may lead. A check that takes longer than one counts as an illness until it
// returns, whether it heeds its context or not, and is not asked again before.
func (e *engine) checkHealth() {
	for {
		ctx, cancel := context.WithTimeout(e.ctx, e.cfg.HeartbeatInterval)
		c := e.m.checkup
		if c == nil || took(c.done) { // never two: the last one may have outlived the engine that asked
			c = newCheckup(ctx, e.m.Health)
			e.m.checkup = c
		}
		if !c.await(ctx) && e.ctx.Err() == nil {
			e.setHealth(fmt.Errorf("%w within %v", errCheckSlow, e.cfg.HeartbeatInterval))
			c.await(e.ctx)
		}
		cancel()
		if e.ctx.Err() != nil {
			// One that heeds its context ends with the member. No other is waited for.
			last, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), time.Second)
			defer cancel()
			c.await(last)
			return
		}
		e.setHealth(c.err)
		if !e.sleep(e.ctx, e.cfg.HeartbeatInterval) {
			return
		}
	}
}

// checkup is one health check.
type checkup struct {
	done chan struct{} // closed when it has returned
	err  error         // what it said then
}

func newCheckup(ctx context.Context, health func(context.Context) error) *checkup {
	c := &checkup{done: make(chan struct{}), err: errCheckGone}
	go func() {
		defer close(c.done)
		c.err = protect(func() error { return health(ctx) })
	}()
	return c
}

// await reports whether the check has returned before ctx ended.
func (c *checkup) await(ctx context.Context) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	errCheckSlow = errors.New("the health check has not returned")
	errCheckGone = errors.New("the health check has ended its goroutine")
)

func (e *engine) setHealth(err error) {
	e.mu.Lock()
	e.ails(func() { e.sick = err })
}

// healthMoved follows a change of the member's health: it is told to others, if it is one. The mutex is held, and is given back.
func (e *engine) healthMoved(before error) {
	after := e.ill()
	first := errors.Is(before, errUnchecked)
	changed := first || (after == nil) != (before == nil)
	if changed {
		e.info = nil
	}
	e.mu.Unlock()
	if changed && !(first && after == nil) {
		meta := map[string]string{"healthy": fmt.Sprint(after == nil)}
		if after != nil {
			meta["error"] = after.Error()
		}
		e.emit(Event{Kind: EventHealthChanged, Metadata: meta})
	}
	if changed {
		e.kick()
	}
}

// errUnchecked keeps a member from leading until its health was asked for once.
var errUnchecked = errors.New("health was not checked yet")
