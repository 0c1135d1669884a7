package poll

import "time"

// calendar says which minutes of the calendar match, one bit for each value of a field.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	eitherDay                              bool // a day matches by its number or by its weekday; else by both
}

// farthest is after how many days at the latest every date that there is has come, weekday included: 40 years, when a leap year is left out.
const farthest = 41 * 366

// next returns the first matching minute from a time on, as shown on a clock; false if there is none.
func (c calendar) next(clock int64) (int64, bool) {
	t := time.Unix(clock, 0).UTC()
	if s := t.Second(); s > 0 {
		t = t.Add(time.Duration(60-s) * time.Second)
	}
	year, month, day := t.Date()
	minute := t.Hour()*60 + t.Minute()
	for range farthest {
		midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		year, month, day = midnight.Date() // of the next month, if day was beyond this one
		if year > yearMax {
			break
		}
		if c.months>>month&1 == 0 {
			month, day, minute = month+1, 1, 0
			continue
		}
		if c.matches(midnight) {
			for ; minute < 24*60; minute++ {
				if c.hours>>(minute/60)&1 == 0 {
					minute += 59 - minute%60
					continue
				}
				if c.minutes>>(minute%60)&1 == 1 {
					return midnight.Unix() + int64(minute)*60, true
				}
			}
		}
		day, minute = day+1, 0
	}
	return 0, false
}

// matches reports whether a day does, whose month does.
func (c calendar) matches(t time.Time) bool {
	day, weekday := c.days>>t.Day()&1 == 1, c.weekdays>>t.Weekday()&1 == 1
	if c.eitherDay {
		return day || weekday
	}
	return day && weekday
}
