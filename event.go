package regent

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/millis"
)

// Event is something that has happened to a member. Sequence numbers grow by one: a gap means that events were dropped.
type Event struct {
	Seq          uint64             `json:"seq"`
	Time         time.Time          `json:"time"`
	Kind         EventKind          `json:"kind"`
	Node         string             `json:"node"` // the member that it happened to
	Election     string             `json:"election,omitempty"`
	Epoch        uint64             `json:"epoch,omitempty"`
	Measurements map[string]float64 `json:"measurements,omitempty"`
	Metadata     map[string]string  `json:"metadata,omitempty"`
}

// EventKind is what an event is about, as noun:verb. Users of [Member.Emit] may have kinds of their own.
type EventKind string

// The kinds of event, with their measurements; and their metadata. docs/EVENTS.md describes them.
const (
	// EventBecameLeader: time, vacantMs; term, previous_leader, previous_reason.
	EventBecameLeader EventKind = "coordinator:became_leader"
	// EventLostLeadership: time; reason. If the leader died or was partitioned, its successor emits it, with
	// reported_by.
	EventLostLeadership EventKind = "coordinator:lost_leadership"
	// EventLeaderChanged: time; previous_leader, previous_reason, new_leader, term.
	EventLeaderChanged EventKind = "coordinator:leader_changed"
	// EventContention: a heartbeat was slow. durationMs, expectedMs, ratio.
	EventContention EventKind = "contention:detected"
	// EventStoreRegressed: the store has lost writes. The event's epoch is the highest one seen; error.
	EventStoreRegressed EventKind = "store:regressed"
	// EventStoreRetired: a register that nobody uses was removed; register.
	EventStoreRetired EventKind = "store:retired"
	// EventRegisterUnreadable: the store answers, and cannot read this register; register, error.
	EventRegisterUnreadable EventKind = "register:unreadable"
	// EventMemberStarted: the start-up jitter is over, and the first request follows. waitedMs.
	EventMemberStarted EventKind = "member:started"
	// EventMemberJoined: incarnation.
	EventMemberJoined EventKind = "member:joined"
	// EventMemberLeft: incarnation.
	EventMemberLeft EventKind = "member:left"
	// EventMemberDropped: the member's heartbeat was lost, and all its elections with it; incarnation, reason, error.
	EventMemberDropped EventKind = "member:dropped"
	// EventMemberWaiting: another process has this member's ID; incarnation, alive, addr, error, and facts of that
	// process.
	EventMemberWaiting EventKind = "member:waiting"
	// EventDutyFailed: duty, error.
	EventDutyFailed EventKind = "duty:failed"
	// EventDutyStuck: a duty did not stop in time, and the process should exit; reason.
	EventDutyStuck EventKind = "duty:stuck"
	// EventCandidateRestarted: the driver has panicked, and the member was started anew; error.
	EventCandidateRestarted EventKind = "candidate:restarted"
	// EventHealthChanged: healthy, error.
	EventHealthChanged EventKind = "member:health_changed"
	// EventObserverPanicked: OnEvent or OnLifeline has panicked; error.
	EventObserverPanicked EventKind = "observer:panicked"
)

// LogEvents returns an OnEvent that writes each event to l. The messages are constant, the rest is attributes.
func LogEvents(l *slog.Logger) func(Event) {
	return func(e Event) {
		args := []any{"seq", e.Seq, "node", e.Node}
		if e.Election != "" {
			args = append(args, "election", e.Election, "epoch", e.Epoch)
		}
		for k, v := range e.Metadata {
			args = append(args, k, v)
		}
		for k, v := range e.Measurements {
			if k != "time" {
				args = append(args, k, plain(v))
			}
		}

		message, level := e.Kind.log()
		l.Log(context.Background(), level, message, args...) // an event belongs to no request
	}
}

// plain returns a measurement as logs show it: a whole number without an exponent.
func plain(v float64) any {
	if n := int64(v); float64(n) == v {
		return n
	}

	return v
}

// log returns the message and the level under which events of a kind are logged.
func (k EventKind) log() (message string, level slog.Level) {
	switch k {
	case EventBecameLeader:
		return "became leader", slog.LevelInfo
	case EventLostLeadership:
		return "lost leadership", slog.LevelInfo
	case EventLeaderChanged:
		return "leader changed", slog.LevelInfo
	case EventContention, EventMemberWaiting, EventMemberDropped, EventDutyFailed, EventHealthChanged:
		return string(k), slog.LevelWarn
	case EventStoreRegressed, EventRegisterUnreadable, EventDutyStuck, EventCandidateRestarted, EventObserverPanicked:
		return string(k), slog.LevelError
	}

	return string(k), slog.LevelInfo
}

// Emit passes an event of the caller to OnEvent, in sequence with those of the member. While the member does not run,
// the event is dropped.
func (m *Member) Emit(e Event) { m.emit(e) }

func (m *Member) emit(e Event) {
	m.eventsMu.RLock()
	defer m.eventsMu.RUnlock()

	if m.events != nil {
		m.events.send(e)
	}
}

// event emits an event of the core.
func (r *run) event(e core.Event) {
	switch e.Kind {
	case core.EventWaiting:
		r.joinBlocked(e)
		return
	case core.EventJoined:
		r.m.mu.Lock()
		r.m.blocked = ""
		r.m.mu.Unlock()
	}

	if r.m.OnEvent == nil {
		return
	}

	out := Event{
		Kind: EventKind(e.Kind), Node: e.Node, Election: e.Election, Epoch: e.Epoch,
		Metadata: e.Metadata(), Measurements: e.Measurements(),
	}
	switch {
	case e.Kind == core.EventStarted:
		out.Measurements = map[string]float64{"waitedMs": millis.Of(r.m.clock.Now() - r.began)}
	case e.Kind == core.EventBecameLeader && out.Measurements != nil:
		out.Measurements["time"] = millis.Unix(time.Now())
	}

	r.m.emit(out)
}

// observe calls OnEvent. A panic of OnEvent is an event in turn, unless the event was about such a panic.
func (m *Member) observe(e Event) {
	m.guarded(func() { m.OnEvent(e) }, e.Kind != EventObserverPanicked)
}

// guarded calls an observer. A panic of the observer is counted and, if emit is true, emitted as an event.
func (m *Member) guarded(observer func(), emit bool) {
	err := protect(func() error {
		observer()
		return nil
	})
	if err == nil {
		return
	}

	m.stats.observerPanics.Add(1)
	if emit {
		m.emit(Event{Kind: EventObserverPanicked, Metadata: map[string]string{"error": err.Error()}})
	}
}

// eventBuffer is how many events an observer may be behind before events are dropped.
const eventBuffer = 4096

// events passes events to one observer, in order, from a goroutine of its own. send never waits.
type events struct {
	observe func(Event)
	node    string
	mu      sync.Mutex
	seq     uint64
	queue   chan Event
	done    chan struct{}
	lost    *atomic.Uint64
}

// newEvents starts to pass events to the observer, after before is closed: when the observer has returned from the
// events of the run before.
func newEvents(
	node string, seq uint64, before <-chan struct{}, observe func(Event), lost *atomic.Uint64,
) *events {
	s := &events{observe: observe, node: node, seq: seq, lost: lost}
	s.queue = make(chan Event, eventBuffer)
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		if before != nil {
			<-before
		}
		for e := range s.queue {
			s.observe(e)
		}
	}()

	return s
}

func (s *events) send(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.seq++
	e.Seq = s.seq
	e.Time = time.Now()
	if e.Node == "" {
		e.Node = s.node
	}
	if e.Measurements == nil {
		e.Measurements = map[string]float64{"time": millis.Unix(e.Time)}
	}

	select {
	case s.queue <- e:
	default:
		s.lost.Add(1)
	}
}

// close waits until the observer has returned from the last event, for at most a second, and returns the last sequence
// number.
func (s *events) close() uint64 {
	close(s.queue)
	select {
	case <-s.done:
	case <-time.After(time.Second):
	}

	return s.seq
}
