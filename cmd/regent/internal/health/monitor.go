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

// Monitor is the duty. It observes while its node leads.
type Monitor struct {
	opts Options

	mu   sync.Mutex
	seen Cluster
}

// New returns a monitor that observes nothing yet.
func New(opts Options) (*Monitor, error) {
	opts = opts.orDefault()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("cluster health: %w", err)
	}
	return &Monitor{opts: opts, seen: Cluster{Status: Unknown, Reasons: []string{"this node has not led, so it has observed nothing"}, Members: []Member{}}}, nil
}

// Snapshot returns what was seen last. Once the term has ended it is not known any more how the cluster is.
func (m *Monitor) Snapshot() Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.seen
	c.Members, c.Reasons = slices.Clone(c.Members), slices.Clone(c.Reasons)
	return c
}

func (m *Monitor) publish(c Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = c
}

// doubt says why what was seen last is not how the cluster is.
func (m *Monitor) doubt(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen.Known, m.seen.Status, m.seen.Reasons = false, Unknown, []string{why}
}

// Run observes until ctx ends: it is the Run of a [regent.Duty]. A term begins with no memory of the one before.
func (m *Monitor) Run(ctx context.Context, t regent.Term) error {
	m.doubt("this node leads, and has not checked yet")
	defer m.doubt("this node does not lead any more: what it shows is what it saw last")
	w := &watch{opts: m.opts, term: t, start: time.Now(), members: map[string]*member{}}
	hints := m.opts.Changed
	for {
		c, next := w.check(ctx)
		if ctx.Err() != nil {
			return nil // a check that was cut short says nothing
		}
		m.publish(c)
		if hints = rest(ctx, hints, m.opts.Recheck, next); ctx.Err() != nil {
			return nil
		}
	}
}

// rest waits until next, or for a hint, whichever comes first, but for least in any case, so that hints are merged. It returns the hints, or
// nil once they have ended.
func rest(ctx context.Context, hints <-chan driver.Record, least time.Duration, next time.Time) <-chan driver.Record {
	timer := time.NewTimer(least)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return hints
	}
	timer.Reset(time.Until(next))
	for {
		select {
		case _, open := <-hints:
			if open {
				return hints
			}
			hints = nil
		case <-timer.C:
			return hints
		case <-ctx.Done():
			return hints
		}
	}
}
