package regent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// herald is a store whose notices of the election are the test's own.
type herald struct {
	*memstore.Client
	notices chan driver.Record
}

func (h herald) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	if to.Covers("seat") {
		return h.notices
	}
	return h.Client.Subscribe(ctx, to)
}

func TestNotifications(t *testing.T) {
	// Each begins with a in its first term, and b behind it, which hears only what the test says. It has just read
	// the election, so that it will not by itself for a while.
	begin := func(t *testing.T, f func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts),
		change ...func(*regent.Config)) {
		t.Helper()
		bubble(t, func(c *cluster) {
			cfg := config(regent.Lock(), func(c *regent.Config) {
				c.ElectionInterval,
					c.ElectionIntervalMax = time.Minute, time.Minute
			})

			a := c.member("a", cfg).lead()
			leader(t, time.Second, a)
			notices := make(chan driver.Record, 1)
			b := c.member("b", cfg)
			for _, f := range change {
				f(&b.Config)
			}

			b.Store = herald{b.client, notices}
			b.lead()
			time.Sleep(time.Second)
			f(c, a, b, func(l driver.Record) memstore.Counts {
				before := b.client.Counts()
				driver.Notify(notices, l)
				time.Sleep(time.Millisecond)
				synctest.Wait()
				now := b.client.Counts()
				return memstore.Counts{Gets: now.Gets - before.Gets, Swaps: now.Swaps - before.Swaps,
					SwapAlls: now.SwapAlls - before.SwapAlls}
			})

			b.quit()
		})
	}

	seat := func(c *cluster) driver.Record {
		l, err := c.store.Get(c.ctx, "seat")
		if err != nil {
			c.t.Fatal(err)
		}
		return l
	}

	t.Run("a_release_is_claimed_without_another_read", func(t *testing.T) {
		begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
			a.quit()
			if n := say(seat(c)); n.Gets != 0 || n.Writes() != 1 || !b.leads() || seat(c).Epoch != 2 {
				t.Errorf("%+v, it leads: %v", n, b.leads())
			}
		})
	})

	t.Run("a_notification_without_a_record_is_followed_by_a_read", func(t *testing.T) {
		begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
			a.quit()
			if n := say(driver.Record{}); n.Gets != 1 || !b.leads() {
				t.Errorf("%+v, it leads: %v", n, b.leads())
			}
		})
	})

	t.Run("a_release_that_others_have_followed_is_old_news", func(t *testing.T) {
		begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
			a.quit()
			old := seat(c)
			again := c.member("c", config(regent.Lock())).lead()
			leader(t, time.Second, again)
			// It tries, is refused, and reads.
			if n := say(old); n.Writes() != 1 || b.leads() || !again.leads() {
				t.Errorf("%+v, it leads: %v", n, b.leads())
			}

			time.Sleep(time.Second)
			if v, _ := b.View("seat"); v.Leader != "c" || v.Epoch != 2 {
				t.Errorf("it sees %+v", v)
			}

			// By now it knows better.
			if n := say(old); n.Writes() != 0 || n.Gets != 1 || b.leads() {
				t.Errorf("%+v, it leads: %v", n, b.leads())
			}

			again.quit()
		})
	})

	t.Run("what_was_made_up_is_refused_by_the_store_and_shown_to_nobody", func(t *testing.T) {
		begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
			ctx, cancel := context.WithCancel(c.ctx)
			var views []regent.View
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for v, err := range b.Watch(ctx, "seat") {
					if err == nil {
						views = append(views, v)
					}
				}
			}()

			synctest.Wait()
			if n := say(driver.Record{Name: "seat", Rev: "made up", Epoch: 1,
				Data: []byte("made up")}); n.Writes() != 1 || n.Gets != 1 || b.leads() || !a.leads() {
				t.Errorf("%+v, it leads: %v", n, b.leads())
			}

			time.Sleep(time.Second)
			cancel()
			<-watched
			for _, v := range views {
				if v.Leader != "a" {
					t.Errorf("watchers saw %+v", v)
				}
			}

			a.quit()
		})
	})

	t.Run("what_is_no_release_to_this_member_is_followed_by_a_read", func(t *testing.T) {
		vacant := func(l driver.Record) driver.Record {
			return driver.Record{Name: l.Name, Rev: l.Rev + "1", Epoch: l.Epoch}
		}
		for name, change := range map[string]func(b *node, l driver.Record) driver.Record{
			"held":          func(_ *node, l driver.Record) driver.Record { l.Rev += "1"; return l },
			"another_epoch": func(_ *node, l driver.Record) driver.Record { l = vacant(l); l.Epoch++; return l },
			"an_old_epoch":  func(_ *node, l driver.Record) driver.Record { l = vacant(l); l.Epoch--; return l },
			"paused": func(_ *node, l driver.Record) driver.Record {
				l = vacant(l)
				l.Paused = true
				return l
			},
			"for_another": func(_ *node, l driver.Record) driver.Record {
				l = vacant(l)
				l.Next = "z"
				return l
			},
			"nothing_in_fact": func(*node, driver.Record) driver.Record { return driver.Record{} },
			"below_what_is_known": func(b *node, l driver.Record) driver.Record {
				b.Observe("seat", 7)
				return vacant(l)
			},
		} {
			t.Run(name, func(t *testing.T) {
				begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
					if n := say(change(b, seat(c))); n.Writes() != 0 || n.Gets != 1 || b.leads() || !a.leads() {
						t.Errorf("%+v, it leads: %v", n, b.leads())
					}

					a.quit()
				})
			})
		}
	})

	t.Run("another_seat_costs_nothing", func(t *testing.T) {
		begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
			other := seat(c)
			other.Name += "/other"
			if n := say(other); n.Writes() != 0 || n.Gets != 0 {
				t.Errorf("%+v", n)
			}

			a.quit()
		})
	})

	t.Run("a_seat_of_its_own_is_not_claimed_again", func(t *testing.T) {
		begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
			a.quit()
			old := seat(c)
			say(old)
			leader(t, time.Second, b)
			for _, epoch := range []uint64{1, 2} {
				old.Epoch = epoch
				if n := say(old); n.Writes() != 0 || !b.leads() || seat(c).Epoch != 2 {
					t.Errorf("notified of epoch %d: %+v, it leads: %v", epoch, n, b.leads())
				}
			}
		})
	})

	t.Run("a_candidate_that_waits_does_not_claim", func(t *testing.T) {
		for name, change := range map[string]func(*regent.Config){
			"by_rank":      func(c *regent.Config) { c.Rank = regent.RankLexicographic },
			"not_eligible": func(c *regent.Config) { c.Ineligible = true },
		} {
			t.Run(name, func(t *testing.T) {
				begin(t, func(c *cluster, a, b *node, say func(driver.Record) memstore.Counts) {
					a.quit()
					if n := say(seat(c)); n.Gets == 0 {
						t.Errorf("it has not read the election: %+v", n)
					}
				}, change)
			})
		}
	})

	t.Run("two_notifications_that_nobody_has_received_become_one_without_a_record", func(t *testing.T) {
		c := make(chan driver.Record, 1)
		driver.Notify(c, driver.Record{Name: "a"})
		driver.Notify(c, driver.Record{Name: "b"})
		if l := <-c; l.Name != "" || len(c) != 0 {
			t.Errorf("%+v, and %d more", l, len(c))
		}
	})
}
