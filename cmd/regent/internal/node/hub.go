package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/regentd/regent"
)

// keptEvents is the number of events that are kept for subscribers which come back after a gap.
const keptEvents = 1000

// Hub sends events to any number of subscribers, and keeps the last ones. It never waits for a subscriber: one that is
// too slow is cut off, and can subscribe again with the ID of the last event that it received. Use NewHub.
type Hub struct {
	run string // the ID of this process: sequence numbers begin with 1 in each

	mu          sync.Mutex
	past        []regent.Event // the last events, oldest first
	subscribers map[*Subscription]bool
	cutOff      uint64 // subscribers
}

// NewHub returns a hub whose IDs no other hub uses.
func NewHub() *Hub { return &Hub{run: rand.Text()[:13], subscribers: map[*Subscription]bool{}} }

// Send sends an event to all subscribers.
func (h *Hub) Send(e regent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()

	h.past = append(h.past, e)
	if len(h.past) > 2*keptEvents {
		h.past = append([]regent.Event(nil), h.past[len(h.past)-keptEvents:]...)
	}

	for s := range h.subscribers {
		select {
		case s.events <- e:
		default:
			h.cutOffLocked(s)
		}
	}
}

// cutOffLocked ends a subscription.
func (h *Hub) cutOffLocked(s *Subscription) {
	delete(h.subscribers, s)
	close(s.events)
	s.cut = true
	h.cutOff++
}

// ID returns the ID of an event, which is unique over all runs of this node.
func (h *Hub) ID(e regent.Event) string { return h.run + "-" + strconv.FormatUint(e.Seq, 10) }

// errEventID is the rule for an ID of an event.
var errEventID = errors.New("must be the ID of an event of this node, as in 5XQZ2M7RTKDWA-42")

// parseID returns the run and the sequence number in an ID. The IDs of earlier versions have no run.
func parseID(id string) (run string, seq uint64, err error) {
	run, number, ok := strings.Cut(id, "-")
	if !ok {
		run = ""
		number = id
	}

	if seq, err = strconv.ParseUint(number, 10, 64); err != nil || ok && len(run) != 13 {
		return "", 0, fmt.Errorf("%.100q: %w", id, errEventID)
	}

	return run, seq, nil
}

// Subscription is the subscription of one subscriber.
type Subscription struct {
	Past   []regent.Event // the kept events after the last one that the subscriber has received
	Missed string         // why events are missing before those; empty if none are

	h      *Hub
	events chan regent.Event
	cut    bool
}

// Events returns the channel of new events. It is closed if the subscriber is cut off.
func (s *Subscription) Events() <-chan regent.Event { return s.events }

// Subscribe returns a subscription to the kept events after the one with an ID, and to new ones. With an empty ID, all
// kept events are included. Close must be called.
func (h *Hub) Subscribe(after string) (*Subscription, error) {
	s := &Subscription{h: h, events: make(chan regent.Event, 64)}
	h.mu.Lock()
	defer h.mu.Unlock()

	var seen uint64
	if after != "" {
		run, seq, err := parseID(after)
		if err != nil {
			return nil, err
		}
		seen, s.Missed = h.gapLocked(run, seq)
	}

	for _, e := range h.past {
		if e.Seq > seen {
			s.Past = append(s.Past, e)
		}
	}

	h.subscribers[s] = true
	return s, nil
}

// gapLocked returns the number after which events are sent to a subscriber whose last event was seq of a run, and which
// events are missing.
func (h *Hub) gapLocked(run string, seq uint64) (after uint64, missed string) {
	switch n := len(h.past); {
	case run != h.run:
		return 0, "the last event seen is of another run of this node: " +
			"those between it and the end of that run are not kept"
	case n == 0 || seq > h.past[n-1].Seq:
		return 0, "the last event seen is not one of this run"
	case seq+1 < h.past[0].Seq:
		return seq, fmt.Sprintf("events %d to %d are not kept any more", seq+1, h.past[0].Seq-1)
	}

	return seq, ""
}

// Close ends the subscription. It reports whether the subscriber had been cut off.
func (s *Subscription) Close() (cut bool) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.subscribers[s] {
		delete(s.h.subscribers, s)
		close(s.events)
	}

	return s.cut
}

// CutOff ends the subscription of a subscriber that does not read.
func (s *Subscription) CutOff() {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.subscribers[s] {
		s.h.cutOffLocked(s)
	}
}

// CutOff returns how many subscribers were cut off because they were too slow.
func (h *Hub) CutOff() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cutOff
}
