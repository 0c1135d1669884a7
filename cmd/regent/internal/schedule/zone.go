package schedule

import (
	"errors"
	"time"

	_ "time/tzdata" // for systems without a time zone database, such as most containers
)

// errZone is the rule that the name of a time zone must keep.
var errZone = errors.New("must be the name of a time zone, such as Europe/Berlin or UTC")

// LoadZone returns the time zone with a name, and UTC for an empty name. Local is refused, since it differs from
// machine to machine. The error is the rule that the name breaks.
func LoadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errZone
	}

	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, errZone
	}

	return zone, nil
}

// reading returns what a clock in t's zone shows at t, as the Unix time at which a clock in UTC shows the same.
func reading(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

// reached returns the first time at which the clock of a zone shows the given reading or a later one. If the clock is
// set forward over the reading, that is the moment of the change. If the clock is set back and shows the reading twice,
// it is the first time.
func reached(clock int64, zone *time.Location) time.Time {
	const ahead = 30 * 3600 // seconds: more than any zone is ahead of UTC
	for t := time.Unix(clock-ahead, 0).In(zone); ; {
		_, offset := t.Zone()
		at := time.Unix(clock-int64(offset), 0).In(zone)
		if at.Before(t) {
			at = t // the reading is in the gap between the last offset and this one
		}

		end := offsetEnd(t)
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end
	}
}

// offsetEnd returns a time up to which the offset of t's zone does not change, or the zero time if it never does. It
// wraps [time.Time.ZoneBounds], which may return a time in the past on the last day of a leap year (golang/go#81583).
// No zone changes its offset on that day.
func offsetEnd(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(time.Hour)
	}

	return end
}
