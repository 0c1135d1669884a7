package api

import (
	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/millis"
)

// Lease is how long a heartbeat counts, and how slow it may be. All are milliseconds.
type Lease struct {
	LeaseDurationMs     float64 `json:"leaseDurationMs"`
	HeartbeatIntervalMs float64 `json:"heartbeatIntervalMs"`
	TakeoverDelayMs     float64 `json:"takeoverDelayMs"` // from the end of a lease to a claim
	LeaseLostAtMs       float64 `json:"leaseLostAtMs"`   // a leader whose heartbeat takes this long stops leading
}

// leaseOf returns the lease of a node. A leader counts from the moment before it sent its last heartbeat that was
// applied, and the next one is sent an interval later: so much less is left for it.
func leaseOf(c regent.Config) Lease {
	interval := c.HeartbeatInterval
	if c.OwnLease {
		interval = c.RenewInterval
	}

	relied := c.LeaseDuration - c.LeaseDuration/500 - c.StopTimeout // D of the protocol

	return Lease{
		LeaseDurationMs: millis.Of(c.LeaseDuration), HeartbeatIntervalMs: millis.Of(interval),
		TakeoverDelayMs: millis.Of(c.TakeoverDelay), LeaseLostAtMs: millis.Of(relied - interval),
	}
}
