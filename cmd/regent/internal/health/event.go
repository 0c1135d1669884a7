package health

import (
	"strings"
	"time"

	"github.com/regentd/regent"
)

// The kinds of event.
const (
	EventHealthCheck = "cluster:health_check" // members, healthy, degraded, partitioned, unreachable, gone, unknown, duration (seconds); status, reasons
	EventNodeUp      = "cluster:node_up"      // member, from, to, why
	EventNodeDown    = "cluster:node_down"    // member, from, to, why
	EventPartition   = "cluster:partition"    // member, from, to, why
)

// What an event has told of a member.
const (
	up   Status = "up"
	down Status = "down"
)

// tells is what there is to tell of a member with this status; empty for nothing.
func (s Status) tells() (told Status, kind string) {
	switch s {
	case Healthy, Degraded:
		return up, EventNodeUp
	case Partitioned:
		return Partitioned, EventPartition
	case Unreachable, Gone:
		return down, EventNodeDown
	}
	return "", ""
}

// tell emits what has become of a member, if that was not told yet.
func (w *watch) tell(m *member, from Status, now time.Time) {
	told, kind := m.status.tells()
	if told == "" || told == m.told {
		return
	}
	m.told = told
	if from == Unknown && m.from != "" {
		from = m.from
	}
	w.emit(now, kind, map[string]float64{"time": float64(now.UnixMilli()) / 1000},
		map[string]string{"member": m.view.ID, "from": string(from), "to": string(m.status), "why": m.why})
}

// tellCheck emits the outcome of a check.
func (w *watch) tellCheck(c Cluster, took time.Duration) {
	n := c.Counts
	w.emit(c.CheckedAt, EventHealthCheck, map[string]float64{
		"members": float64(n.Members), "healthy": float64(n.Healthy), "degraded": float64(n.Degraded), "partitioned": float64(n.Partitioned),
		"unreachable": float64(n.Unreachable), "gone": float64(n.Gone), "unknown": float64(n.Unknown), "duration": took.Seconds(),
	}, map[string]string{"status": string(c.Status), "reasons": strings.Join(c.Reasons, "; ")})
}

func (w *watch) emit(now time.Time, kind string, measurements map[string]float64, metadata map[string]string) {
	if w.opts.Emit != nil {
		w.opts.Emit(regent.Event{Time: now.Round(0), Kind: kind, Node: w.opts.Self, Election: w.term.Election, Epoch: w.term.Epoch,
			Measurements: measurements, Metadata: metadata})
	}
}
