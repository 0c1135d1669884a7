package regent

import (
	"context"
	"strings"

	"github.com/regentd/regent/driver"
)

// hints is a member's subscription to the store's push, if it has one: to its elections, and to all members' heartbeats.
type hints struct {
	e       *engine
	waker   driver.Waker // nil if the store has no push
	prefix  string
	seats   <-chan driver.Record
	members <-chan driver.Record
	stop    context.CancelFunc
}

func (e *engine) subscribe() *hints {
	h := &hints{e: e, stop: func() {}}
	h.waker, _ = e.store.(driver.Waker)
	if h.waker != nil {
		h.members = h.waker.Wake(e.ctx, driver.MemberPrefix)
	}
	return h
}

// renew subscribes anew when elections have come that the subscription does not cover, and reports whether it did: what has changed before is to be
// read then, since no hint will tell of it.
func (h *hints) renew() bool {
	if h.waker == nil {
		return false
	}
	h.e.mu.Lock()
	if !h.e.renamed {
		h.e.mu.Unlock()
		return false
	}
	h.e.renamed = false
	names := make([]string, 0, len(h.e.seats))
	for name := range h.e.seats {
		names = append(names, name)
	}
	h.e.mu.Unlock()
	prefix := commonPrefix(names)
	if len(names) == 0 || h.seats != nil && strings.HasPrefix(prefix, h.prefix) {
		return false
	}
	h.stop()
	ctx, cancel := context.WithCancel(h.e.ctx)
	h.stop, h.prefix, h.seats = cancel, prefix, h.waker.Wake(ctx, prefix)
	return true
}
