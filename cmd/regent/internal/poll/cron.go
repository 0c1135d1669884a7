package poll

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is a schedule on the clock and calendar of a time zone.
//
// If its hour field begins with *, it is due in every minute that matches, as often as the clock shows it: when the clock is put back, hourly
// polls run in both of the hours that are called the same, and when it is put forward they miss none that passes.
//
// Otherwise it names hours, and each minute that matches is due once: in the first of two that are called the same; and if the clock
// is put forward over it, in the moment after, together with all others that fell into the gap.
type cron struct {
	calendar
	everyHour bool
	zone      *time.Location
}

const (
	cronMax  = 200
	cronRule = "must be five fields, minute hour day month weekday, such as */5 * * * *, or one of @hourly, @daily, @weekly, @monthly and @yearly"
)

// cronField is what a field may hold.
type cronField struct {
	name        string
	least, most int
	names       []string // of the values from least on
}

func cronFields() [5]cronField {
	return [5]cronField{
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day", 1, 31, nil},
		{"month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
		{"weekday", 0, 7, strings.Fields("sun mon tue wed thu fri sat")},
	}
}

// parseCron reads an expression. An error is the rule that it breaks.
func parseCron(s string) (*cron, error) {
	if len(s) > cronMax {
		return nil, fmt.Errorf("must be at most %d bytes", cronMax)
	}
	switch short := map[string]string{
		"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
	}; {
	case short[strings.TrimSpace(s)] != "":
		s = short[strings.TrimSpace(s)]
	case strings.HasPrefix(s, "@every"):
		return nil, errors.New("must not be @every: use interval instead")
	case strings.Contains(s, "TZ="):
		return nil, errors.New("must not name a time zone: use timeZone")
	}
	parts := strings.Fields(s)
	if len(parts) != 5 {
		return nil, errors.New(cronRule)
	}
	var sets [5]uint64
	for i, field := range cronFields() {
		var err error
		if sets[i], err = field.parse(parts[i]); err != nil {
			return nil, err
		}
	}
	star := func(i int) bool { return strings.HasPrefix(parts[i], "*") }
	c := &cron{everyHour: star(1), zone: time.UTC, calendar: calendar{
		minutes: sets[0], hours: sets[1], days: sets[2], months: sets[3], weekdays: sets[4]&0x7f | sets[4]>>7,
		eitherDay: !star(2) && !star(4), // as Vixie's cron has it, for which */2 is a star too
	}}
	if _, ok := c.next(0); !ok {
		return nil, errors.New("must name a day that there is: it is never due")
	}
	return c, nil
}

// parse reads a list of values, ranges and steps.
func (f cronField) parse(s string) (set uint64, err error) {
	for part := range strings.SplitSeq(s, ",") {
		values, step, stepped := strings.Cut(part, "/")
		from, to, err := f.span(values, stepped)
		if err != nil {
			return 0, err
		}
		by := 1
		if stepped {
			if by, err = strconv.Atoi(step); err != nil || by < 1 || by > f.most || !digits(step) {
				return 0, fmt.Errorf("must have a step of 1 to %d after the slash in its field %s, not %q", f.most, f.name, step)
			}
		}
		for v := from; v <= to; v += by {
			set |= 1 << v
		}
	}
	return set, nil
}

// span reads a star, a value, or a range. A value with a step goes to the end.
func (f cronField) span(s string, stepped bool) (from, to int, err error) {
	if s == "*" {
		if f.name == "weekday" {
			return 0, 6, nil // Sunday once, for the steps
		}
		return f.least, f.most, nil
	}
	first, last, ranged := strings.Cut(s, "-")
	if from, err = f.value(first); err != nil {
		return 0, 0, err
	}
	switch {
	case ranged:
		if to, err = f.value(last); err != nil {
			return 0, 0, err
		}
		if f.name == "weekday" && to == 0 && from > 0 {
			to = 7 // fri-sun
		}
	case stepped:
		to = f.most
		if f.name == "weekday" {
			to = max(from, 6)
		}
	default:
		to = from
	}
	if from > to {
		return 0, 0, fmt.Errorf("must have ranges that go up in its field %s, not %q", f.name, s)
	}
	return from, to, nil
}

func (f cronField) value(s string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(s, name) {
			return f.least + i, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < f.least || n > f.most || !digits(s) {
		names := ""
		if len(f.names) > 0 {
			names = " or " + f.names[0] + " to " + f.names[len(f.names)-1]
		}
		return 0, fmt.Errorf("must have %d to %d%s in its field %s, not %q", f.least, f.most, names, f.name, s)
	}
	return n, nil
}

// digits reports whether a number is written without a sign.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (c *cron) Next(after time.Time) time.Time {
	if after.Year() > yearMax {
		return time.Time{}
	}
	after = after.In(c.zone)
	if c.everyHour {
		return c.nextShown(after)
	}
	for clock := shown(after) + 1; ; clock++ { // whatever the clock showed before has been reached
		var ok bool
		if clock, ok = c.next(clock); !ok {
			return time.Time{}
		}
		if at := reached(clock, c.zone); at.After(after) {
			return at.UTC()
		}
	}
}

// nextShown goes through the stretches of time in which the zone's offset stays the same.
func (c *cron) nextShown(after time.Time) time.Time {
	for t, from := after, shown(after)+1; ; {
		_, offset := t.Zone()
		end := steadyUntil(t)
		clock, ok := c.next(from)
		at := time.Unix(clock-int64(offset), 0)
		switch {
		case ok && (end.IsZero() || at.Before(end)):
			return at.UTC()
		case end.IsZero() || end.Year() > yearMax:
			return time.Time{}
		}
		t, from = end, shown(end)
	}
}
