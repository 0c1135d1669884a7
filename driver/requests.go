package driver

import (
	"maps"
	"sync"
	"time"
)

// Counter is a Store that counts its requests.
type Counter interface {
	// Requests returns how many requests of each kind the store has sent to its server since it was opened, those that
	// failed included. A kind is a word of the store: what a bill or the server's own log would name. The map is the
	// caller's.
	Requests() map[string]uint64
}

// WriteLimiter is a Store whose server limits how often one register may be written.
type WriteLimiter interface {
	// WriteInterval returns the shortest time between two writes of one register that the server accepts, or 0 if there
	// is no limit. A member with a shorter heartbeat interval, or renewal interval, is refused.
	WriteInterval() time.Duration
}

// RequestCount counts requests by kind, for drivers. The zero value is ready to use.
type RequestCount struct {
	mu     sync.Mutex
	counts map[string]uint64
}

// Add counts one request.
func (r *RequestCount) Add(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts = map[string]uint64{}
	}
	r.counts[kind]++
}

// Requests implements [Counter].
func (r *RequestCount) Requests() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]uint64, len(r.counts))
	maps.Copy(counts, r.counts)
	return counts
}
