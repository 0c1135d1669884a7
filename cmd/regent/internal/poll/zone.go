package poll

import (
	"errors"
	"time"

	_ "time/tzdata" // where the system has none, as in most containers
)

const zoneRule = "must be the name of a time zone, such as Europe/Berlin or UTC"

// loadZone returns a time zone, UTC for no name. Local would be another one on every machine.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("the zone of the machine is not that of the cluster")
	}
	return time.LoadLocation(name)
}

// What a clock shows is kept as the Unix time at which a clock in UTC would show it.

// shown returns what the clock shows at a time.
func shown(t time.Time) int64 {
	_, offset := t.Zone()
	return t.Unix() + int64(offset)
}

// reached returns the first time at which the clock of a zone shows what is given, or more: if the clock is put forward over it, the moment after;
// if the clock is put back and shows it twice, the first.
func reached(clock int64, zone *time.Location) time.Time {
	const more = 30 * 3600 // than any zone is ahead of UTC
	for t := time.Unix(clock-more, 0).In(zone); ; {
		_, offset := t.Zone()
		at := time.Unix(clock-int64(offset), 0).In(zone)
		if at.Before(t) {
			at = t // it fell into the gap between the last offset and this one
		}
		end := steadyUntil(t)
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end
	}
}

// steadyUntil returns a time up to which the offset of t's zone stays as it is, or the zero time if it does for ever. [time.Time.ZoneBounds] tells; but
// on the last day of a leap year it may answer with a time that is over (golang/go#81583), and no clock is changed on that day.
func steadyUntil(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(time.Hour)
	}
	return end
}
