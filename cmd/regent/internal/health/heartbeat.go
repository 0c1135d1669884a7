package health

import (
	"time"

	"github.com/regentd/regent"
)

// heartbeat is the heartbeat of a member as this node sees it. Times are readings of its own monotonic clock.
type heartbeat struct {
	view      regent.MemberView // the last one of an incarnation: a vacant register has no data
	rev       string
	vacant    bool
	listed    time.Time // when the newest listing was sent
	received  time.Time // when its answer was received
	unchanged time.Time // since when the revision is the same: from after an answer, never before
	confirmed bool      // the revision has changed between two listings

	failing      time.Time // since when all probes have failed; zero if the last one succeeded
	afterFailure bool      // a heartbeat was certainly sent after probes began to fail
}

// update takes in a listing that was sent at listed and answered at received. It reports whether the register shows
// another incarnation.
func (h *heartbeat) update(v regent.MemberView, listed, received time.Time) (joined bool) {
	first := h.received.IsZero()
	before := h.received
	h.listed = listed
	h.received = received
	if !first && v.Rev == h.rev {
		return false
	}

	joined = v.Incarnation != "" && (first || h.vacant || v.Incarnation != h.view.Incarnation)
	h.rev = v.Rev
	h.unchanged = received
	h.vacant = v.Incarnation == ""

	switch {
	case h.vacant:
		h.view.ID = v.ID
		h.forgetProbes()
		return false
	case joined:
		h.forgetProbes()
	case !h.failing.IsZero() && before.After(h.failing):
		// The listing before showed another revision, and came after the failed probe. A listing from before the probe
		// would not do: the member may have written this revision and died in between.
		h.afterFailure = true
	}

	h.view = v
	h.confirmed = !first
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

// defaultLease is the lease of a member whose register has none.
const defaultLease = 30 * time.Second

func (h *heartbeat) lease() time.Duration {
	if h.view.Lease <= 0 {
		return defaultLease
	}

	return h.view.Lease
}

// silentFor returns how long the revision is known to be the same.
func (h *heartbeat) silentFor() time.Duration { return max(0, h.listed.Sub(h.unchanged)) }

// expired reports whether the heartbeat has expired.
func (h *heartbeat) expired() bool { return !h.vacant && h.silentFor() >= h.lease() }

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
	certain := h.confirmed && !h.late(interval) && reachable
	if h.vacant || h.expired() || certain {
		return time.Time{}
	}

	if h.late(interval) {
		return h.unchanged.Add(h.lease())
	}
	return h.unchanged.Add(min(h.lateAfter(interval), h.lease()))
}
