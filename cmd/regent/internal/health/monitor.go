package health

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Monitor is the duty. It checks the cluster while its node leads.
type Monitor struct {
	opts Options

	mu      sync.Mutex
	last    Cluster
	checked time.Time // when last was made
}

// New returns a monitor that has checked nothing yet. Every violated rule of its options is in the error.
func New(opts Options) (*Monitor, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("cluster health: %w", err)
	}

	never := Cluster{
		Status:  Unknown,
		Reasons: []string{"this node has not led, so it has checked nothing"},
		Members: []Member{},
	}
	return &Monitor{opts: opts, last: never}, nil
}

// Snapshot returns the result of the last check, with the ages of now. It is not Known after the term has ended.
func (m *Monitor) Snapshot() Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.last
	c.Members = slices.Clone(c.Members)
	if !m.checked.IsZero() {
		c.CheckedAgoMs = time.Since(m.checked).Milliseconds()
	}
	for i := range c.Members {
		if seen := &c.Members[i].LastSeenMs; *seen >= 0 && c.Members[i].ID != m.opts.Self {
			*seen += c.CheckedAgoMs
		}
	}
	c.Reasons = slices.Clone(c.Reasons)

	return c
}

// publish sets the result of the last check.
func (m *Monitor) publish(c Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = c
	m.checked = time.Now()
}

// invalidate makes the last result one that is not known to hold, for a reason.
func (m *Monitor) invalidate(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last.Known = false
	m.last.Status = Unknown
	m.last.Reasons = []string{reason}
}

// Run checks the cluster until ctx ends: it is the Run of a [regent.Duty]. A term knows nothing of earlier terms.
func (m *Monitor) Run(ctx context.Context, lead regent.Term) error {
	m.invalidate("this node leads, and has not checked yet")
	defer m.invalidate("this node no longer leads: this is the result of its last check")

	t := newTerm(m.opts, lead)
	changed := m.opts.Changed
	for {
		c, next := t.check(ctx)
		if ctx.Err() != nil {
			return nil // a check that was interrupted has no result
		}

		m.publish(c)
		changed = wait(ctx, changed, m.opts.Recheck, next)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// wait waits until next or for a notification, but at least for least, so that notifications are coalesced. It returns
// the channel of notifications, or nil once that is closed.
func wait(ctx context.Context, changed <-chan driver.Record, least time.Duration, next time.Time) <-chan driver.Record {
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return changed
	}

	timer.Reset(time.Until(next))
	for {
		select {
		case _, open := <-changed:
			if open {
				return changed
			}
			changed = nil
		case <-timer.C:
			return changed
		case <-ctx.Done():
			return changed
		}
	}
}
