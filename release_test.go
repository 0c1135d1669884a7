package regent_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

func TestRelease(t *testing.T) {
	for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
		t.Run("a_release_never_clears_another_holder_in_profile_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				var cleared atomic.Bool
				c.store.OnSwap = func(old, new driver.Record, _ string) {
					if new.Name == "seat" && old.Holder.ID == "x" && new.Holder != old.Holder {
						cleared.Store(true)
					}
				}
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				time.Sleep(2 * time.Second)

				// A store that forgot the claim of a gave the election to x, whose heartbeat goes
				// on.
				x := driver.Identity{ID: "x", Incarnation: "x1"}
				beat, err := c.store.Swap(c.ctx, driver.Record{
					Name: driver.MemberRegister("x"), Holder: x, Epoch: 1, Nonce: 1, Duration: profile.LeaseDuration,
				})

				check(t, err)
				l, err := c.store.Get(c.ctx, "seat")
				check(t, err)
				l.Holder = x
				l.Addr = "x:1"
				l.Epoch++
				l.Nonce = 2
				if l.Via != "" {
					l.Via = beat.Name
				}

				taken, err := c.store.Swap(c.ctx, l)
				check(t, err)

				// An edit of its heartbeat register makes a read what it holds. In profile lock
				// that is the seat itself.
				if own, err := c.store.Get(c.ctx, driver.MemberRegister("a")); err == nil {
					_, err = c.store.Swap(c.ctx, own)
					check(t, err)
				}

				for end := time.Now().Add(20 * time.Second); a.leads() && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}

				time.Sleep(2 * time.Second) // less than the lease of x
				synctest.Wait()
				if len(a.kinds(regent.EventLostLeadership)) != 1 {
					t.Fatalf("a did not lose the election: %v", a.events)
				}
				if got, err := c.store.Get(c.ctx, "seat"); cleared.Load() || err != nil || got.Rev != taken.Rev {
					t.Errorf("a has released what x holds: it shows %s in epoch %d, %v", got.Holder, got.Epoch, err)
				}

				a.quit()
			})
		})
	}
}
