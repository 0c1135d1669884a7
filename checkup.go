package regent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// checkHealth asks at every heartbeat whether the member may lead. A check that takes longer than one counts as an illness until it
// returns, whether it heeds its context or not, and is not asked again before.
func (r *run) checkHealth() {
	for {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.HeartbeatInterval)
		c := r.m.checkup
		if c == nil || c.over() { // never two: the last one may have outlived the run that asked
			c = newCheckup(ctx, r.m.Health)
			r.m.checkup = c
		}
		if !c.await(ctx) && r.ctx.Err() == nil {
			r.setHealth(fmt.Errorf("%w within %v", errCheckSlow, r.cfg.HeartbeatInterval))
			c.await(r.ctx)
		}
		cancel()
		if r.ctx.Err() != nil {
			// One that heeds its context ends with the member. No other is waited for.
			last, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), time.Second)
			defer cancel()
			c.await(last)
			return
		}
		r.setHealth(c.err)
		if !r.sleep(r.cfg.HeartbeatInterval) {
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

// over reports whether the check has returned.
func (c *checkup) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
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

func (r *run) setHealth(err error) {
	r.m.mu.Lock()
	r.healthChangesLocked(func() { r.m.sick = err })
	r.m.mu.Unlock()
	r.shell.Do()
}

// errUnchecked keeps a member from leading until its health was asked for once.
var errUnchecked = errors.New("health was not checked yet")
