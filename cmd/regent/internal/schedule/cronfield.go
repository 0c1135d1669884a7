package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// cronMax is the most bytes of an expression.
const cronMax = 200

// Rules that a cron expression must keep, besides those of its fields.
var (
	errFields = errors.New("must be five fields, minute hour day month weekday, such as */5 * * * *, " +
		"or one of @hourly, @daily, @weekly, @monthly and @yearly")
	errEvery    = errors.New("must not be @every: use interval instead")
	errCronZone = errors.New("must not name a time zone: use timeZone")
	errNeverDue = errors.New("must match an existing date: it is never due")
)

// splitCron returns the five fields of an expression, which may be a name such as @daily.
func splitCron(s string) ([]string, error) {
	if len(s) > cronMax {
		return nil, fmt.Errorf("must be at most %d bytes", cronMax)
	}

	switch full := cronName(strings.TrimSpace(s)); {
	case full != "":
		s = full
	case strings.HasPrefix(s, "@every"):
		return nil, errEvery
	case strings.Contains(s, "TZ="):
		return nil, errCronZone
	}

	fields := strings.Fields(s)
	if len(fields) != 5 {
		return nil, errFields
	}

	return fields, nil
}

// cronName returns the expression with a name, or an empty string if there is none.
func cronName(name string) string {
	switch name {
	case "@hourly":
		return "0 * * * *"
	case "@daily", "@midnight":
		return "0 0 * * *"
	case "@weekly":
		return "0 0 * * 0"
	case "@monthly":
		return "0 0 1 * *"
	case "@yearly", "@annually":
		return "0 0 1 1 *"
	}

	return ""
}

// cronField is the syntax of one field.
type cronField struct {
	name  string
	least int
	most  int
	names []string // of the values from least on
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

// parse reads a list of values, ranges and steps, and returns the set of values with one bit for each.
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
				return 0, fmt.Errorf("must have a step of 1 to %d after the slash in its field %s, not %q",
					f.most, f.name, step)
			}
		}

		for v := from; v <= to; v += by {
			set |= 1 << v
		}
	}

	return set, nil
}

// span reads a star, a value, or a range. A value with a step extends to the end of the field.
func (f cronField) span(s string, stepped bool) (from, to int, err error) {
	weekday := f.name == "weekday"
	if s == "*" {
		if weekday {
			return 0, 6, nil // Sunday once, so that steps do not count it twice
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
		if weekday && to == 0 && from > 0 {
			to = 7 // as in fri-sun
		}
	case stepped && weekday:
		to = max(from, 6)
	case stepped:
		to = f.most
	default:
		to = from
	}

	if from > to {
		return 0, 0, fmt.Errorf("must have ranges that go up in its field %s, not %q", f.name, s)
	}

	return from, to, nil
}

// value reads a number or a name.
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
