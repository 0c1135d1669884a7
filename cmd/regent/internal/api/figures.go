package api

import (
	"net/http"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/millis"
	"github.com/regentd/regent/work"
)

// Figures is the answer of /v1/metrics. Latencies are milliseconds.
type Figures struct {
	Heartbeats          uint64             `json:"heartbeats"`
	HeartbeatTimeMs     float64            `json:"heartbeatTimeMs"`     // of all heartbeats together
	HeartbeatLatencyP50 float64            `json:"heartbeatLatencyP50"` // of the last 100; 0 with fewer than 10
	HeartbeatLatencyP95 float64            `json:"heartbeatLatencyP95"`
	HeartbeatLatencyP99 float64            `json:"heartbeatLatencyP99"`
	RenewFailures       uint64             `json:"renewFailures"`
	Transitions         uint64             `json:"transitions"`      // terms begun
	EpochDriftEvents    uint64             `json:"epochDriftEvents"` // work refused for its old epoch
	ContentionEvents    uint64             `json:"contentionEvents"` // slow heartbeats
	DutyFailures        uint64             `json:"dutyFailures"`
	LostEvents          uint64             `json:"lostEvents"`
	ObserverPanics      uint64             `json:"observerPanics"`
	LoopLagMs           float64            `json:"loopLagMs"` // how long the member's own loop is overdue
	Note                string             `json:"note,omitempty"`
	Tasks               *work.WorkerStats  `json:"tasks,omitempty"` // as a worker
	Polls               map[string]uint64  `json:"polls"`           // as their leader: slots by outcome
	Duties              []regent.DutyState `json:"duties,omitempty"`
	Refusals            []work.Refusal     `json:"refusals,omitempty"` // of work of former leaders, the newest first
	Lease
}

// figures returns the figures of a member.
func figures(s regent.Stats) Figures {
	return Figures{
		Heartbeats:          s.Heartbeats,
		HeartbeatTimeMs:     millis.Of(s.HeartbeatTime),
		HeartbeatLatencyP50: millis.Of(s.HeartbeatLatencyP50),
		HeartbeatLatencyP95: millis.Of(s.HeartbeatLatencyP95),
		HeartbeatLatencyP99: millis.Of(s.HeartbeatLatencyP99),
		RenewFailures:       s.RenewFailures,
		Transitions:         s.Transitions,
		EpochDriftEvents:    s.EpochDriftEvents,
		ContentionEvents:    s.ContentionEvents,
		DutyFailures:        s.DutyFailures,
		LostEvents:          s.LostEvents,
		ObserverPanics:      s.ObserverPanics,
		LoopLagMs:           millis.Of(s.LoopLag),
		Note:                s.Note,
	}
}

// stats answers with the figures of this node.
func (s *server) stats(w http.ResponseWriter, _ *http.Request) {
	f := figures(s.Node.Member.Stats())
	f.EpochDriftEvents = s.Node.Drifts()
	f.Polls = s.Node.Polls.Stats().Slots
	f.Duties = s.Node.Member.Duties()
	f.Lease = leaseOf(s.Node.Config())

	if s.Node.Worker != nil {
		stats := s.Node.Worker.Stats()
		f.Tasks = &stats
		f.Refusals = s.Node.Worker.Refusals()
	}

	answer(w, http.StatusOK, f)
}
