package regent

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	latencies = 100 // heartbeats that percentiles are taken over
	enough    = 10  // heartbeats without which there are none
)

// contentionQuiet is how long after a contention event none is sent.
const contentionQuiet = 30 * time.Second

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

type counters struct {
	heartbeats, renewFailures, transitions, drifts, contention, dutyFailures, lost, observerPanics atomic.Uint64

	heartbeatTime atomic.Int64
	loopDue       atomic.Int64 // when the loop will next say that it lives, on the member's clock; 0 if there is none

	mu        sync.Mutex
	ring      [latencies]time.Duration
	contended time.Duration // when the last contention event was sent; 0 for never
}

// Stats returns the member's figures.
func (m *Member) Stats() Stats {
	c := &m.stats
	s := Stats{
		Heartbeats: c.heartbeats.Load(), RenewFailures: c.renewFailures.Load(), Transitions: c.transitions.Load(),
		EpochDriftEvents: c.drifts.Load(), ContentionEvents: c.contention.Load(), DutyFailures: c.dutyFailures.Load(), LostEvents: c.lost.Load(),
		ObserverPanics: c.observerPanics.Load(),
	}
	s.HeartbeatTime = time.Duration(c.heartbeatTime.Load())
	if due := c.loopDue.Load(); due != 0 {
		s.LoopLag = max(0, m.clock.Now()-time.Duration(due))
	}
	c.mu.Lock()
	recent := slices.Clone(c.ring[:min(s.Heartbeats, latencies)])
	c.mu.Unlock()
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

// heartbeatDone counts a heartbeat: how long its last request took, and the whole cycle, from when it was due.
func (e *engine) heartbeatDone(b *beat, latency, cycle time.Duration) {
	c := &e.m.stats
	c.mu.Lock()
	c.ring[c.heartbeats.Load()%latencies] = latency
	c.heartbeats.Add(1)
	c.heartbeatTime.Add(int64(latency))
	c.mu.Unlock()
	ratio := float64(cycle) / float64(b.every)
	if !e.cfg.ContentionDetectionEnabled || ratio <= e.cfg.ContentionThreshold {
		return
	}
	c.contention.Add(1)
	now := e.clock.Now()
	c.mu.Lock()
	quiet := c.contended != 0 && now-c.contended < contentionQuiet
	if !quiet {
		c.contended = now
	}
	c.mu.Unlock()
	if !quiet {
		e.emit(Event{Kind: EventContention, Measurements: map[string]float64{
			"duration": cycle.Seconds(), "expected": b.every.Seconds(), "ratio": ratio}})
	}
}
