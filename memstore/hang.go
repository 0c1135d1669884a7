package memstore

import (
	"sync"
	"sync/atomic"
)

// hang holds requests back while the store, or one client's connection to it, hangs: like a server that was stopped and
// keeps its connections. Requests that arrive meanwhile are neither executed nor answered. A call still ends with its
// context.
type hang struct {
	on     atomic.Bool // set under heldMu
	heldMu sync.Mutex
	held   []heldRequest
}

// heldRequest is a request that waits until the store resumes.
type heldRequest struct{ carryOut, drop func() }

// Hang makes every request that arrives from now on wait.
func (h *hang) Hang() {
	h.heldMu.Lock()
	defer h.heldMu.Unlock()
	h.on.Store(true)
}

// Hangs reports whether requests are held back.
func (h *hang) Hangs() bool { return h.on.Load() }

// Resume executes the requests that were held back, in the order of their arrival, even if their callers have given up.
func (h *hang) Resume() { h.resume(func(a heldRequest) { a.carryOut() }) }

// Drop resumes without the requests that were held back: they are lost, as in a server that restarts.
func (h *hang) Drop() { h.resume(func(a heldRequest) { a.drop() }) }

func (h *hang) resume(each func(heldRequest)) {
	h.heldMu.Lock()
	defer h.heldMu.Unlock()

	for _, a := range h.held {
		each(a)
	}
	h.held = nil
	h.on.Store(false) // only now, so that no new request overtakes them
}

// pass executes a request: at once, or when the hang is over.
func (h *hang) pass(carryOut, drop func()) {
	if h.on.Load() && h.hold(heldRequest{carryOut, drop}) {
		return
	}
	carryOut()
}

func (h *hang) hold(a heldRequest) bool {
	h.heldMu.Lock()
	defer h.heldMu.Unlock()

	if h.on.Load() {
		h.held = append(h.held, a)
	}
	return h.on.Load()
}

// deliver delivers a request to the store, when neither the client nor the store hangs.
func (c *Client) deliver(carryOut, drop func()) {
	c.hang.pass(func() { c.store.hang.pass(carryOut, drop) }, drop)
}
