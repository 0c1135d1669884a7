package regent

import "context"

// hints is a member's subscription to the store's push, if it has one: to its elections, and to all members' heartbeats.
type hints struct {
	e       *engine
	waker   Waker // nil if the store has no push
	prefix  string
	seats   <-chan struct{}
	members <-chan struct{}
	stop    context.CancelFunc
}

func (e *engine) subscribe() *hints {
	h := &hints{e: e, stop: func() {}}
	h.waker, _ = e.store.(Waker)
	if h.waker != nil {
		h.members = h.waker.Wake(e.ctx, memberPrefix)
	}
	return h
}

// renew subscribes anew when the elections have changed.
func (h *hints) renew() {
	if h.waker == nil {
		return
	}
	h.e.mu.Lock()
	if !h.e.renamed {
		h.e.mu.Unlock()
		return
	}
	h.e.renamed = false
	names := make([]string, 0, len(h.e.seats))
	for name := range h.e.seats {
		names = append(names, name)
	}
	h.e.mu.Unlock()
	prefix := commonPrefix(names)
	if len(names) == 0 || h.seats != nil && prefix == h.prefix {
		return
	}
	h.stop()
	ctx, cancel := context.WithCancel(h.e.ctx)
	h.stop, h.prefix, h.seats = cancel, prefix, h.waker.Wake(ctx, prefix)
}
