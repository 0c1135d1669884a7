package node

import (
	"fmt"
	"time"

	"github.com/regentd/regent"
)

// highest returns the highest epoch of the election that this node knows of. Its worker may remember more than its
// member, and both more than a store that has lost writes.
func (n *Node) highest(v regent.View) uint64 {
	epoch := max(v.Epoch, v.Known)
	if n.Worker == nil {
		return epoch
	}
	if kept, err := n.Worker.Fence.Highest(); err == nil {
		epoch = max(epoch, kept.Epoch)
	}
	return epoch
}

// noteEpoch notes since when the store has shown a lower epoch than this node knows of.
func (n *Node) noteEpoch(v regent.View, seen bool, now time.Time) {
	behind := seen && n.highest(v) > v.Epoch
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !behind:
		n.behind = time.Time{}
	case n.behind.IsZero():
		n.behind = now
	}
}

// tellEpoch adds the highest epoch to the node's health, and whether the store is behind it. That the store has lost
// writes is certain only after the time that it takes to read a record which has just changed.
func (n *Node) tellEpoch(h *Health, v regent.View, seen bool) {
	h.Epoch = n.highest(v)
	h.Store.Epoch = v.Epoch
	h.Checks["epoch"] = ok

	if !seen || h.Epoch <= v.Epoch {
		return
	}
	h.Store.Behind = true
	n.mu.Lock()
	since := n.behind
	n.mu.Unlock()
	certain := "if that lasts, "
	if !since.IsZero() && time.Since(since) >= n.opts.Config.HeartbeatInterval {
		certain = ""
	}
	h.Checks["epoch"] = fmt.Sprintf("the store shows epoch %d, but epoch %d was seen before: %sthe store has lost writes",
		v.Epoch, h.Epoch, certain)
}
