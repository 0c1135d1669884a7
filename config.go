package regent

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Config is how a member behaves. Start from a profile, [Cluster], [Lock] or [Fleet], and change what differs; the zero
// Config is Cluster. The key in each comment is the name that errors and configuration files use.
type Config struct {
	LeaseDuration       time.Duration   // leaseDuration, W: how long a heartbeat counts for those who watch it
	OwnLease            bool            // ownLease: each seat is renewed by itself, not by the member's heartbeat
	RenewInterval       time.Duration   // renewInterval: how often a seat with a lease of its own is renewed
	RenewBackoff        []time.Duration // renewBackoff: the waits between the tries of a failing renewal
	StopTimeout         time.Duration   // stopTimeout, G: how long duties may take to stop
	ElectionInterval    time.Duration   // electionInterval: how often a standby looks at the seat, with no hint
	ElectionIntervalMax time.Duration   // electionIntervalMax: what electionInterval doubles to while nothing changes
	TakeoverDelay       time.Duration   // takeoverDelay: what a silent leader gets on top of its lease
	HeartbeatInterval   time.Duration   // heartbeatInterval: how often a member says that it lives
	WorkerTimeout       time.Duration   // workerTimeout: when a silent member counts as gone, where no seat hangs on it
	StartupJitterMin    time.Duration   // startupJitterMin: the least wait before the first request
	StartupJitterMax    time.Duration   // startupJitterMax: the longest wait before the first request
	Rank                Rank            // rank: who should win when several could
	Register            bool            // register: heartbeat as a member even where no seat and no rank needs it

	Ineligible bool              // eligible, if false: never campaigns; it still registers and watches
	Priority   int               // priority: the higher, the better, under rank priority
	Region     string            // region: where the member runs
	Labels     map[string]string // labels: what else it says of itself
	Preempt    bool              // preempt: ask a leader of lower rank to hand over

	EpochFencingOff        bool          // epochFencingEnabled, if false: fences refuse nothing
	EpochGracePeriod       time.Duration // epochGracePeriod: how long idempotent work of the last epoch is still taken
	ContentionDetectionOff bool          // contentionDetectionEnabled, if false: slow heartbeats are no event
	ContentionThreshold    float64       // contentionThreshold: how many heartbeat intervals are too long
}

// Cluster is for services whose members know each other: one heartbeat per process keeps all its seats.
func Cluster() Config {
	return Config{
		LeaseDuration:       6 * time.Second,
		RenewInterval:       1500 * time.Millisecond,
		RenewBackoff:        []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		StopTimeout:         time.Second,
		ElectionInterval:    5 * time.Second,
		ElectionIntervalMax: 5 * time.Second,
		TakeoverDelay:       time.Second,
		HeartbeatInterval:   1500 * time.Millisecond,
		WorkerTimeout:       6 * time.Second,
		Rank:                RankFirst,
		EpochGracePeriod:    5 * time.Second,
		ContentionThreshold: 2,
	}
}

// Lock is the classic lock: each seat is a lease of its own, which is what anybody else who looks at the key expects.
func Lock() Config {
	c := Cluster()
	c.LeaseDuration = 30 * time.Second
	c.OwnLease = true
	c.RenewInterval = 10 * time.Second
	c.StopTimeout = 5 * time.Second
	c.ElectionIntervalMax = time.Minute
	c.TakeoverDelay = 0
	c.HeartbeatInterval = 5 * time.Second
	c.WorkerTimeout = 20 * time.Second
	return c
}

// Fleet is for many workers that start at once over a store that charges per request.
func Fleet() Config {
	c := Cluster()
	c.LeaseDuration = 20 * time.Second
	c.RenewInterval = 5 * time.Second
	c.HeartbeatInterval = 5 * time.Second
	c.WorkerTimeout = 20 * time.Second
	c.StartupJitterMax = 5 * time.Second
	c.Rank = RankLexicographic
	return c
}

// trust is D of rule 1: how long a holder may count on a heartbeat, from before it was sent. A clock may be off by 0.1
// %, the holder's and the observer's, and duties need the stop timeout to end.
func trust(w, g time.Duration) time.Duration { return w - w/500 - g }

// maxDuration is the longest duration that makes sense: with a longer lease nobody would take over in time to matter.
const maxDuration = 24 * time.Hour

// minInterval is the shortest interval between two requests of a kind: 50 a second. A shorter one gives no faster
// takeover, since notifications shorten every wait, and is load for a store and for nobody else.
const minInterval = 20 * time.Millisecond

// ConfigError is a value that a rule forbids.
type ConfigError struct {
	Key   string
	Value string
	Rule  string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s %s: %s %s", e.Key, e.Value, e.Key, e.Rule)
}

// ValidateWriteInterval returns what would write one register more often than a store allows, each as a [ConfigError].
// The store refuses, or delays, what comes sooner than least after the write before: see [driver.WriteLimiter].
func (c Config) ValidateWriteInterval(least time.Duration) error {
	var errs []error
	check := func(key string, interval time.Duration) {
		if interval < least {
			errs = append(errs, &ConfigError{key, interval.String(), fmt.Sprintf(
				"must be at least %v: the store allows one write of a register in that time", least)})
		}
	}
	check("heartbeatInterval", c.HeartbeatInterval)
	if c.OwnLease {
		check("renewInterval", c.RenewInterval)
	}
	return errors.Join(errs...)
}

// Validate returns every violated rule, joined, each as a [ConfigError].
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key string, value any, format string, args ...any) {
		if !ok {
			errs = append(errs, &ConfigError{key, fmt.Sprint(value), fmt.Sprintf(format, args...)})
		}
	}
	check(c.LeaseDuration > 0, "leaseDuration", c.LeaseDuration, "must be positive (start from a profile: Cluster, Lock or Fleet)")
	check(c.StopTimeout > 0, "stopTimeout", c.StopTimeout, "must be positive")
	for _, short := range []struct {
		key   string
		value time.Duration
	}{
		{"heartbeatInterval", c.HeartbeatInterval},
		{"renewInterval", c.RenewInterval},
		{"electionInterval", c.ElectionInterval},
		{"workerTimeout", c.WorkerTimeout},
	} {
		check(short.value >= minInterval, short.key, short.value, "must be at least %v", minInterval)
	}
	check(c.ElectionIntervalMax >= c.ElectionInterval, "electionIntervalMax", c.ElectionIntervalMax,
		"must be >= electionInterval (%v)", c.ElectionInterval)
	check(c.TakeoverDelay >= 0, "takeoverDelay", c.TakeoverDelay, "cannot be negative")
	check(c.StartupJitterMin >= 0, "startupJitterMin", c.StartupJitterMin, "cannot be negative")
	check(c.StartupJitterMax >= c.StartupJitterMin, "startupJitterMax", c.StartupJitterMax,
		"must be >= startupJitterMin (%v)", c.StartupJitterMin)
	check(c.EpochGracePeriod >= 0, "epochGracePeriod", c.EpochGracePeriod, "cannot be negative")
	check(c.ContentionThreshold > 1 || c.ContentionDetectionOff, "contentionThreshold", c.ContentionThreshold, "must be above 1")
	for _, long := range []struct {
		key   string
		value time.Duration
	}{
		{"leaseDuration", c.LeaseDuration},
		{"renewInterval", c.RenewInterval},
		{"stopTimeout", c.StopTimeout},
		{"electionInterval", c.ElectionInterval},
		{"electionIntervalMax", c.ElectionIntervalMax},
		{"takeoverDelay", c.TakeoverDelay},
		{"heartbeatInterval", c.HeartbeatInterval},
		{"workerTimeout", c.WorkerTimeout},
		{"startupJitterMax", c.StartupJitterMax},
		{"epochGracePeriod", c.EpochGracePeriod},
	} {
		check(long.value <= maxDuration, long.key, long.value, "must be at most %v", maxDuration)
	}
	for _, d := range c.RenewBackoff {
		check(d >= minInterval, "renewBackoff", c.RenewBackoff, "must hold durations of at least %v only", minInterval)
		check(d <= maxDuration, "renewBackoff", c.RenewBackoff, "must hold durations of at most %v only", maxDuration)
	}
	if n := encodedSize(c.Labels); n > maxLabels {
		check(false, "labels", sizeText(n), "must take at most %d bytes as JSON", maxLabels)
	}
	if n := encodedSize(c.Region); n > maxRegion {
		check(false, "region", sizeText(n), "must take at most %d bytes as JSON", maxRegion)
	}
	if err := c.Rank.validate(); err != nil {
		errs = append(errs, err)
	}
	d := trust(c.LeaseDuration, c.StopTimeout)
	switch {
	case len(errs) > 0: // what follows compares values that make sense
	case c.OwnLease:
		check(d > c.RenewInterval, "leaseDuration", c.LeaseDuration,
			"less 0.2 %% and stopTimeout (%v) leaves %v, which must be above renewInterval (%v)", c.StopTimeout, d, c.RenewInterval)
		w := trust(c.WorkerTimeout, c.StopTimeout)
		check(w > c.HeartbeatInterval, "workerTimeout", c.WorkerTimeout,
			"less 0.2 %% and stopTimeout (%v) leaves %v, which must be above heartbeatInterval (%v)", c.StopTimeout, w, c.HeartbeatInterval)
	default:
		check(d > c.HeartbeatInterval, "leaseDuration", c.LeaseDuration,
			"less 0.2 %% and stopTimeout (%v) leaves %v, which must be above heartbeatInterval (%v)", c.StopTimeout, d, c.HeartbeatInterval)
		check(c.RenewInterval == c.HeartbeatInterval, "renewInterval", c.RenewInterval,
			"must equal heartbeatInterval (%v), which keeps the seats unless ownLease is set", c.HeartbeatInterval)
	}
	return errors.Join(errs...)
}

// orDefault returns the cluster profile for the zero Config, and else a copy that its caller can no longer change.
func (c Config) orDefault() Config {
	if reflect.DeepEqual(c, Config{}) {
		return Cluster()
	}
	c.RenewBackoff = slices.Clone(c.RenewBackoff)
	c.Labels = maps.Clone(c.Labels)
	return c
}

// registers reports whether the member writes a register of its own.
func (c Config) registers() bool { return !c.OwnLease || c.Register || c.Rank != RankFirst }
