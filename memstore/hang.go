package memstore

import (
	"sync"
	"sync/atomic"
)

// hang holds requests back while a store, or one client's way to it, stands still: a server that
// was stopped and keeps its connections. Requests that arrive meanwhile are neither carried out nor
// answered. A call still ends with its context.
type hang struct {
	on   atomic.Bool // set under wait
	wait sync.Mutex
	held []arrival
}

// arrival is a request that waits for the store to go on.
type arrival struct{ carryOut, drop func() }

// Hang makes every request that arrives from now on wait.
func (h *hang) Hang() {
	h.wait.Lock()
	defer h.wait.Unlock()
	h.on.Store(true)
}

// Hangs reports whether requests wait.
func (h *hang) Hangs() bool { return h.on.Load() }

// Resume lets the requests that wait arrive, in the order in which they came, those included whose
// callers have given up.
func (h *hang) Resume() { h.resume(func(a arrival) { a.carryOut() }) }

// Drop is Resume for a server that comes back without the requests that it had not read: they are
// lost.
func (h *hang) Drop() { h.resume(func(a arrival) { a.drop() }) }

func (h *hang) resume(each func(arrival)) {
	h.wait.Lock()
	defer h.wait.Unlock()
	for _, a := range h.held {
		each(a)
	}
	h.held = nil
	h.on.Store(false) // only now, so that nothing overtakes what has waited
}

// pass has a request go on: at once, or after what hangs goes on.
func (h *hang) pass(carryOut, drop func()) {
	if h.on.Load() && h.hold(arrival{carryOut, drop}) {
		return
	}
	carryOut()
}

func (h *hang) hold(a arrival) bool {
	h.wait.Lock()
	defer h.wait.Unlock()
	if h.on.Load() {
		h.held = append(h.held, a)
	}
	return h.on.Load()
}

// deliver has a request arrive at the store, when neither the client nor the store hangs.
func (c *Client) deliver(carryOut, drop func()) {
	c.hang.pass(func() { c.store.hang.pass(carryOut, drop) }, drop)
}
