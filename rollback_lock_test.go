package regent_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// lostRenewals returns how long a lock has two leaders after its store has lost the renewals of that time. The
// snapshot is taken at so much after three minutes, when the standby polls seldom. If the holder is cut off, it does
// not meet the loss.
func lostRenewals(t *testing.T, at, lost time.Duration, cutOff bool) (both time.Duration) {
	const step = 10 * time.Millisecond
	cfg := regent.Lock()
	bubble(t, func(c *cluster) {
		c.store.SetFaults(memstore.Faults{LoseNotice: 1})
		a := c.member("a", config(cfg)).lead()
		leader(t, time.Minute, a)
		time.Sleep(4 * time.Second)
		b := c.member("b", config(cfg)).lead()
		time.Sleep(3*time.Minute + at)
		before := c.store.Snapshot()
		time.Sleep(lost)
		if cutOff {
			a.client.SetFaults(cut)
		}

		c.store.Restore(before)

		for waited := time.Duration(0); waited < 3*cfg.LeaseDuration && (a.leads() || !b.leads()); waited += step {
			time.Sleep(step)
			synctest.Wait()
			if a.leads() && b.leads() {
				both += step
			}
		}

		a.quit()
		b.quit()
	})

	return both
}

// TestLostRenewals is about a store that loses renewals of a lock, none of which a standby has read, and keeps
// revisions.
func TestLostRenewals(t *testing.T) {
	for _, cutOff := range []bool{false, true} {
		name := "the_holder_meets_the_loss_before_a_standby_claims"
		limit := time.Duration(0)
		if cutOff {
			name = "a_holder_that_is_cut_off_overlaps_by_less_than_a_renewal"
			limit = regent.Lock().RenewInterval - regent.Lock().StopTimeout
		}

		t.Run(name, func(t *testing.T) {
			for _, at := range []time.Duration{0, 6 * time.Second, 16 * time.Second, 20 * time.Second} {
				for _, lost := range []time.Duration{6 * time.Second, 20 * time.Second, 30 * time.Second} {
					t.Run(fmt.Sprint(at, "_", lost), func(t *testing.T) {
						if both := lostRenewals(t, at, lost, cutOff); both > limit {
							t.Errorf("two leaders for %v, and not %v at most", both, limit)
						}
					})
				}
			}
		})
	}
}
