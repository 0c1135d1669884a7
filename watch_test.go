package regent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestWatch(t *testing.T) {
	t.Run("an_observer_sees_each_leader_and_writes_nothing", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			o := c.member("o")
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			var seen []string
			go func() {
				defer close(done)
				for v, err := range o.Watch(ctx, "seat") {
					check(t, err)
					seen = append(seen, fmt.Sprintf("%s %d %s", v.Leader, v.Epoch, v.Addr))
				}
			}()

			time.Sleep(time.Second)
			a := c.member("a").lead()
			time.Sleep(time.Second)
			b := c.member("b").lead()
			time.Sleep(time.Second)
			a.quit()
			time.Sleep(time.Second)
			cancel()
			<-done
			want := []string{" 0 ", "a 1 a:1", " 1 ", "b 2 b:1"}
			// The vacancy between two leaders may be too short to be seen.
			if !slices.Equal(seen, want) && !slices.Equal(seen, []string{" 0 ", "a 1 a:1", "b 2 b:1"}) {
				t.Errorf("saw %q", seen)
			}
			if n := o.client.Counts().Writes(); n != 0 {
				t.Errorf("the observer wrote %d times", n)
			}

			b.quit()
		})
	})

	t.Run("a_loop_that_is_left_leaves_nothing_behind", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			o := c.member("o")
			for v, err := range o.Watch(c.ctx, "seat") {
				if err != nil || v.Leader != "" {
					t.Errorf("got %+v, %v", v, err)
				}
				break
			}

			reads := o.client.Counts().Total()
			time.Sleep(time.Hour)
			if got := o.client.Counts().Total(); got != reads {
				t.Errorf("%d requests after the loop was left", got-reads)
			}
		})
	})

	t.Run("C02_an_ineligible_member_registers_and_observes_but_never_campaigns", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Cluster(), func(c *regent.Config) { c.Ineligible = true })).lead()
			time.Sleep(time.Minute)
			if a.leads() || len(a.kinds(regent.EventMemberJoined)) != 1 {
				t.Error("it leads, or is no member")
			}
			if _, err := c.store.Get(c.ctx, "seat"); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("the seat was written: %v", err)
			}

			a.quit()
		})
	})

	t.Run("a_bad_name_is_an_error_in_the_loop", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			n := 0
			for _, err := range c.member("o").Watch(c.ctx, "") {
				if n++; err == nil {
					t.Error("no error")
				}
			}

			if n != 1 {
				t.Errorf("yielded %d times", n)
			}
		})
	})
}

func TestWatchOfOwnLock(t *testing.T) {
	t.Run("who_watches_on_the_leader_of_a_lock_sees_a_pause", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", config(regent.Lock())).lead()
			leader(t, time.Second, a)
			ctx, cancel := context.WithCancel(c.ctx)
			var seen []bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for v := range a.Watch(ctx, "seat") {
					seen = append(seen, v.Paused)
				}
			}()

			time.Sleep(time.Second)
			check(t, c.member("b").Pause(c.ctx, "seat"))
			time.Sleep(30 * time.Second)
			cancel()
			<-done
			if !slices.Equal(seen, []bool{false, true}) {
				t.Errorf("saw %v", seen)
			}

			a.quit()
		})
	})
}

// TestExpired is about the view of a standby: while the leader is alive, and when nobody can write any more.
func TestExpired(t *testing.T) {
	for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock(),
		"fleet": regent.Fleet()} {
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
				if v, _ := b.View("seat"); v.Leader != "a" || !v.Expired || v.HeartbeatAge < profile.LeaseDuration ||
					v.Before().Reason != regent.ReasonExpired {
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
