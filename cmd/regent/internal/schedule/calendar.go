package schedule

import "time"

// calendar is the set of minutes that a cron expression matches, with one bit for each value of a field.
type calendar struct {
	minutes   uint64
	hours     uint64
	days      uint64
	months    uint64
	weekdays  uint64
	eitherDay bool // a date matches by its day of the month or by its weekday; otherwise by both
}

// maxDays is the number of days in which every possible date occurs, weekday included: 40 years, if a leap year is left
// out.
const maxDays = 41 * 366

const minutesOfDay = 24 * 60

// next returns the first matching minute at or after a clock reading (see [reading]), and false if there is none.
func (c calendar) next(clock int64) (int64, bool) {
	t := time.Unix(clock, 0).UTC()
	if s := t.Second(); s > 0 {
		t = t.Add(time.Duration(60-s) * time.Second)
	}

	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	minute := t.Hour()*60 + t.Minute()
	for range maxDays {
		if day.Year() > yearMax {
			break
		}

		if c.months>>day.Month()&1 == 0 {
			day = time.Date(day.Year(), day.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			minute = 0
			continue
		}
		if c.matches(day) {
			if m := c.nextMinute(minute); m < minutesOfDay {
				return day.Unix() + int64(m)*60, true
			}
		}

		day = time.Date(day.Year(), day.Month(), day.Day()+1, 0, 0, 0, 0, time.UTC)
		minute = 0
	}

	return 0, false
}

// nextMinute returns the first matching minute of a day from the given one on, or minutesOfDay if there is none.
func (c calendar) nextMinute(minute int) int {
	for minute < minutesOfDay {
		switch {
		case c.hours>>(minute/60)&1 == 0:
			minute += 60 - minute%60
		case c.minutes>>(minute%60)&1 == 0:
			minute++
		default:
			return minute
		}
	}

	return minutesOfDay
}

// matches reports whether a date in a matching month matches.
func (c calendar) matches(t time.Time) bool {
	day := c.days>>t.Day()&1 == 1
	weekday := c.weekdays>>t.Weekday()&1 == 1
	if c.eitherDay {
		return day || weekday
	}

	return day && weekday
}
