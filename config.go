package regent

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Config configures a member. Start from a profile, [Cluster], [Lock] or [Fleet], and change what differs. The zero
// value is the profile Cluster. Each comment begins with the key by which errors and configuration files name the
// field.
type Config struct {
	LeaseDuration       time.Duration   // leaseDuration, W: how long a heartbeat counts for those who watch it
	OwnLease            bool            // ownLease: each election has a lease of its own, not the member's heartbeat
	RenewInterval       time.Duration   // renewInterval: how often a lease of its own is renewed
	RenewBackoff        []time.Duration // renewBackoff: the waits between the tries of a failing renewal
	StopTimeout         time.Duration   // stopTimeout, G: how long duties may take to stop
	ElectionInterval    time.Duration   // electionInterval: how often a standby reads the election
	ElectionIntervalMax time.Duration   // electionIntervalMax: what electionInterval doubles to while nothing changes
	TakeoverDelay       time.Duration   // takeoverDelay: how long a standby waits after the leader's lease has expired
	HeartbeatInterval   time.Duration   // heartbeatInterval: how often a member renews its heartbeat
	WorkerTimeout       time.Duration   // workerTimeout: the lease of a member's heartbeat that no election depends on
	StartupJitterMin    time.Duration   // startupJitterMin: the shortest wait before the first request
	StartupJitterMax    time.Duration   // startupJitterMax: the longest wait before the first request
	Rank                Rank            // rank: which of several candidates tries first
	Register            bool            // register: heartbeat as a member even where no election and no rank needs it

	Ineligible bool              // eligible, if false: never campaigns; it still registers and watches
	Priority   int               // priority: the higher, the better, under rank priority
	Region     string            // region: where the member runs
	Labels     map[string]string // labels: published with every heartbeat
	Preempt    bool              // preempt: ask a leader of lower rank to hand over

	EpochFencingOff        bool          // epochFencingEnabled, if false: fences refuse nothing
	EpochGracePeriod       time.Duration // epochGracePeriod: how long idempotent work of the last epoch is accepted
	ContentionDetectionOff bool          // contentionDetectionEnabled, if false: slow heartbeats are no event
	ContentionThreshold    float64       // contentionThreshold: how many heartbeat intervals are too long
}

// Cluster returns the profile for services whose members know each other: one heartbeat per process renews all
// elections that it leads.
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

// Lock returns the profile of the classic lock: each election has a lease of its own, as other users of the key expect.
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

// Fleet returns the profile for many workers that start at once, on a store that charges per request.
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

// trust returns D of rule 1: how long a holder may rely on a heartbeat, from before it was sent. The rates of the
// clocks of the holder and of the observer may each be off by 0.1 %, and duties need the stop timeout to end.
func trust(w, g time.Duration) time.Duration { return w - w/500 - g }

// maxDuration is the longest duration that is accepted. With a longer lease nobody would take over in time to matter.
const maxDuration = 24 * time.Hour

// minInterval is the shortest interval between two requests of a kind: 50 requests a second. A shorter interval is load
// for the store and gives no faster takeover, since notifications shorten every wait.
const minInterval = 20 * time.Millisecond

// ConfigError reports a value that breaks a rule.
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

// Validate returns all rules that the configuration breaks, joined, each as a [ConfigError].
func (c Config) Validate() error {
	var errs ruleErrors
	c.validateDurations(&errs)
	c.validateInfo(&errs)
	if len(errs) == 0 { // the rules that follow compare values that make sense
		c.validateLease(&errs)
	}
	return errors.Join(errs...)
}

// ruleErrors are the rules that a configuration breaks.
type ruleErrors []error

func (e *ruleErrors) check(ok bool, key string, value any, format string, args ...any) {
	if !ok {
		*e = append(*e, &ConfigError{key, fmt.Sprint(value), fmt.Sprintf(format, args...)})
	}
}

// keyed is a duration with its key.
type keyed struct {
	key   string
	value time.Duration
}

// validateDurations checks each duration by itself.
func (c Config) validateDurations(errs *ruleErrors) {
	check := errs.check
	check(c.LeaseDuration > 0, "leaseDuration", c.LeaseDuration,
		"must be positive (start from a profile: Cluster, Lock or Fleet)")
	check(c.LeaseDuration <= 0 || c.LeaseDuration >= minInterval, "leaseDuration", c.LeaseDuration,
		"must be at least %v (a number without a unit is in milliseconds)", minInterval)
	check(c.StopTimeout > 0, "stopTimeout", c.StopTimeout, "must be positive")
	for _, short := range []keyed{
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

	for _, long := range []keyed{
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
}

// validateInfo checks what is no duration.
func (c Config) validateInfo(errs *ruleErrors) {
	errs.check(c.ContentionThreshold > 1 || c.ContentionDetectionOff, "contentionThreshold", c.ContentionThreshold,
		"must be above 1")
	labels := encodedSize(c.Labels)
	errs.check(labels <= maxLabels, "labels", sizeText(labels), "must take at most %d bytes as JSON", maxLabels)
	region := encodedSize(c.Region)
	errs.check(region <= maxRegion, "region", sizeText(region), "must take at most %d bytes as JSON", maxRegion)

	if err := c.Rank.validate(); err != nil {
		*errs = append(*errs, err)
	}
}

// validateLease checks that a lease can be renewed in time (rule 1).
func (c Config) validateLease(errs *ruleErrors) {
	const leaves = "less 0.2 %% and stopTimeout (%v) leaves %v, which must be above "
	d := trust(c.LeaseDuration, c.StopTimeout)
	if !c.OwnLease {
		errs.check(d > c.HeartbeatInterval, "leaseDuration", c.LeaseDuration,
			leaves+"heartbeatInterval (%v)", c.StopTimeout, d, c.HeartbeatInterval)
		errs.check(c.RenewInterval == c.HeartbeatInterval, "renewInterval", c.RenewInterval,
			"must equal heartbeatInterval (%v), which renews all elections unless ownLease is set", c.HeartbeatInterval)
		return
	}

	errs.check(d > c.RenewInterval, "leaseDuration", c.LeaseDuration,
		leaves+"renewInterval (%v)", c.StopTimeout, d, c.RenewInterval)
	w := trust(c.WorkerTimeout, c.StopTimeout)
	errs.check(w > c.HeartbeatInterval, "workerTimeout", c.WorkerTimeout,
		leaves+"heartbeatInterval (%v)", c.StopTimeout, w, c.HeartbeatInterval)
}

// orDefault returns the profile Cluster for the zero Config, and a copy of any other.
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
