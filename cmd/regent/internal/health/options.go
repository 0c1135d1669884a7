package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Options configures a Monitor. Self and NewRoster are required; other zero values have defaults.
type Options struct {
	// Self is the ID of the member whose duty this monitor is.
	Self string
	// NewRoster returns the roster of a term, which lists the members: [regent.Member.NewRoster].
	NewRoster func() *regent.Roster
	// OnMembers is called with the members of each listing. Nil for none.
	OnMembers func([]regent.MemberState)
	// Probe asks a member for its health. It must return soon after its context ends. With nil, no member is probed.
	Probe func(context.Context, regent.MemberView) (Report, error)
	// Past returns the ended terms of the election, the last one last, as [regent.Member.View] has them. It
	// distinguishes a former leader that died from one that left. Nil if they are not known.
	Past func() []driver.Past
	// Changed receives when registers have changed hands: the next check is then made at once. Nil for none.
	Changed <-chan driver.Record
	// Emit receives the events, in order, without a sequence number. It must not block. Nil drops them.
	Emit func(regent.Event)

	Interval        time.Duration // from one check to the next: 30s
	Recheck         time.Duration // before a finding is checked again, and the least time between two checks: 1s
	ListTimeout     time.Duration // for a listing: 5s
	ProbeTimeout    time.Duration // for each probe: 2s
	Parallel        int           // probes at once: 16
	DegradedLatency time.Duration // a slower answer makes a member degraded: 500ms
	// HeartbeatInterval is the time between two heartbeats of a member. A heartbeat is late after two of them, or after
	// half the lease of the member if that is longer.
	HeartbeatInterval time.Duration
	// how long a member may know only an older epoch: 90s, since a standby may poll once a minute
	EpochLag  time.Duration
	GoneAfter time.Duration // silence after which a member is gone: 10m
	KeepGone  time.Duration // how long a member that is gone stays in the list: 1h
}

// withDefaults returns the options with defaults for zero values.
func (o Options) withDefaults() Options {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&o.Interval, 30 * time.Second},
		{&o.Recheck, time.Second},
		{&o.ListTimeout, 5 * time.Second},
		{&o.ProbeTimeout, 2 * time.Second},
		{&o.DegradedLatency, 500 * time.Millisecond},
		{&o.EpochLag, 90 * time.Second},
		{&o.GoneAfter, 10 * time.Minute},
		{&o.KeepGone, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.or
		}
	}

	if o.Parallel == 0 {
		o.Parallel = 16
	}

	return o
}

// validate returns every violated rule, joined. A rule about a value is a [regent.ConfigError].
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, key string, value any, rule string) {
		if !ok {
			errs = append(errs, &regent.ConfigError{Key: key, Value: fmt.Sprint(value), Rule: rule})
		}
	}

	if o.Self == "" {
		errs = append(errs, errors.New("there is no Self: set it to the ID of the member"))
	}
	if o.NewRoster == nil {
		errs = append(errs, errors.New("there is no NewRoster: set it to that of the member"))
	}

	check(o.Interval > 0, "interval", o.Interval, "must be positive")
	check(o.Recheck > 0 && o.Recheck <= o.Interval, "recheck", o.Recheck,
		fmt.Sprintf("must be positive and <= interval (%v)", o.Interval))
	check(o.ListTimeout > 0, "listTimeout", o.ListTimeout, "must be positive")
	check(o.ProbeTimeout > 0, "probeTimeout", o.ProbeTimeout, "must be positive")
	check(o.Parallel > 0, "parallel", o.Parallel, "must be positive")
	check(o.DegradedLatency > 0 && o.DegradedLatency <= o.ProbeTimeout, "degradedLatency", o.DegradedLatency,
		fmt.Sprintf("must be positive and <= probeTimeout (%v), or no answer could be too slow", o.ProbeTimeout))
	check(o.HeartbeatInterval >= 0, "heartbeatInterval", o.HeartbeatInterval, "cannot be negative")
	check(o.EpochLag > 0, "epochLag", o.EpochLag, "must be positive")
	check(o.GoneAfter > 0, "goneAfter", o.GoneAfter, "must be positive")
	check(o.KeepGone > 0, "keepGone", o.KeepGone, "must be positive")

	return errors.Join(errs...)
}
