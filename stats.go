package regent

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/internal/core"
)

// enough is how many heartbeats there must be before there are percentiles.
const enough = 10

// Stats are a member's figures since it was made.
type Stats struct {
	Heartbeats          uint64        `json:"heartbeats"`
	HeartbeatTime       time.Duration `json:"heartbeatTime"`       // of all heartbeats together
	HeartbeatLatencyP50 time.Duration `json:"heartbeatLatencyP50"` // over the last 100 heartbeats; 0 with fewer than 10
	HeartbeatLatencyP95 time.Duration `json:"heartbeatLatencyP95"`
	HeartbeatLatencyP99 time.Duration `json:"heartbeatLatencyP99"`
	RenewFailures       uint64        `json:"renewFailures"`
	Transitions         uint64        `json:"transitions"` // terms begun
	EpochDriftEvents    uint64        `json:"epochDriftEvents"`
	ContentionEvents    uint64        `json:"contentionEvents"`
	DutyFailures        uint64        `json:"dutyFailures"`
	LostEvents          uint64        `json:"lostEvents"`     // that OnEvent was too slow for
	ObserverPanics      uint64        `json:"observerPanics"` // of OnEvent and OnLifeline
	LoopLag             time.Duration `json:"loopLag"`        // how long the member's own loop is overdue: a loop that is stuck shows here
	Note                string        `json:"note,omitempty"`
}

// counters are what the member counts itself, and what its core has counted.
type counters struct {
	drifts, dutyFailures, lost, observerPanics atomic.Uint64

	mu   sync.Mutex
	core core.Stats
}

// Stepped takes a copy of what the core has counted.
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
	if len(recent) < enough {
		s.Note = "insufficient data: fewer than 10 heartbeats"
		return s
	}
	slices.Sort(recent)
	// The smallest latency that at least p percent of them do not exceed.
	at := func(p int) time.Duration { return recent[(len(recent)*p+99)/100-1] }
	s.HeartbeatLatencyP50, s.HeartbeatLatencyP95, s.HeartbeatLatencyP99 = at(50), at(95), at(99)
	return s
}
