// Package schedule computes due times from a definition alone, so that every leader finds the same slots at the same
// times, whatever it has seen before.
//
// [Every] makes a schedule with an even interval. [ParseCron] makes one of a cron expression in a time zone. A [Slot]
// is one due time with the name of its poll; its text is the ID under which leaders and workers know it.
package schedule

import "time"

// Schedule computes due times.
type Schedule interface {
	// Next returns the first due time after the given time, or the zero time if there is none.
	Next(after time.Time) time.Time
}

// yearMax is the last year with due times: RFC 3339 cannot express a later year.
const yearMax = 9999

// MaxCount is the most due times that [Count] steps through: a week of minutes.
const MaxCount = 10_080

// Period returns the time between the next two due times after now, or 0 if there are not two.
func Period(s Schedule, now time.Time) time.Duration {
	if i, ok := s.(interval); ok {
		return i.period()
	}

	first := s.Next(now)
	if first.IsZero() {
		return 0
	}

	second := s.Next(first)
	if second.IsZero() {
		return 0
	}

	return second.Sub(first)
}

// Count returns the number of due times from first, which must be one, to before, which is not counted. For a cron
// schedule it stops at MaxCount.
func Count(s Schedule, first, before time.Time) uint64 {
	if !first.Before(before) {
		return 0
	}
	if i, ok := s.(interval); ok {
		return uint64((before.Sub(first)-1)/i.period()) + 1
	}

	n := uint64(0)
	for t := first; !t.IsZero() && t.Before(before) && n < MaxCount; t = s.Next(t) {
		n++
	}

	return n
}

// Latest returns the last due time up to now. There must be one.
func Latest(s Schedule, now time.Time) time.Time {
	for back := time.Minute; ; back *= 2 {
		due := s.Next(now.Add(-back))
		if due.After(now) {
			continue
		}
		for next := due; !next.IsZero() && !next.After(now); next = s.Next(next) {
			due = next
		}

		return due
	}
}
