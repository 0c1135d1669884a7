package regent

import "time"

// Clock is the clock on which a member counts its leases. Only tests need to set one: to give each member a rate of its
// own.
type Clock interface {
	// Now returns the time since some fixed instant. It never goes back, and counts while the machine is suspended.
	Now() time.Duration
	// NewTimer is [time.NewTimer] on this clock.
	NewTimer(d time.Duration) *time.Timer
}

// systemClock is the clock of the kernel that counts while the machine is suspended (rule 8). Where there is none, it
// is the clock of Go. So it is in a testing/synctest bubble, where users test their duties in virtual time.
type systemClock struct {
	start  time.Time
	kernel bool
}

// newSystemClock returns a clock that does not begin at 0, which means "never" in many places.
func newSystemClock() *systemClock {
	return &systemClock{time.Now().Add(-time.Second), kernelClockIsOurs()}
}

func (c *systemClock) Now() time.Duration {
	if c.kernel {
		return sinceBoot()
	}
	return time.Since(c.start)
}

func (c *systemClock) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// ResetTimer lets the shell use a timer again.
func (c *systemClock) ResetTimer(t *time.Timer, d time.Duration) { t.Reset(d) }
