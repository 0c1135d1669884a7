package regent

import "time"

// Clock is the time by which a member counts. Only tests need to set one: to give each member a rate of its own.
type Clock interface {
	// Now is the time since some fixed instant. It never goes back, and counts while the machine is suspended.
	Now() time.Duration
	// NewTimer is [time.NewTimer] on this clock.
	NewTimer(d time.Duration) *time.Timer
}

// systemClock reads Go's monotonic clock, which stands still while the machine is suspended, and adds the time that it was.
// CLOCK_BOOTTIME by itself would do, but not in a testing/synctest bubble, where users test their duties.
type systemClock struct {
	start     time.Time
	suspended time.Duration
}

func newSystemClock() *systemClock { return &systemClock{time.Now(), suspended()} }

func (c *systemClock) Now() time.Duration {
	now := time.Since(c.start)
	// The two kernel clocks are read one after the other, so less than a millisecond between them means nothing.
	if s := suspended() - c.suspended; s > time.Millisecond {
		now += s
	}
	return now
}

func (c *systemClock) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }
