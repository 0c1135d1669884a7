package node

import (
	"sync"

	"github.com/regentd/regent"
)

// kept is how many events are kept for those who come back after a gap.
const kept = 1000

// Hub passes events on to any number of listeners, and remembers the last ones. It never waits for a listener: one that is too slow is
// closed, and comes back with the number of the last event that it saw.
type Hub struct {
	mu        sync.Mutex
	past      []regent.Event // the last ones, oldest first
	listeners map[chan regent.Event]bool
}

// Send passes an event on.
func (h *Hub) Send(e regent.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.past = append(h.past, e)
	if len(h.past) > 2*kept {
		h.past = append([]regent.Event(nil), h.past[len(h.past)-kept:]...)
	}
	for c := range h.listeners {
		select {
		case c <- e:
		default:
			delete(h.listeners, c)
			close(c)
		}
	}
}

// Listen returns the kept events after one, and a channel with those that come. Stop must be called.
func (h *Hub) Listen(after uint64) (past []regent.Event, events <-chan regent.Event, stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.past); n > 0 && after > h.past[n-1].Seq {
		after = 0 // the number is of another run of this node
	}
	for _, e := range h.past {
		if e.Seq > after {
			past = append(past, e)
		}
	}
	c := make(chan regent.Event, 64)
	if h.listeners == nil {
		h.listeners = map[chan regent.Event]bool{}
	}
	h.listeners[c] = true
	return past, c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.listeners[c] {
			delete(h.listeners, c)
			close(c)
		}
	}
}
