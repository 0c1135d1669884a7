package node

import (
	"context"
	"maps"
	"time"

	"github.com/regentd/regent"
)

// The time between two checks of who leads, beside those that events cause: a lease that expires is no event.
const (
	ledInterval        = 500 * time.Millisecond
	leaderlessInterval = 100 * time.Millisecond
)

// Counts are figures that only the node counts.
type Counts struct {
	Ended      map[string]uint64 // terms, by the reason for which they ended
	Leaderless time.Duration     // how long nobody led, as far as this node saw
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

	if e.Election == n.opts.Election {
		select {
		case n.election <- struct{}{}:
		default:
		}
	}
}

// countLeaderless adds up the time in which this node sees that nobody leads, until ctx ends: the election is vacant,
// or its leader is known to be dead and still in the record, because nobody could take over.
func (n *Node) countLeaderless(ctx context.Context) {
	wait := time.NewTimer(leaderlessInterval)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
		case <-n.election:
		}

		v, seen := n.Member.View(n.opts.Election)
		now := time.Now()
		n.noteEpoch(v, seen, now)
		if n.addLeaderless(!seen || v.Leader == "" || v.Expired, now) {
			wait.Reset(leaderlessInterval)
		} else {
			wait.Reset(ledInterval)
		}
	}
}

// addLeaderless adds the time since the last call, if nobody led then, and returns whether nobody leads now.
func (n *Node) addLeaderless(nobody bool, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.led {
		n.leaderless += now.Sub(n.counted)
	}

	n.led = !nobody
	n.counted = now
	return nobody
}
