package node

import (
	"context"
	"maps"
	"time"

	"github.com/regentd/regent"
)

// leaderlessInterval is the time between two updates of the leaderless time.
const leaderlessInterval = 100 * time.Millisecond

// Counts are figures that only the node counts.
type Counts struct {
	Ended      map[string]uint64 // terms, by the reason for which they ended
	Leaderless time.Duration     // how long the election was vacant, as far as this node saw
	Regressed  uint64            // how often the store was found to have lost writes
	Requests   map[string]uint64 // to the store, by kind
}

// Counts returns the figures of the node.
func (n *Node) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Counts{
		Ended: maps.Clone(n.reasons), Leaderless: n.leaderless, Regressed: n.regressed, Requests: n.store.Requests(),
	}
}

// Drifts returns how many tasks and other requests this node has refused because of their old epochs.
func (n *Node) Drifts() uint64 {
	drifts := n.Member.Stats().EpochDriftEvents
	if n.Worker != nil {
		drifts += n.Worker.Fence.Refused()
	}

	return drifts
}

// count counts an event.
func (n *Node) count(e regent.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.Kind == regent.EventLostLeadership && e.Node == n.Member.ID:
		n.reasons[e.Metadata["reason"]]++
	case e.Kind == regent.EventStoreRegressed && e.Election == n.opts.Election:
		n.regressed++
	}
}

// countLeaderless adds up the time in which this node sees the election vacant, until ctx ends. A dead leader is in the
// record until another one takes over.
func (n *Node) countLeaderless(ctx context.Context) {
	tick := time.NewTicker(leaderlessInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			v, seen := n.Member.View(n.opts.Election)
			n.noteEpoch(v, seen, now)
			n.addLeaderless(!seen || v.Leader == "", now)
		}
	}
}

// addLeaderless adds the time since the last call, if the election was vacant.
func (n *Node) addLeaderless(vacant bool, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if vacant {
		n.leaderless += now.Sub(n.counted)
	}
	n.counted = now
}
