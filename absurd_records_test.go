package regent_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestAbsurdRecords is about records that no member writes.
func TestAbsurdRecords(t *testing.T) {
	t.Run("a_lease_without_end_does_not_overflow_into_the_past", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			l, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Nonce: 1, Paused: true})
			check(t, err)
			a := c.member("a", config(regent.Lock())).lead()
			time.Sleep(time.Second)
			l.Holder = driver.Identity{ID: "z", Incarnation: "1"}
			l.Epoch = 1
			l.Nonce = 2
			l.Duration = 1<<63 - 1
			l.Paused = false
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			time.Sleep(time.Hour)
			synctest.Wait()
			if a.leads() {
				t.Error("it took a seat whose lease has not expired")
			}

			a.quit()
		})
	})

	t.Run("a_negative_duration_is_no_record", func(t *testing.T) {
		l := driver.Record{Epoch: 1, Nonce: 1, Duration: -time.Second}
		if _, err := driver.ParseRecord("seat", "1", l.AppendJSON(nil)); err == nil ||
			!strings.Contains(err.Error(), "negative") {
			t.Error(err)
		}
	})
}

// ticking is a clock that counts the timers that were made.
type ticking struct {
	start  time.Time
	timers atomic.Int64
}

func (c *ticking) Now() time.Duration { return time.Since(c.start) }

func (c *ticking) NewTimer(d time.Duration) *time.Timer {
	c.timers.Add(1)
	return time.NewTimer(d)
}
