package regent_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
)

// suspended is the clock of a machine that was suspended: it counts that time, and timers do not.
type suspended struct {
	start time.Time
	slept atomic.Int64
}

func (c *suspended) Now() time.Duration { return time.Since(c.start) + time.Duration(c.slept.Load()) }

func (c *suspended) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// TestSuspendedMachine is about rule 8: whether a term is valid depends on its deadline alone, before any timer has
// fired.
func TestSuspendedMachine(t *testing.T) {
	bubble(t, func(c *cluster) {
		clock := &suspended{start: time.Now().Add(-time.Second)}
		a := c.member("a", func(m *regent.Member) { m.Clock = clock })
		a.lead()
		leader(t, time.Second, a)
		term, _ := a.Leads("seat")

		clock.slept.Store(int64(time.Minute))
		if a.leads() || term.Valid() || term.Remaining() != 0 {
			t.Errorf("after a minute it leads: %v, its term is valid: %v, for %v",
				a.leads(), term.Valid(), term.Remaining())
		}

		a.quit()
	})
}
