// Package doctor checks whether a store, a machine and a configuration are fit for Regent, and computes from what it
// measures how long a takeover may take.
//
// The race and the measurements write one scratch register, which no election and no member uses.
package doctor

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/regentd/regent"
)

// Verdict is the result of a check.
type Verdict string

// Verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning" // it works, and could be better
	Wrong   Verdict = "wrong"   // it must be changed
	Skipped Verdict = "skipped" // it could not be checked
)

// Check is one check and its result.
type Check struct {
	Name    string             `json:"name"`
	Verdict Verdict            `json:"verdict"`
	Text    string             `json:"text"`
	Advice  string             `json:"advice,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"` // milliseconds, or counts
}

// Takeover is how long nobody leads, at the longest, computed from the configuration and the latencies of the store.
type Takeover struct {
	ReleasedMs float64 `json:"releasedMs"` // after a shutdown, a handoff, or a death that the reaper sees
	SilentMs   float64 `json:"silentMs"`   // after the death of a whole host, or without a reaper
	LeaseMs    float64 `json:"leaseMs"`    // the part of it that the lease is
	DelayMs    float64 `json:"delayMs"`    // the part of it that the takeover delay is
	MarginMs   float64 `json:"marginMs"`   // how much longer a heartbeat may take before the lease is lost
}

// Report is everything that was found.
type Report struct {
	Store    string    `json:"store"`
	Healthy  bool      `json:"healthy"` // nothing is wrong
	Checks   []Check   `json:"checks"`
	Takeover *Takeover `json:"takeover,omitempty"` // left out if the store could not be measured
	Cost     *Cost     `json:"cost,omitempty"`     // of a store that is paid by the request; else left out
}

// Add adds a check.
func (r *Report) Add(name string, v Verdict, advice, format string, args ...any) {
	r.Checks = append(r.Checks, Check{Name: name, Verdict: v, Text: fmt.Sprintf(format, args...), Advice: advice})
	r.Healthy = !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Verdict == Wrong })
}

// clockError is how much the rates of two clocks may differ: r of the protocol.
const clockError = 0.001

// NoPush is the time that a notification takes which does not arrive.
const NoPush = time.Duration(-1)

// Compute returns how long a takeover may take, with the slowest read, write and notification of the store; [NoPush] if
// standbys get no notification of a release.
func Compute(c regent.Config, read, write, push time.Duration) Takeover {
	renew := c.HeartbeatInterval
	if c.OwnLease {
		renew = c.RenewInterval
	}

	// The newest heartbeat that a standby has seen is at most a third of the lease old.
	seen := c.LeaseDuration / 3
	released := read + 2*write + push
	if push < 0 {
		released = read + 2*write + c.ElectionIntervalMax
	}

	lead := time.Duration(float64(c.LeaseDuration)*(1-2*clockError)) - c.StopTimeout
	return Takeover{
		ReleasedMs: milliseconds(released),
		SilentMs:   milliseconds(seen + c.LeaseDuration + c.TakeoverDelay + 2*read + 2*write),
		LeaseMs:    milliseconds(c.LeaseDuration),
		DelayMs:    milliseconds(c.TakeoverDelay),
		MarginMs:   milliseconds(lead - renew - write),
	}
}

func milliseconds(d time.Duration) float64 { return math.Round(float64(d.Microseconds())) / 1000 }

// quantile returns the value below which that part of the sorted durations is.
func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}
