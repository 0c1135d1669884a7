package regent

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/internal/core"
)

// minHeartbeats is how many heartbeats there must be for percentiles.
const minHeartbeats = 10

// Stats are the figures of a member since it was made.
type Stats struct {
	Heartbeats          uint64
	HeartbeatTime       time.Duration // of all heartbeats together
	HeartbeatLatencyP50 time.Duration // over the last 100 heartbeats; 0 with fewer than 10
	HeartbeatLatencyP95 time.Duration
	HeartbeatLatencyP99 time.Duration
	RenewFailures       uint64
	Transitions         uint64 // terms begun
	EpochDriftEvents    uint64 // tokens that the member's fences have refused
	ContentionEvents    uint64 // slow heartbeats
	DutyFailures        uint64
	LostEvents          uint64        // dropped since OnEvent was too slow
	ObserverPanics      uint64        // of OnEvent and OnLifeline
	LoopLag             time.Duration // how long the member's own loop is overdue
	Note                string        // empty if there are ten heartbeats or more
}

// counters are what the member and its core have counted.
type counters struct {
	drifts         atomic.Uint64
	dutyFailures   atomic.Uint64
	lost           atomic.Uint64
	observerPanics atomic.Uint64

	mu   sync.Mutex
	core core.Stats
}

// Stepped copies what the core has counted.
func (r *run) Stepped(c *core.Core) {
	s := &r.m.stats
	s.mu.Lock()
	defer s.mu.Unlock()

	s.core = c.Stats()
}

// Stats returns the member's figures.
func (m *Member) Stats() Stats {
	c := &m.stats
	c.mu.Lock()
	counted := c.core
	c.mu.Unlock()

	s := Stats{
		Heartbeats: counted.Heartbeats, HeartbeatTime: counted.HeartbeatTime, RenewFailures: counted.RenewFailures,
		Transitions: counted.Transitions, ContentionEvents: counted.Contention, EpochDriftEvents: c.drifts.Load(),
		DutyFailures: c.dutyFailures.Load(), LostEvents: c.lost.Load(), ObserverPanics: c.observerPanics.Load(),
	}
	m.mu.Lock()
	if m.run != nil {
		s.LoopLag = max(0, m.run.shell.Lag()-time.Second)
	}

	m.mu.Unlock()

	recent := slices.Clone(counted.Latencies[:min(s.Heartbeats, uint64(len(counted.Latencies)))])
	if len(recent) < minHeartbeats {
		s.Note = "insufficient data: fewer than 10 heartbeats"
		return s
	}

	slices.Sort(recent)
	s.HeartbeatLatencyP50 = percentile(recent, 50)
	s.HeartbeatLatencyP95 = percentile(recent, 95)
	s.HeartbeatLatencyP99 = percentile(recent, 99)
	return s
}

// percentile returns the smallest of sorted latencies that at least p percent of them do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	return sorted[(len(sorted)*p+99)/100-1]
}
