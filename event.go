package regent

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/internal/core"
)

// Event is something that happened to a member. Sequence numbers grow by one, so that a gap shows a loss.
type Event struct {
	Seq          uint64             `json:"seq"`
	Time         time.Time          `json:"time"`
	Kind         EventKind          `json:"kind"`
	Node         string             `json:"node"` // whom it happened to
	Election     string             `json:"election,omitempty"`
	Epoch        uint64             `json:"epoch,omitempty"`
	Measurements map[string]float64 `json:"measurements,omitempty"`
	Metadata     map[string]string  `json:"metadata,omitempty"`
}

// EventKind is what an event is about, as noun:verb. Users of [Member.Emit] may have kinds of their own.
type EventKind string

// The kinds of event.
const (
	EventBecameLeader       EventKind = "coordinator:became_leader"   // time, vacant (seconds); epoch, term, previous_leader, previous_reason
	EventLostLeadership     EventKind = "coordinator:lost_leadership" // time; epoch, reason. For a leader that died or fell silent its successor sends it
	EventLeaderChanged      EventKind = "coordinator:leader_changed"  // time; previous_leader, previous_reason, new_leader, epoch, term
	EventContention         EventKind = "contention:detected"         // duration, expected (seconds), ratio
	EventStoreRegressed     EventKind = "store:regressed"             // the store shows less than it did; epoch is the highest seen
	EventStoreRetired       EventKind = "store:retired"               // a register that nobody uses was removed; register
	EventRegisterUnreadable EventKind = "register:unreadable"         // the store answers, but not for this register; register, error
	EventMemberStarted      EventKind = "member:started"              // the start-up jitter is over, the first request follows; waited (seconds)
	EventMemberJoined       EventKind = "member:joined"               // incarnation
	EventMemberLeft         EventKind = "member:left"                 // incarnation
	EventMemberDropped      EventKind = "member:dropped"              // incarnation, reason: the heartbeat was lost, all seats with it
	EventMemberWaiting      EventKind = "member:waiting"              // another process holds this ID; incarnation, alive, addr, error, and its facts
	EventDutyFailed         EventKind = "duty:failed"                 // error
	EventDutyStuck          EventKind = "duty:stuck"                  // a duty did not stop in time: the process should exit
	EventCandidateRestarted EventKind = "candidate:restarted"         // the member's own loop died; error
	EventHealthChanged      EventKind = "member:health_changed"       // healthy, error
	EventObserverPanicked   EventKind = "observer:panicked"           // OnEvent or OnLifeline; error
)

// LogEvents returns an OnEvent that writes each event to l. The messages are constant, the rest is attributes.
func LogEvents(l *slog.Logger) func(Event) {
	return func(e Event) {
		message, level := string(e.Kind), slog.LevelInfo
		switch e.Kind {
		case EventBecameLeader:
			message = "became leader"
		case EventLostLeadership:
			message = "lost leadership"
		case EventLeaderChanged:
			message = "leader changed"
		case EventContention, EventMemberWaiting, EventMemberDropped, EventDutyFailed, EventHealthChanged:
			level = slog.LevelWarn
		case EventStoreRegressed, EventRegisterUnreadable, EventDutyStuck, EventCandidateRestarted, EventObserverPanicked:
			level = slog.LevelError
		}
		args := []any{"seq", e.Seq, "node", e.Node}
		if e.Election != "" {
			args = append(args, "election", e.Election, "epoch", e.Epoch)
		}
		for k, v := range e.Metadata {
			args = append(args, k, v)
		}
		for k, v := range e.Measurements {
			if k != "time" {
				args = append(args, k, v)
			}
		}
		l.Log(context.Background(), level, message, args...) // an event belongs to no request
	}
}

// event tells what the core says.
func (r *run) event(e core.Event) {
	switch e.Kind {
	case core.EventWaiting:
		r.waiting(e)
		return
	case core.EventJoined:
		r.m.mu.Lock()
		r.m.blocked = ""
		r.m.mu.Unlock()
	}
	out := Event{
		Kind: EventKind(e.Kind), Node: e.Node, Election: e.Election, Epoch: e.Epoch,
		Metadata: e.Metadata(), Measurements: e.Measurements(),
	}
	switch {
	case e.Kind == core.EventStarted:
		out.Measurements = map[string]float64{"waited": (r.m.clock.Now() - r.began).Seconds()}
	case e.Kind == core.EventBecameLeader && out.Measurements != nil:
		out.Measurements["time"] = seconds(time.Now())
	}
	r.m.emit(out)
}

// observe hands an event to OnEvent. Its panic is told as an event in turn, unless it is over such a one.
func (m *Member) observe(e Event) {
	m.guarded(func() { m.OnEvent(e) }, e.Kind != EventObserverPanicked)
}

// guarded calls an observer. Its panic is counted, and is no reason to stop electing.
func (m *Member) guarded(observer func(), say bool) {
	err := protect(func() error { observer(); return nil })
	if err == nil {
		return
	}
	m.stats.observerPanics.Add(1)
	if say {
		m.emit(Event{Kind: EventObserverPanicked, Metadata: map[string]string{"error": err.Error()}})
	}
}

// eventBuffer is how far an observer may fall behind before it loses events.
const eventBuffer = 4096

// events hands events to one observer, in order, from a goroutine of its own. Sending never waits.
type events struct {
	observe func(Event)
	node    string
	mu      sync.Mutex
	seq     uint64
	queue   chan Event
	done    chan struct{}
	lost    *atomic.Uint64
}

// newEvents starts to hand events to the observer, once it has returned from those of the run before.
func newEvents(node string, seq uint64, before <-chan struct{}, observe func(Event), lost *atomic.Uint64) *events {
	s := &events{observe: observe, node: node, seq: seq, lost: lost, queue: make(chan Event, eventBuffer), done: make(chan struct{})}
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
	if e.Node == "" { // else it is told for another one
		e.Node = s.node
	}
	if e.Measurements == nil {
		e.Measurements = map[string]float64{"time": seconds(e.Time)}
	}
	select {
	case s.queue <- e:
	default:
		s.lost.Add(1)
	}
}

// seconds is a time as measurements have it.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// close waits until the observer has seen everything, or has taken a second over it: the elector waits for nobody.
func (s *events) close() uint64 {
	close(s.queue)
	select {
	case <-s.done:
	case <-time.After(time.Second):
	}
	return s.seq
}
