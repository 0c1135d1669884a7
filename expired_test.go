package regent_test

import (
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// TestExpired looks at what a standby says of a leader: while it lives, and when nobody can write any more.
func TestExpired(t *testing.T) {
	for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock(), "fleet": regent.Fleet()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile)).lead()
				leader(t, time.Minute, a)
				b := c.member("b", config(profile)).lead()
				for range 3000 {
					time.Sleep(100 * time.Millisecond)
					v, _ := b.View("seat")
					if v.Expired || v.HeartbeatAge > profile.LeaseDuration+profile.TakeoverDelay+time.Second {
						t.Fatalf("a leads, and b says %v, %v", v.Expired, v.HeartbeatAge)
					}
				}
				if v, _ := a.View("seat"); v.Leader != "a" || v.Expired || v.HeartbeatAge != 0 {
					t.Errorf("a says of itself: %+v", v)
				}

				never := memstore.Delay{Min: 24 * time.Hour, Max: 24 * time.Hour}
				c.store.SetFaults(memstore.Faults{ApplyLate: 1, Late: never}) // no write is carried out
				broken := time.Now()
				for a.leads() {
					time.Sleep(100 * time.Millisecond)
				}
				// Its last heartbeat counts from when b has read it, which may be a lease later.
				time.Sleep(time.Until(broken.Add(2*profile.LeaseDuration + profile.TakeoverDelay + 3*time.Second)))
				if v, _ := b.View("seat"); v.Leader != "a" || !v.Expired || v.HeartbeatAge < profile.LeaseDuration {
					t.Errorf("nobody leads, and b says %q, %v, %v", v.Leader, v.Expired, v.HeartbeatAge)
				}

				c.store.SetFaults(memstore.Faults{})
				next, _ := leader(t, 2*time.Minute, a, b)
				led, _ := next.View("seat")
				for _, n := range []*node{a, b} {
					if v, _ := n.View("seat"); n != next && v.Expired && v.Epoch == led.Epoch {
						t.Errorf("%s leads, and %s says that it has expired", next.ID, n.ID)
					}
				}
				a.quit()
				b.quit()
			})
		})
	}
}
