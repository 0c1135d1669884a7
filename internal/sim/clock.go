package sim

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// clock is the time of one process: virtual time at a rate and from an offset of its own. While the
// process is frozen its timers stand still, and all that should have fired meanwhile fires when it
// thaws; the time itself goes on, as CLOCK_BOOTTIME does.
type clock struct {
	start  time.Time
	rate   float64
	offset time.Duration
	until  atomic.Int64 // frozen until then, since start
	stalls atomic.Int64 // how long the next Save stalls: see stall

	mu     sync.Mutex
	alarms []alarm
	window time.Duration // when the last count of short timers began, since start
	short  int           // short timers since then
	spins  int           // the most short timers that were ever set within spinWindow
}

// shortest is the least that a loop of a member waits.
const shortest = time.Millisecond

// spinWindow is the time within which short timers are counted. A loop that waits for the shortest
// time again and again, because something is due that it does not do, sets a hundred of them within
// it.
const spinWindow = 100 * time.Millisecond

// count takes in a timer. The mutex is held.
func (c *clock) count(d, now time.Duration) {
	if d > 0 && d != shortest {
		return
	}

	if now-c.window > spinWindow {
		c.window = now
		c.short = 0
	}

	c.short++
	c.spins = max(c.spins, c.short)
}

// alarm is a timer that may have to be put off.
type alarm struct {
	timer *time.Timer
	at    time.Duration // since start
}

func (c *clock) Now() time.Duration {
	now := c.local(c.elapsed())
	if c.stalls.Load() != 0 && checksBeforeSave() {
		time.Sleep(time.Duration(c.stalls.Swap(0)))
	}

	return now
}

// stall makes the goroutine that next asks, in Term.Save, whether its term is valid stand still for
// d right after it has read the clock, as a scheduler may. No lock is held there.
func (c *clock) stall(d time.Duration) { c.stalls.Store(int64(d)) }

// checksBeforeSave reports whether the clock is read by the check at the beginning of Term.Save.
func checksBeforeSave() bool {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	valid, _ := frames.Next()
	save, _ := frames.Next()
	return strings.HasSuffix(valid.Function, "regent.Term.Valid") && strings.HasSuffix(save.Function,
		"regent.Term.Save")
}

func (c *clock) elapsed() time.Duration { return time.Since(c.start) }

func (c *clock) local(virtual time.Duration) time.Duration {
	return c.offset + time.Duration(float64(virtual)*c.rate)
}

const year = 365 * 24 * time.Hour // more than that overflows at a slow rate

// NewTimer never fires early, as no kernel's does. It is late by some nanoseconds of its own, so
// that few timers of a process fire at once: what happens at one instant has no order that a seed
// would repeat.
func (c *clock) NewTimer(d time.Duration) *time.Timer {
	wait := time.Duration(math.Ceil(float64(min(d, year))/c.rate)) + 1
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed()
	c.count(d, now)
	wait += aside(d)
	if left := time.Duration(c.until.Load()) - now; wait < left {
		wait = left + aside(d)
	}

	t := time.NewTimer(wait)
	if len(c.alarms) > 24 {
		c.prune(now)
	}

	c.alarms = append(c.alarms, alarm{t, now + wait})
	return t
}

// aside is some nanoseconds that depend on d alone.
func aside(d time.Duration) time.Duration { return time.Duration(uint64(d) * 0x9e3779b97f4a7c15 >> 57) }

func (c *clock) prune(now time.Duration) {
	kept := c.alarms[:0]
	for _, a := range c.alarms {
		if a.at > now {
			kept = append(kept, a)
		}
	}

	c.alarms = kept
}

// freeze stops the process for d. Timers that would fire in that time fire after it, each at a
// moment of its own.
func (c *clock) freeze(d time.Duration) (until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed()
	until = max(now+d, time.Duration(c.until.Load()))
	c.until.Store(int64(until))
	c.prune(now)
	for i := range c.alarms {
		a := &c.alarms[i]
		if a.at < until && a.timer.Stop() {
			a.at = until + 16*aside(a.at) // before or after answers that have waited, as it happens
			a.timer.Reset(a.at - now)
		}
	}

	return until
}

// thaw returns when the process is not frozen. Those who wait for it at different things go on at
// different nanoseconds.
func (c *clock) thaw(what string) {
	for {
		left := time.Duration(c.until.Load()) - c.elapsed()
		if left <= 0 {
			return
		}

		h := uint64(17)
		for i := range len(what) {
			h = h*131 + uint64(what[i])
		}

		time.Sleep(left + 100 + time.Duration(h%1009))
	}
}
