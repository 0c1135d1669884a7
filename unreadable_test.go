package regent_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TestUnreadableRegister is about one register that cannot be read, where all others can.
func TestUnreadableRegister(t *testing.T) {
	lead := func(c *cluster, n *node, elections ...string) (stop func()) {
		ctx, cancel := context.WithCancel(c.ctx)
		var wg sync.WaitGroup
		for _, election := range elections {
			wg.Go(func() {
				_ = n.Lead(ctx, election, func(ctx context.Context, _ regent.Term) error { <-ctx.Done(); return nil })
			})
		}

		return func() { cancel(); wg.Wait() }
	}

	t.Run("other_elections_of_the_member_are_taken_over_all_the_same", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			for stores, wrap := range map[string]func(driver.Store) driver.Store{
				"with_every_extra": func(s driver.Store) driver.Store { return s },
				"plain":            func(s driver.Store) driver.Store { return plain{s} },
			} {
				t.Run(name+"_"+stores, func(t *testing.T) {
					bubble(t, func(c *cluster) {
						c.store.SetUnreadable("bad")
						a := c.member("a", config(profile), func(m *regent.Member) { m.Store = wrap(m.Store) })
						stopA := lead(c, a, "seat", "x")
						time.Sleep(time.Second)
						b := c.member("b", config(profile), func(m *regent.Member) { m.Store = wrap(m.Store) })
						stopB := lead(c, b, "bad", "seat", "x")
						time.Sleep(profile.LeaseDuration)
						if !a.leads() {
							t.Fatal("a does not lead")
						}

						a.client.SetFaults(cut)
						limit := 2*profile.LeaseDuration + profile.TakeoverDelay + profile.ElectionInterval
						n, _ := leader(t, limit, b)
						if n == nil {
							t.Errorf("nobody leads after %v", limit)
						}
						if _, ok := b.Leads("x"); !ok {
							t.Error("nobody leads the third")
						}

						got := b.kinds(regent.EventRegisterUnreadable)
						if len(got) != 1 || got[0].Metadata["register"] != "bad" ||
							!strings.Contains(got[0].Metadata["error"], "unreadable") {
							t.Errorf("reported as %+v", got)
						}

						c.store.SetUnreadable()
						time.Sleep(2 * profile.ElectionIntervalMax)
						if _, ok := b.Leads("bad"); !ok {
							t.Error("nobody leads it once it can be read")
						}

						stopB()
						stopA()
					})
				})
			}
		}
	})

	t.Run("a_release_is_taken_over_at_once_all_the_same", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.SetUnreadable("bad")
			a := c.member("a")
			stopA := lead(c, a, "seat", "bad")
			time.Sleep(time.Second)
			b := c.member("b")
			stopB := lead(c, b, "seat", "bad")
			time.Sleep(30 * time.Second)
			for i := range 20 {
				now, next := a, b
				if b.leads() {
					now, next = b, a
				}

				check(t, now.HandOff(c.ctx, "seat", next.ID))
				if _, took := leader(t, 10*time.Second, next); took > 100*time.Millisecond {
					t.Errorf("handoff %d took %v", i, took)
				}

				time.Sleep(1700 * time.Millisecond)
			}

			stopA()
			stopB()
		})
	})

	t.Run("its_first_failure_does_not_put_off_what_is_read_with_it", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c) // so that b reads both elections at its polls, and only then
			a := c.member("a")
			stopA := lead(c, a, "seat", "bad")
			time.Sleep(time.Second)
			b := c.member("b")
			stopB := lead(c, b, "seat", "bad")
			start := time.Now()
			time.Sleep(12 * time.Second)

			c.store.SetUnreadable("bad")
			check(t, a.StepDown(c.ctx, "seat"))
			leader(t, 10*time.Second, b)
			if late := time.Since(start) % regent.Cluster().ElectionInterval; late > 500*time.Millisecond {
				t.Errorf("it leads %v after the poll that showed the release", late)
			}

			c.store.SetUnreadable()
			stopB()
			stopA()
		})
	})

	t.Run("the_other_members_are_listed_all_the_same", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			z := c.member("z").lead()
			time.Sleep(time.Second)
			c.store.SetUnreadable(driver.MemberRegister("z"))
			all, err := a.Members(c.ctx)
			if err != nil || len(all) != 1 || all[0].ID != "a" {
				t.Errorf("%+v, %v", all, err)
			}

			c.store.SetUnreadable()
			a.quit()
			z.quit()
		})
	})

	t.Run("one_heartbeat_that_cannot_be_read_holds_up_its_own_elections_alone", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			z := c.member("z")
			stopZ := lead(c, z, "other")
			time.Sleep(time.Second)
			b := c.member("b")
			stopB := lead(c, b, "seat", "other")
			time.Sleep(10 * time.Second)
			c.store.SetUnreadable(driver.MemberRegister("z"))
			a.client.SetFaults(cut)
			if n, _ := leader(t, 12*time.Second, b); n == nil {
				t.Error("nobody leads the election of the other member")
			}

			c.store.SetUnreadable()
			stopB()
			stopZ()
			a.quit()
		})
	})

	t.Run("a_heartbeat_that_cannot_be_read_makes_nobody_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat",
				Holder: driver.Identity{ID: "z", Incarnation: "1.z"}, Epoch: 1, Nonce: 1, Duration: 6 * time.Second,
				Via: driver.MemberRegister("z")})
			check(t, err)
			c.store.SetUnreadable(driver.MemberRegister("z"))
			k := &ticking{start: time.Now()}
			b := c.member("b", func(m *regent.Member) { m.Clock = k }).lead()
			time.Sleep(30 * time.Second)
			n := k.timers.Load()
			time.Sleep(time.Minute)
			if n = k.timers.Load() - n; n > 1000 {
				t.Errorf("%d timers in a minute of nothing", n)
			}

			b.quit()
		})
	})

	t.Run("a_lock_that_cannot_be_read_when_its_lease_has_expired_makes_nobody_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "bad", Holder: driver.Identity{ID: "z", Incarnation: "z"},
				Epoch: 1, Nonce: 1, Duration: 30 * time.Second})
			check(t, err)
			b := c.member("b", config(regent.Lock()))
			stop := lead(c, b, "bad", "seat") // its renewals of the other one are answered
			time.Sleep(time.Second)
			c.store.SetUnreadable("bad")
			time.Sleep(time.Minute)
			before := b.client.Counts()
			time.Sleep(time.Minute)
			if n := b.client.Counts().Gets - before.Gets; n > 60 {
				t.Errorf("%d reads in a minute", n)
			}

			c.store.SetUnreadable()
			time.Sleep(regent.Lock().ElectionInterval + time.Second)
			if _, ok := b.Leads("bad"); !ok {
				t.Error("nobody leads it once it can be read")
			}

			stop()
		})
	})

	t.Run("a_held_election_that_cannot_be_read_makes_nobody_spin", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			k := &ticking{start: time.Now()}
			w := &wakeable{notices: make(chan driver.Record, 1)}
			a := c.member("a", func(m *regent.Member) {
				m.Clock = k
				w.Store = m.Store
				m.Store = w
			}).lead()
			leader(t, time.Second, a)
			time.Sleep(10 * time.Second)
			c.store.SetUnreadable("seat")
			time.Sleep(20 * time.Second)
			n := k.timers.Load()
			for range 60 {
				driver.Notify(w.notices, driver.Record{Name: "seat"})
				time.Sleep(time.Second)
			}

			if n = k.timers.Load() - n; n > 1000 {
				t.Errorf("%d timers in a minute, with 60 notices", n)
			}

			c.store.SetUnreadable()
			a.quit()
		})
	})
}

// plain is a store without any of the optional interfaces.
type plain struct{ store driver.Store }

func (p plain) Get(ctx context.Context, name string) (driver.Record, error) {
	return p.store.Get(ctx, name)
}

func (p plain) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return p.store.Swap(ctx, l)
}

func (p plain) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return p.store.List(ctx, prefix)
}

func (p plain) Close() error { return p.store.Close() }
