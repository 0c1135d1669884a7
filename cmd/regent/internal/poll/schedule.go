package poll

import (
	"hash/fnv"
	"time"
)

// Schedule says when a poll is due.
type Schedule interface {
	// Next returns the first time after the given one at which the poll is due, or the zero time if there is none.
	Next(after time.Time) time.Time
}

// yearMax is the last year in which anything is due: no later time can be written down.
const yearMax = 9999

// Schedule returns when the poll is due, which depends on its name, interval, cron and time zone alone.
func (p Poll) Schedule() (Schedule, error) {
	f := &faults{key: keyOf(p.Name)}
	if p.Cron == "" {
		f.check(p.Interval >= Duration(time.Millisecond), "interval", p.Interval, "must be positive, unless there is cron")
		if len(f.errs) > 0 {
			return nil, f.errs[0]
		}
		return newInterval(p.Name, time.Duration(p.Interval)), nil
	}
	c, err := parseCron(p.Cron)
	if err != nil {
		f.check(false, "cron", p.Cron, "%v", err)
		return nil, f.errs[0]
	}
	if c.zone, err = loadZone(p.TimeZone); err != nil {
		f.check(false, "timeZone", p.TimeZone, zoneRule)
		return nil, f.errs[0]
	}
	return c, nil
}

// interval is due at every multiple of itself on the Unix time line, moved by an offset. All in milliseconds.
type interval struct{ every, offset int64 }

// newInterval takes the offset from the name: polls of the same interval are spread over it, and each leader spreads them alike.
func newInterval(name string, every time.Duration) interval {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // cannot fail
	ms := every.Milliseconds()
	return interval{ms, int64(mix(h.Sum64()) % uint64(ms))}
}

// mix spreads what differs in few bits over all of them: the low bits of FNV alone follow the last letters of the name.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (i interval) Next(after time.Time) time.Time {
	if after.Year() > yearMax {
		return time.Time{}
	}
	passed := after.UnixMilli() - i.offset
	n := passed / i.every
	if passed%i.every < 0 { // before 1970 division rounds the wrong way
		n--
	}
	next := time.UnixMilli(i.offset + (n+1)*i.every).UTC()
	if next.Year() > yearMax {
		return time.Time{}
	}
	return next
}
