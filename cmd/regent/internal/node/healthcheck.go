package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

// HealthCheck is a check that decides whether this node may lead.
type HealthCheck struct {
	Kind     string // exec or http
	Target   string // the program, or the URL
	Options  map[string]string
	Interval time.Duration // from the beginning of one check to that of the next
	Timeout  time.Duration // of one check, at most Interval
	Failures int           // so many in a row make the node unhealthy
}

// name returns the check as errors show it. The arguments of a program may hold secrets.
func (c *HealthCheck) name() string {
	if c.Kind == "exec" {
		return "command " + c.Target
	}
	return "url " + check.Redact(c.Target)
}

// CheckHealth is the state of the health check, as the API shows it.
type CheckHealth struct {
	Name      string `json:"name"`            // what is checked, without secrets
	OK        bool   `json:"ok"`              // the node may lead, as far as this check decides
	Failures  int    `json:"failures"`        // in a row
	Limit     int    `json:"failureLimit"`    // so many make the node unhealthy
	Error     string `json:"error,omitempty"` // of the last check, if that has failed
	CheckedMs int64  `json:"checkedMs"`       // how long ago the last check ended; -1 for never

	why string // the node is unhealthy
}

var errNotChecked = errors.New("the health check has not ended yet")

// HealthChecker runs a health check. The node is unhealthy until the check has passed once, and from the configured
// number of failures in a row until it passes again.
type HealthChecker struct {
	run     func(context.Context, *HealthCheck) (check.Outcome, error)
	changed chan struct{} // receives when the check was replaced
	first   chan struct{} // closed when the first check has ended

	mu      sync.Mutex
	check   *HealthCheck // nil if a reload has removed it
	failure error        // why the node is unhealthy, or nil
	last    string       // why the last check failed, or empty
	inARow  int          // failures
	failed  uint64       // failures since the start
	ended   time.Time    // of the last check
}

// NewHealthChecker returns a checker. It checks nothing before Run.
func NewHealthChecker(c *HealthCheck) *HealthChecker {
	return &HealthChecker{
		run: runHealthCheck, changed: make(chan struct{}, 1), first: make(chan struct{}), check: c,
		failure: errNotChecked,
	}
}

// runHealthCheck makes one check. A program does not inherit the environment of this process.
func runHealthCheck(ctx context.Context, c *HealthCheck) (check.Outcome, error) {
	checker := check.Checker{AllowExec: true}
	return checker.Run(ctx, c.Kind, c.Target, c.Options)
}

// Run makes checks until ctx ends.
func (h *HealthChecker) Run(ctx context.Context) {
	for {
		began := time.Now()
		c := h.current()
		if c != nil {
			h.once(ctx, c)
		}

		if !h.wait(ctx, c, began) {
			return
		}
	}
}

// current returns the check, or nil if there is none any more.
func (h *HealthChecker) current() *HealthCheck {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.check
}

// wait waits until the next check is due, or the check was replaced. It returns false if ctx has ended.
func (h *HealthChecker) wait(ctx context.Context, c *HealthCheck, began time.Time) bool {
	var due <-chan time.Time
	if c != nil {
		timer := time.NewTimer(c.Interval - time.Since(began))
		defer timer.Stop()
		due = timer.C
	}

	select {
	case <-due:
	case <-h.changed:
	case <-ctx.Done():
	}

	return ctx.Err() == nil
}

// once makes one check.
func (h *HealthChecker) once(ctx context.Context, c *HealthCheck) {
	limit, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	o, err := h.run(limit, c)
	if ctx.Err() != nil {
		return // the node stops: the result says nothing about its health
	}

	switch {
	case err != nil:
		h.record(c, err.Error())
	case !o.OK:
		h.record(c, o.Message)
	default:
		h.record(c, "")
	}
}

// record takes in the result of a check: why it failed, or nothing if it has passed.
func (h *HealthChecker) record(c *HealthCheck, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.check != c {
		return // it was replaced meanwhile
	}

	h.decideLocked()
	h.ended = time.Now()
	h.last = why
	if why == "" {
		h.inARow = 0
		h.failure = nil
		return
	}

	h.failed++
	h.inARow++
	if h.failure != nil || h.inARow >= c.Failures {
		h.failure = fmt.Errorf("health check (%s) has failed %d times in a row: %s", c.name(), h.inARow, why)
	}
}

// decideLocked ends the wait for the first result.
func (h *HealthChecker) decideLocked() {
	select {
	case <-h.first:
	default:
		close(h.first)
	}
}

// Replace replaces the check; nil removes it. The node stays as healthy as it is until the new check has ended.
func (h *HealthChecker) Replace(c *HealthCheck) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.check = c
	h.inARow = 0
	h.last = ""
	h.ended = time.Time{}
	if c == nil {
		h.failure = nil
		h.decideLocked()
	}

	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Unhealthy returns why the node is unhealthy, or nil. It is the health of the member. At the start it waits for the
// first check until ctx ends, so that a node need not wait for its next heartbeat to campaign.
func (h *HealthChecker) Unhealthy(ctx context.Context) error {
	select {
	case <-h.first:
	case <-ctx.Done():
	}

	h.mu.Lock()
	defer h.mu.Unlock()

	return h.failure
}

// state returns the state of the check, or nil if there is none.
func (h *HealthChecker) state() *CheckHealth {
	h.mu.Lock()
	defer h.mu.Unlock()

	if h.check == nil {
		return nil
	}

	s := &CheckHealth{
		Name: h.check.name(), OK: h.failure == nil, Failures: h.inARow, Limit: h.check.Failures,
		Error: h.last, CheckedMs: millisecondsSince(h.ended),
	}
	if h.failure != nil {
		s.why = h.failure.Error()
		s.Error = cmp.Or(s.Error, s.why)
	}

	return s
}

// SetHealthCheck replaces the health check of a node that has one; nil removes it. It returns false if the node has
// none: one can only be added at the start, since members without one may need no register.
func (n *Node) SetHealthCheck(c *HealthCheck) bool {
	if n.checker == nil {
		return c == nil
	}

	n.checker.Replace(c)
	return true
}

// HealthCheck returns the state of the health check and the number of its failures since the start. The state is nil if
// there is none.
func (n *Node) HealthCheck() (state *CheckHealth, failures uint64) {
	if n.checker == nil {
		return nil, 0
	}

	n.checker.mu.Lock()
	failures = n.checker.failed
	n.checker.mu.Unlock()

	return n.checker.state(), failures
}

// addHealthCheck adds the health check, if there is one.
func (n *Node) addHealthCheck(h *Health) {
	state, _ := n.HealthCheck()
	if state == nil {
		return
	}

	h.HealthCheck = state
	h.Checks["healthCheck"] = ok
	if !state.OK {
		h.Checks["healthCheck"] = state.why
	}
}
