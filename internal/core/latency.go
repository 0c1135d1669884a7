package core

import (
	"math"
	"slices"
	"time"

	"github.com/regentd/regent/internal/millis"
)

// This file is rank latency: the candidate with the lowest measured latency of the store should lead. A latency varies
// with every request, and a rank must not. So a member publishes a figure that follows its heartbeats slowly: upwards
// when one in ten of them is slow, downwards only when hardly any is. A leader is asked to hand over only by a member
// whose figure is lower by a third.

const (
	measuredFrom = 10               // heartbeats, before a member publishes its latency
	leastLatency = time.Millisecond // less counts as this: such differences are noise
)

// measure publishes the member's latency, after a heartbeat, if it has changed by more than a quarter.
func (c *Core) measure() {
	s := &c.stats
	if c.rank.kind != rankLatency || s.Heartbeats < measuredFrom {
		return
	}

	recent := slices.Clone(s.Latencies[:min(s.Heartbeats, latencies)])
	slices.Sort(recent)
	usual := quantile(recent, 90)
	most := quantile(recent, 98)

	switch {
	case c.latency == 0, usual > c.latency*5/4:
		c.latency = usual
	case most < c.latency*4/5:
		c.latency = most
	default:
		return
	}

	c.emit(Measured{c.latency})
}

// quantile returns the smallest of sorted latencies that at least p percent of them do not exceed, and at least
// leastLatency.
func quantile(sorted []time.Duration, p int) time.Duration {
	return max(leastLatency, sorted[(len(sorted)*p+99)/100-1])
}

// unmeasured is the place of a member whose latency is not known yet: it comes last.
const unmeasured = math.MaxInt

// longestLatency is the longest that is believed: no request takes as long.
const longestLatency = 24 * time.Hour

// readLatency returns a latency that a member has published in milliseconds, or 0 if it is none.
func readLatency(ms float64) time.Duration {
	if ms <= 0 || ms > millis.Of(longestLatency) {
		return 0
	}

	return millis.Duration(ms)
}

// latencyPlace returns the place of a member under rank latency: its microseconds.
func latencyPlace(latency time.Duration) int {
	if latency <= 0 {
		return unmeasured
	}

	return int(max(latency, leastLatency).Microseconds())
}

// clearlyBetter reports whether a member should take over from a leader. Under rank latency both must have been
// measured, and the difference must be a third, so that similar members do not take turns.
func (k *ranking) clearlyBetter(a, leader standing) bool {
	if k.kind != rankLatency {
		return k.compare(a, leader) < 0
	}

	return leader.place != unmeasured && a.place <= leader.place-leader.place/3
}
