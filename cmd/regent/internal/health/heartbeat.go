package health

import (
	"time"

	"github.com/regentd/regent"
)

// heartbeat is the heartbeat of a member as this node sees it. A [regent.Roster] says whether the member is alive.
type heartbeat struct {
	view     regent.MemberView // the last one of an incarnation: a vacant register has no data
	state    regent.MemberState
	vacant   bool
	listed   time.Time // when the newest listing was sent
	received time.Time // when its answer was received

	failing      time.Time // since when all probes have failed; zero if the last one succeeded
	afterFailure bool      // a heartbeat was certainly sent after probes began to fail
}

// update takes in a listing that was sent at listed and answered at received. It reports whether the register shows
// another incarnation.
func (h *heartbeat) update(s regent.MemberState, listed, received time.Time) (joined bool) {
	first := h.received.IsZero()
	before := h.received
	beat := s.Heartbeats != h.state.Heartbeats
	joined = s.Incarnation != "" && (first || h.vacant || s.Incarnation != h.view.Incarnation)
	h.state = s
	h.listed = listed
	h.received = received
	h.vacant = s.Incarnation == ""

	switch {
	case h.vacant:
		h.view.ID = s.ID
		h.forgetProbes()
		return false
	case joined:
		h.forgetProbes()
	case beat && !h.failing.IsZero() && before.After(h.failing):
		// The listing before showed another heartbeat, and came after the failed probe. A listing from before the probe
		// would not do: the member may have sent this heartbeat and died in between.
		h.afterFailure = true
	}

	h.view = s.MemberView
	return joined
}

// probed takes in the outcome of a probe.
func (h *heartbeat) probed(err error, now time.Time) {
	switch {
	case err == nil:
		h.forgetProbes()
	case h.failing.IsZero():
		h.failing = now
	}
}

// forgetProbes forgets the failed probes.
func (h *heartbeat) forgetProbes() {
	h.failing = time.Time{}
	h.afterFailure = false
}

// confirmed reports whether a heartbeat was seen: before that, the member may have died long ago.
func (h *heartbeat) confirmed() bool { return h.state.Heartbeats > 1 }

// lease returns the lease of the member.
func (h *heartbeat) lease() time.Duration { return h.view.Lease }

// silentFor returns for how long the newest heartbeat is known to have been the newest.
func (h *heartbeat) silentFor() time.Duration { return h.state.HeartbeatAge }

// expired reports whether the heartbeat has expired.
func (h *heartbeat) expired() bool { return !h.vacant && !h.state.Alive }

// lateAfter returns how long a heartbeat may take before it is late. All profiles have four heartbeats in a lease;
// users may configure fewer.
func (h *heartbeat) lateAfter(interval time.Duration) time.Duration {
	return 2 * max(interval, h.lease()/4)
}

// late reports whether the heartbeat is late.
func (h *heartbeat) late(interval time.Duration) bool { return h.silentFor() >= h.lateAfter(interval) }

// nextCheck returns when the member must be checked again, or zero if nothing about it is uncertain.
func (h *heartbeat) nextCheck(interval time.Duration) time.Time {
	reachable := h.failing.IsZero() || h.afterFailure
	certain := h.confirmed() && !h.late(interval) && reachable
	if h.vacant || h.expired() || certain {
		return time.Time{}
	}

	since := h.received // of a heartbeat that this listing was the first to show
	if age := h.silentFor(); age > 0 {
		since = h.listed.Add(-age)
	}
	if h.late(interval) {
		return since.Add(h.lease())
	}
	return since.Add(min(h.lateAfter(interval), h.lease()))
}
