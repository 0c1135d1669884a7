package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Options is what a monitor needs, and how it judges. What is zero has its default.
type Options struct {
	// Self is the ID of the member that this monitor is a duty of.
	Self string
	// Members lists all registers: [regent.Member.Members].
	Members func(context.Context) ([]regent.MemberView, error)
	// Probe asks a member how it is. It must return soon after its context ends. Nil asks nobody.
	Probe func(context.Context, regent.MemberView) (Report, error)
	// Past returns the ended terms of the election, the last one last, as [regent.Member.View] has them. It tells a predecessor that died from
	// one that left. Nil tells nothing.
	Past func() []driver.Past
	// Changed is a hint that registers have changed hands. Nil is none.
	Changed <-chan driver.Record
	// Emit takes the events, in order, without a sequence number. It must not block. Nil drops them.
	Emit func(regent.Event)

	Interval        time.Duration // from one check to the next, with no hint and no doubt: 30s
	Recheck         time.Duration // before a second opinion, and the least time between two checks: 1s
	ListTimeout     time.Duration // for a listing: 5s
	ProbeTimeout    time.Duration // for each probe: 2s
	Parallel        int           // probes at once: 16
	DegradedLatency time.Duration // a slower answer is a sign of trouble: 500ms
	// HeartbeatInterval is how often members heartbeat. One is late after two, where a quarter of its own lease is not longer.
	HeartbeatInterval time.Duration
	EpochLag          time.Duration // how long a member may take to notice a new term: 90s, since a standby may look once a minute
	GoneAfter         time.Duration // silence after which a member is gone: 10m
	KeepGone          time.Duration // how long one that is gone stays in the list: 1h
}

// orDefault fills in what is zero.
func (o Options) orDefault() Options {
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

// validate returns every violated rule, joined, each that is about a value as a [regent.ConfigError].
func (o Options) validate() error {
	var errs []error
	check := func(ok bool, key string, value any, rule string) {
		if !ok {
			errs = append(errs, &regent.ConfigError{Key: key, Value: fmt.Sprint(value), Rule: rule})
		}
	}
	if o.Self == "" {
		errs = append(errs, errors.New("cluster health has no Self: set it to the member's ID"))
	}
	if o.Members == nil {
		errs = append(errs, errors.New("cluster health has no Members: set it to what lists them"))
	}
	check(o.Interval > 0, "interval", o.Interval, "must be positive")
	check(o.Recheck > 0 && o.Recheck <= o.Interval, "recheck", o.Recheck, fmt.Sprintf("must be positive and <= interval (%v)", o.Interval))
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
