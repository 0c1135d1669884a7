package health

import (
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/millis"
)

// Kinds of events, with their metadata.
const (
	// EventHealthCheck has the measurements members, healthy, degraded, partitioned, unreachable, gone, unknown and
	// durationMs, and the metadata status and reasons.
	EventHealthCheck regent.EventKind = "cluster:health_check"
	EventNodeUp      regent.EventKind = "cluster:node_up"   // member, from, to, why
	EventNodeDown    regent.EventKind = "cluster:node_down" // member, from, to, why
	EventPartition   regent.EventKind = "cluster:partition" // member, from, to, why
)

// Groups of statuses: a change within a group emits no event.
const (
	up   Status = "up"
	down Status = "down"
)

// event returns the group of a status, and the kind of event for a change to it. The group is empty if there is none.
func (s Status) event() (group Status, kind regent.EventKind) {
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

// emitMember emits the change of a member, unless the last event had the same group.
func (t *term) emitMember(m *member, from Status, now time.Time) {
	group, kind := m.status.event()
	if group == "" || group == m.emitted {
		return
	}

	m.emitted = group
	if from == Unknown && m.previous != "" {
		from = m.previous
	}
	measurements := map[string]float64{"time": millis.Unix(now)}
	t.emit(now, kind, measurements, map[string]string{
		"member": m.view.ID,
		"from":   string(from),
		"to":     string(m.status),
		"why":    m.why,
	})
}

// emitCheck emits the result of a check.
func (t *term) emitCheck(c Cluster, took time.Duration) {
	n := c.Counts
	measurements := map[string]float64{
		"members":     float64(n.Members),
		"healthy":     float64(n.Healthy),
		"degraded":    float64(n.Degraded),
		"partitioned": float64(n.Partitioned),
		"unreachable": float64(n.Unreachable),
		"gone":        float64(n.Gone),
		"unknown":     float64(n.Unknown),
		"durationMs":  millis.Of(took),
	}
	metadata := map[string]string{"status": string(c.Status), "reasons": strings.Join(c.Reasons, "; ")}
	t.emit(c.CheckedAt, EventHealthCheck, measurements, metadata)
}

func (t *term) emit(now time.Time, kind regent.EventKind, measurements map[string]float64, metadata map[string]string) {
	if t.opts.Emit == nil {
		return
	}

	t.opts.Emit(regent.Event{
		Time:         now.Round(0),
		Kind:         kind,
		Node:         t.opts.Self,
		Election:     t.Election,
		Epoch:        t.Epoch,
		Measurements: measurements,
		Metadata:     metadata,
	})
}
