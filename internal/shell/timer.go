package shell

import "time"

// Resetter is a [Clock] whose timers can be used again.
type Resetter interface {
	// ResetTimer makes a timer of NewTimer expire after d, as [time.Timer.Reset] does.
	ResetTimer(t *time.Timer, d time.Duration)
}

// timer waits on a clock, again and again. It makes one timer for all waits, if the clock can do that: a member waits
// several times for each heartbeat.
type timer struct {
	clock Clock
	t     *time.Timer
}

// after returns a channel that receives after d. The channels of earlier calls receive nothing any more.
func (t *timer) after(d time.Duration) <-chan time.Time {
	if r, ok := t.clock.(Resetter); ok && t.t != nil {
		r.ResetTimer(t.t, d)
		return t.t.C
	}

	t.stop()
	t.t = t.clock.NewTimer(d)
	return t.t.C
}

// stop makes the last channel receive nothing any more.
func (t *timer) stop() {
	if t.t != nil {
		t.t.Stop()
	}
}
