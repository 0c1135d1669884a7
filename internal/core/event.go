package core

import (
	"strconv"
	"time"

	"github.com/regentd/regent/internal/millis"
)

// Metadata returns what an event carries, under the names that people know. The text of EventWaiting, and the
// facts that the other process has published, are left to the shell, which knows their form.
func (e *Event) Metadata() map[string]string {
	switch e.Kind {
	case EventBecameLeader:
		return map[string]string{
			"term": e.Holder.Incarnation, "previous_leader": e.Previous, "previous_reason": e.PreviousReason,
		}
	case EventLeaderChanged:
		return map[string]string{
			"previous_leader": e.Previous, "previous_reason": e.PreviousReason,
			"new_leader": e.Holder.ID, "term": e.Holder.Incarnation,
		}
	case EventLostLeadership:
		if e.Node != "" {
			return map[string]string{"reason": e.Reason, "reported_by": e.ReportedBy}
		}

		return map[string]string{"reason": e.Reason}
	case EventDutyStuck:
		return map[string]string{"reason": e.Reason}
	case EventRegressed:
		return map[string]string{"error": e.Error}
	case EventRetired:
		return map[string]string{"register": e.Register}
	case EventUnreadable:
		return map[string]string{"register": e.Register, "error": e.Error}
	case EventJoined, EventLeft:
		return map[string]string{"incarnation": e.Holder.Incarnation}
	case EventDropped:
		return map[string]string{"incarnation": e.Holder.Incarnation, "reason": e.Reason, "error": e.Error}
	case EventWaiting:
		alive := "unknown"
		if e.Alive {
			alive = strconv.FormatBool(true)
		}

		return map[string]string{"incarnation": e.Holder.Incarnation, "alive": alive}
	}

	return nil
}

// Measurements returns what was measured. Without any the shell adds the time, as it does for a new leader in any
// case.
func (e *Event) Measurements() map[string]float64 {
	switch e.Kind {
	case EventBecameLeader:
		if e.Vacant >= 0 {
			return map[string]float64{"vacantMs": millis.Of(e.Vacant)}
		}
	case EventStarted:
		return map[string]float64{"waitedMs": millis.Of(e.Took)}
	case EventContention:
		return map[string]float64{
			"durationMs": millis.Of(e.Took), "expectedMs": millis.Of(e.Expected), "ratio": e.ratio(),
		}
	}

	return nil
}

func (e *Event) ratio() float64 { return float64(e.Took) / float64(e.Expected) }

const latencies = 100 // heartbeats whose latency is kept

// Stats are figures since the core was made, or since the first core of its process was.
type Stats struct {
	Heartbeats    uint64
	HeartbeatTime time.Duration            // of all heartbeats together
	Latencies     [latencies]time.Duration // of the last heartbeats: that of heartbeat n is at n modulo its length
	RenewFailures uint64
	Transitions   uint64 // terms begun
	Contention    uint64 // heartbeats that took longer than the threshold
}

// Stats returns the core's figures.
func (c *Core) Stats() Stats { return c.stats }

// decided says what was decided, and by which rule, if anybody wants to know.
func (c *Core) decided(rule int, name, what string) {
	if c.cfg.Explain {
		c.emit(Decision{rule, name, what})
	}
}

// explainSight says since when a heartbeat counts.
func (c *Core) explainSight(s *sight) {
	w := &s.watch
	switch {
	case !c.cfg.Explain || w.rec.Vacant():
	case w.since == c.now:
		c.decided(2, s.name, "a new heartbeat: it counts from now on, on this member's clock")
	case w.expired(c.cfg.TakeoverDelay):
	case c.now >= w.expires():
		c.decided(10, s.name, "expired on this member's clock: wait for the takeover delay, and read again")
	}
}
