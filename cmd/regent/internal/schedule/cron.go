package schedule

import (
	"strings"
	"time"
)

// cron is a schedule by the clock and calendar of a time zone.
//
// If its hour field begins with *, it is due in every matching minute that the clock shows. When the clock is set back,
// an hourly poll runs in both hours with the same name. When the clock is set forward, the skipped hours have no runs.
//
// Otherwise the expression names hours, and each matching minute is due once. If the clock shows a minute twice, the
// first one counts. If the clock skips it, the run is due at the moment of the change, once for all skipped minutes.
type cron struct {
	calendar
	everyHour bool
	zone      *time.Location
}

// ParseCron returns the schedule of a cron expression in a time zone. The error is the rule that the expression breaks.
func ParseCron(expression string, zone *time.Location) (Schedule, error) {
	fields, err := splitCron(expression)
	if err != nil {
		return nil, err
	}

	var sets [5]uint64
	for i, field := range cronFields() {
		if sets[i], err = field.parse(fields[i]); err != nil {
			return nil, err
		}
	}

	star := func(i int) bool { return strings.HasPrefix(fields[i], "*") }
	c := &cron{everyHour: star(1), zone: zone, calendar: calendar{
		minutes:   sets[0],
		hours:     sets[1],
		days:      sets[2],
		months:    sets[3],
		weekdays:  sets[4]&0x7f | sets[4]>>7,
		eitherDay: !star(2) && !star(4), // as in Vixie's cron, where */2 is a star too
	}}
	if _, ok := c.next(0); !ok {
		return nil, errNeverDue
	}

	return c, nil
}

// Next implements [Schedule].
func (c *cron) Next(after time.Time) time.Time {
	if after.Year() > yearMax {
		return time.Time{}
	}

	after = after.In(c.zone)
	if c.everyHour {
		return c.nextShown(after)
	}

	for clock := reading(after) + 1; ; clock++ { // every earlier reading has been reached
		var ok bool
		if clock, ok = c.next(clock); !ok {
			return time.Time{}
		}
		if at := reached(clock, c.zone); at.After(after) {
			return at.UTC()
		}
	}
}

// nextShown returns the first time after the given one at which the clock shows a matching minute. It steps through the
// periods in which the offset of the zone does not change.
func (c *cron) nextShown(after time.Time) time.Time {
	t := after
	from := reading(after) + 1
	for {
		_, offset := t.Zone()
		end := offsetEnd(t)
		clock, ok := c.next(from)
		at := time.Unix(clock-int64(offset), 0)

		switch {
		case ok && (end.IsZero() || at.Before(end)):
			return at.UTC()
		case end.IsZero() || end.Year() > yearMax:
			return time.Time{}
		}

		t = end
		from = reading(end)
	}
}
