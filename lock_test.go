package regent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestLock(t *testing.T) {
	lock := config(regent.Lock())

	t.Run("L09_a_failed_acquisition_is_no_leadership", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock)
			a.client.SetFaults(memstore.Faults{Outage: true})
			a.lead()
			neverTwo(t, time.Minute, a)
			if a.leads() || len(c.log) != 0 {
				t.Errorf("got %q", c.log)
			}

			a.client.SetFaults(memstore.Faults{Conflict: 1})
			time.Sleep(time.Minute)
			if a.leads() || len(c.log) != 0 || len(a.kinds(regent.EventBecameLeader)) != 0 {
				t.Errorf("got %q, %v", c.log, a.kinds(regent.EventBecameLeader))
			}

			a.quit()
		})
	})

	t.Run("L10_of_concurrent_acquisitions_exactly_one_succeeds", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			var nodes []*node
			for i := range 30 {
				nodes = append(nodes, c.member(fmt.Sprint("n", i), lock).lead())
			}

			leader(t, time.Second, nodes...)
			neverTwo(t, 2*time.Second, nodes...)
			if len(c.log) != 1 {
				t.Errorf("got %q", c.log)
			}
			for _, n := range nodes {
				n.quit()
			}
		})
	})

	t.Run("L11_a_renewal_keeps_the_seat_and_the_epoch", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			before, _ := c.store.Get(c.ctx, "seat")
			writes := a.client.Counts().Writes()
			time.Sleep(100*time.Second + time.Millisecond)
			after, _ := c.store.Get(c.ctx, "seat")
			if !a.leads() || after.Epoch != before.Epoch || after.Rev == before.Rev || after.Nonce == before.Nonce {
				t.Errorf("record was %+v and is %+v", before, after)
			}
			if got := a.client.Counts().Writes() - writes; got != 10 {
				t.Errorf("renewed %d times in 100 s, want every 10 s", got)
			}

			a.quit()
		})
	})

	t.Run("L04_a_failing_renewal_is_tried_again_after_500ms_1s_2s_then_the_leader_steps_down_and_frees_its_own_key",
		func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a", lock)
				var tries []time.Duration
				start := time.Now()
				c.store.OnSwap = func(old, l driver.Record, _ string) {
					if l.Name == "seat" && old.Holder.ID == "a" && l.Vacant() {
						c.note("released")
					}
				}
				c.store.OnRequest = func(r memstore.Request) {
					if r.Kind == memstore.Swap && time.Since(start) > time.Second {
						tries = append(tries, time.Since(start).Round(100*time.Millisecond))
					}
				}
				a.lead()
				leader(t, time.Second, a)
				a.client.SetFaults(memstore.Faults{Outage: true})
				time.Sleep(13600*time.Millisecond - time.Since(start))
				synctest.Wait()
				want := []time.Duration{10 * time.Second, 10500 * time.Millisecond, 11500 * time.Millisecond,
					13500 * time.Millisecond}
				if len(tries) < 4 || !slices.Equal(tries[:4], want) {
					t.Errorf("tried at %v, want %v", tries, want)
				}

				stopped := "a stops 1: partition: 4 tries failed"
				if a.leads() || len(c.log) != 2 || !strings.HasPrefix(c.log[1], stopped) {
					t.Errorf("it has not stepped down after the fourth try: %q", c.log)
				}

				// It could not free its key yet. It does so as soon as it can, long before the key expires, and then
				// acquires anew.
				if c.noted("released") != 0 {
					t.Error("its key was freed during the outage")
				}

				a.client.SetFaults(memstore.Faults{})
				leader(t, 20*time.Second, a)
				if at := time.Since(start); c.noted("released") != 1 || at > 30*time.Second {
					t.Errorf("after %v its key was not freed: %q", at, c.log)
				}
				if l, _ := c.store.Get(c.ctx, "seat"); l.Epoch != 2 {
					t.Errorf("epoch %d", l.Epoch)
				}

				a.quit()
			})
		})

	t.Run("L04_a_member_that_reclaims_its_own_expired_lock_reports_the_end_of_its_term_once", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			a.client.SetFaults(memstore.Faults{Outage: true})
			time.Sleep(40 * time.Second)

			// The store expires the record by itself: it names no holder any more.
			l, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			l.Holder = driver.Identity{}
			l.Addr = ""
			l.Nonce++
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			a.client.SetFaults(memstore.Faults{})
			leader(t, time.Minute, a)
			time.Sleep(time.Second)

			lost := a.kinds(regent.EventLostLeadership)
			if len(lost) != 1 || lost[0].Epoch != 1 || lost[0].Metadata["reason"] != "partition" {
				t.Errorf("it reports %+v", lost)
			}

			a.quit()
		})
	})

	t.Run("L04_the_deadline_cuts_the_tries_short", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			short := config(regent.Lock(), func(c *regent.Config) {
				c.LeaseDuration = 4 * time.Second
				c.StopTimeout = time.Second
				c.RenewInterval = 2 * time.Second
			})

			a := c.member("a", short).lead()
			leader(t, time.Second, a)
			start := time.Now()
			a.client.SetFaults(memstore.Faults{Outage: true})
			for a.leads() {
				time.Sleep(time.Millisecond)
			}
			if d := time.Since(start); d > 3*time.Second {
				t.Errorf("led for %v without a renewal", d)
			}

			a.client.SetFaults(memstore.Faults{})
			a.quit()
		})
	})

	t.Run("L05_a_standby_reads_every_5s_then_less_and_less_up_to_60s", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			long := config(regent.Lock(), func(c *regent.Config) {
				c.LeaseDuration, c.RenewInterval = 10*time.Minute,
					time.Minute
			})

			a := c.member("a", long).lead()
			leader(t, time.Second, a)
			var mu sync.Mutex
			var reads []time.Time
			c.store.OnRequest = func(r memstore.Request) {
				mu.Lock()
				defer mu.Unlock()
				if r.Client == "b" && r.Name == "seat" {
					reads = append(reads, time.Now())
				}
			}
			b := c.member("b", long).lead()
			synctest.Wait()
			// It begins with a change, since it may read once or twice when it starts.
			for _, change := range []func(context.Context, string, ...regent.Condition) error{a.Pause, a.Resume} {
				if err := change(c.ctx, "seat"); err != nil {
					t.Fatal(err)
				}

				synctest.Wait()
			}

			mu.Lock()
			start, seen := time.Now(), len(reads)
			mu.Unlock()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			mu.Lock()
			var after []int
			for _, at := range reads[seen:] {
				after = append(after, int(at.Sub(start).Round(time.Second)/time.Second))
			}

			mu.Unlock()
			if want := []int{5, 10, 20, 40, 80, 140, 200, 260}; !slices.Equal(after, want) {
				t.Errorf("read after %v seconds, want %v", after, want)
			}

			// A push wakes it sooner.
			a.quit()
			if _, took := leader(t, time.Second, b); took > 10*time.Millisecond {
				t.Errorf("took %v after the release", took)
			}

			b.quit()
		})
	})

	t.Run("L06_a_standby_takes_the_seat_after_its_lease_has_run_out", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			b := c.member("b", lock).lead()
			time.Sleep(time.Minute)
			a.client.SetFaults(cut)
			neverTwo(t, 61*time.Second, a, b)
			if !b.leads() {
				t.Error("b does not lead")
			}

			b.quit()
			a.quit()
		})
	})

	t.Run("L06_a_term_that_the_store_has_ended_is_in_the_past", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			b := c.member("b", lock)
			check(t, b.Pause(c.ctx, "seat"))
			b.lead()
			l, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			l.Holder, l.Epoch, l.Since = driver.Identity{ID: "a", Incarnation: "x"}, 3, time.Now()
			l, err = c.store.Swap(c.ctx, l)
			check(t, err)
			time.Sleep(time.Second)
			l.Holder, l.Paused = driver.Identity{}, false // as Redis shows it once its time is over
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			leader(t, time.Minute, b)
			l, _ = c.store.Get(c.ctx, "seat")
			if l.Epoch != 4 || len(l.Past) != 1 || l.Past[0].Holder != "a" || l.Past[0].Epoch != 3 ||
				l.Past[0].Reason != "expired" {
				t.Errorf("record is %+v", l)
			}

			b.quit()
		})
	})

	t.Run("L12_a_demoted_leader_clears_its_own_key_only", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			b := c.member("b", lock).lead()
			time.Sleep(time.Second)
			a.client.SetFaults(cut)
			leader(t, time.Minute+time.Second, b, a)
			for !b.leads() {
				time.Sleep(time.Second)
			}

			held, _ := c.store.Get(c.ctx, "seat")
			a.client.SetFaults(memstore.Faults{})
			time.Sleep(5 * time.Second)
			if now, _ := c.store.Get(c.ctx, "seat"); now.Holder != held.Holder || !b.leads() {
				t.Errorf("the record was %v and is %v", held, now)
			}

			a.quit()
			if now, _ := c.store.Get(c.ctx, "seat"); now.Holder != held.Holder || !b.leads() {
				t.Errorf("the record was %v and is %v", held, now)
			}

			b.quit()
		})
	})

	t.Run("L12_a_leader_whose_key_somebody_else_holds_is_demoted_and_leaves_it_alone", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			taken, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			taken.Holder = driver.Identity{ID: "b", Incarnation: "another"}
			taken.Epoch++
			taken.Nonce++
			taken, err = c.store.Swap(c.ctx, taken)
			check(t, err)
			time.Sleep(15 * time.Second) // its next renewal finds that
			if a.leads() || c.noted("a starts 1") != 1 || len(c.log) != 2 {
				t.Errorf("a was not demoted: %q", c.log)
			}
			if now, _ := c.store.Get(c.ctx, "seat"); now.Rev != taken.Rev {
				t.Errorf("the record was %v and is %v", taken, now)
			}

			a.quit()
			if now, _ := c.store.Get(c.ctx, "seat"); now.Rev != taken.Rev {
				t.Errorf("the record was %v and is %v", taken, now)
			}
		})
	})

	t.Run("a_lock_without_a_rank_writes_no_member_register", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a", lock).lead()
			leader(t, time.Second, a)
			if _, err := c.store.Get(c.ctx, driver.MemberRegister("a")); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("got %v", err)
			}

			a.quit()
		})
	})
}
