package node

import (
	"fmt"
	"time"

	"github.com/regentd/regent"
)

// highestEpoch returns the highest epoch of the election that this node knows. Its worker may know a higher one than
// its member, and both may know a higher one than a store that has lost writes.
func (n *Node) highestEpoch(v regent.View) uint64 {
	epoch := max(v.Epoch, v.Known)
	if n.Worker == nil {
		return epoch
	}
	if kept, err := n.Worker.Fence.Highest(); err == nil {
		epoch = max(epoch, kept.Epoch)
	}

	return epoch
}

// noteEpoch notes since when the store has shown a lower epoch than this node knows.
func (n *Node) noteEpoch(v regent.View, seen bool, now time.Time) {
	behind := seen && n.highestEpoch(v) > v.Epoch
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !behind:
		n.behind = time.Time{}
	case n.behind.IsZero():
		n.behind = now
	}
}

// behindSince returns since when the store has shown a lower epoch, or zero if it does not.
func (n *Node) behindSince() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.behind
}

// addEpoch adds the highest epoch to the node's health, and whether the store is behind it. It is certain that the
// store has lost writes only after the time that it takes to read a record which has just changed.
func (n *Node) addEpoch(h *Health, v regent.View, seen bool) {
	h.Epoch = n.highestEpoch(v)
	h.Store.Epoch = v.Epoch
	h.Checks["epoch"] = ok
	if !seen || h.Epoch <= v.Epoch {
		return
	}

	h.Store.Behind = true
	condition := "if that lasts, "
	since := n.behindSince()
	if !since.IsZero() && time.Since(since) >= n.opts.Config.HeartbeatInterval {
		condition = ""
	}
	h.Checks["epoch"] = fmt.Sprintf("the store shows epoch %d, but epoch %d was seen before: "+
		"%sthe store has lost writes", v.Epoch, h.Epoch, condition)
}
