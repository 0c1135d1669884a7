package regent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent/internal/core"
)

var (
	errUnchecked = errors.New("health was not checked yet")
	errCheckSlow = errors.New("the health check has not returned")
	errCheckGone = errors.New("the health check has ended its goroutine")
)

// checkHealth calls the member's Health once in a heartbeat interval, until the run ends. A check that takes longer
// than the interval makes the member unhealthy until it returns, and no other check is started before that.
func (r *run) checkHealth() {
	for {
		ctx, cancel := context.WithTimeout(r.ctx, r.cfg.HeartbeatInterval)
		c := r.m.check
		if c == nil || c.over() { // the last check of the run before may still run
			c = startHealthCheck(ctx, r.m.Health)
			r.m.check = c
		}
		if !c.await(ctx) && r.ctx.Err() == nil {
			r.setHealth(fmt.Errorf("%w within %v", errCheckSlow, r.cfg.HeartbeatInterval))
			c.await(r.ctx)
		}

		cancel()

		if r.ctx.Err() != nil {
			c.awaitBriefly()
			return
		}

		r.setHealth(c.err)
		if !r.sleep(r.cfg.HeartbeatInterval) {
			return
		}
	}
}

// healthCheck is one call of Health.
type healthCheck struct {
	done chan struct{} // closed when the call has returned
	err  error         // what it returned; set before done is closed
}

func startHealthCheck(ctx context.Context, health func(context.Context) error) *healthCheck {
	c := &healthCheck{done: make(chan struct{}), err: errCheckGone}
	go func() {
		defer close(c.done)
		c.err = protect(func() error { return health(ctx) })
	}()

	return c
}

// over reports whether the check has returned.
func (c *healthCheck) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await waits for the check, and reports whether it has returned before ctx ended.
func (c *healthCheck) await(ctx context.Context) bool {
	select {
	case <-c.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// awaitBriefly waits for a check whose context has ended. A check that ignores its context is left behind.
func (c *healthCheck) awaitBriefly() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.await(ctx)
}

// setHealth takes in what a health check has returned.
func (r *run) setHealth(err error) {
	r.m.mu.Lock()
	before := r.m.unhealthyLocked()
	r.m.checkErr = err
	r.healthChangedLocked(before)
	r.m.mu.Unlock()

	r.shell.Do()
}

// unhealthyLocked returns why the member should not lead: the error of its health check, or a duty that keeps
// failing. It returns nil if the member is healthy.
func (m *Member) unhealthyLocked() error {
	if m.checkErr != nil || len(m.failing) == 0 {
		return m.checkErr
	}

	d := m.failing[0]
	return fmt.Errorf("duty %s of %s has failed %d times in a row: %s",
		d.Name, d.Election, d.state.InARow, d.state.LastError)
}

// healthChangedLocked follows a change of what the member's health depends on: it informs the core, publishes the
// health and emits an event. before is what unhealthyLocked returned before the change.
func (r *run) healthChangedLocked(before error) {
	m := r.m
	after := m.unhealthyLocked()
	r.shell.Queue(core.Health{Healthy: m.checkErr == nil, DutyFailing: len(m.failing) > 0})

	first := errors.Is(before, errUnchecked)
	if !first && (after == nil) == (before == nil) {
		return
	}

	r.publishLocked()
	if first && after == nil {
		return
	}

	metadata := map[string]string{"healthy": fmt.Sprint(after == nil)}
	if after != nil {
		metadata["error"] = after.Error()
	}

	m.emit(Event{Kind: EventHealthChanged, Metadata: metadata})
}
