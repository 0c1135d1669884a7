package schedule

import (
	"hash/fnv"
	"time"
)

// interval is due at every multiple of its length on the Unix time line, shifted by an offset. Both are milliseconds.
type interval struct {
	every  int64
	offset int64
}

// Every returns a schedule with an even interval, which must be at least a millisecond. The offset is derived from the
// name: polls with the same interval are spread over it, and every leader spreads them alike.
func Every(name string, every time.Duration) Schedule {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // cannot fail
	ms := every.Milliseconds()

	return interval{every: ms, offset: int64(mix(h.Sum64()) % uint64(ms))}
}

// mix spreads a difference in few bits over all bits: the low bits of FNV alone follow the last letters of the name.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Next implements [Schedule].
func (i interval) Next(after time.Time) time.Time {
	if after.Year() > yearMax {
		return time.Time{}
	}

	passed := after.UnixMilli() - i.offset
	n := passed / i.every
	if passed%i.every < 0 { // before 1970 division rounds towards the future
		n--
	}

	next := time.UnixMilli(i.offset + (n+1)*i.every).UTC()
	if next.Year() > yearMax {
		return time.Time{}
	}

	return next
}

// period returns the length of the interval.
func (i interval) period() time.Duration { return time.Duration(i.every) * time.Millisecond }
