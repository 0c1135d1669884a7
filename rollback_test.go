package regent_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// only selects one register.
func only(name string) func(string) bool { return func(n string) bool { return n == name } }

// unseen is a cluster whose store keeps a log, and whose notices are lost, so that nothing but reads shows what has
// changed.
func unseen(c *cluster) {
	c.store.KeepLog(1000)
	c.store.SetFaults(memstore.Faults{LoseNotice: 1})
}

// outlasted returns how long a node goes on leading, up to a limit.
func outlasted(n *node, limit time.Duration) time.Duration {
	start := time.Now()
	for n.leads() && time.Since(start) < limit {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}

	return time.Since(start)
}

// TestRollback is about rule 5: whoever has seen more than the store shows waits for a lease.
func TestRollback(t *testing.T) {
	cfg := regent.Lock()
	cfg.LeaseDuration = 10 * time.Second
	cfg.StopTimeout = time.Second
	cfg.RenewInterval = 3 * time.Second

	// held is a record of somebody who is no member of the test.
	held := func(l driver.Record, epoch uint64) driver.Record {
		l.Name = "seat"
		l.Holder = driver.Identity{ID: "z", Incarnation: time.Now().String()}
		l.Epoch = epoch
		l.Nonce = epoch
		l.Duration = cfg.LeaseDuration
		return l
	}

	t.Run("a_store_that_goes_back_twice_below_one_epoch_is_given_a_lease_each_time", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			c.store.KeepLog(100)
			vacant, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Epoch: 3, Nonce: 3,
				Duration: cfg.LeaseDuration})
			check(t, err)
			_, err = c.store.Swap(c.ctx, held(vacant, 5))
			check(t, err)
			b := c.member("b", config(cfg)).lead()
			time.Sleep(time.Second)

			c.store.Undo(1, only("seat"))
			regressed := func(n int) {
				for len(b.kinds(regent.EventStoreRegressed)) < n {
					time.Sleep(10 * time.Millisecond)
				}
			}
			regressed(1)
			time.Sleep(cfg.LeaseDuration / 2)
			_, err = c.store.Swap(c.ctx, held(vacant, 4)) // somebody who does not remember
			check(t, err)
			time.Sleep(time.Second)
			c.store.Undo(1, only("seat"))
			regressed(2)
			if took := time.Duration(0); !b.leads() {
				for start := time.Now(); !b.leads(); took = time.Since(start) {
					time.Sleep(10 * time.Millisecond)
				}
				if took < cfg.LeaseDuration-20*time.Millisecond {
					t.Errorf("it waited for %v", took)
				}
			}

			if term, _ := b.Leads("seat"); term.Epoch != 6 {
				t.Errorf("epoch %d", term.Epoch)
			}

			b.quit()
		})
	})

	t.Run("a_read_that_may_be_old_is_not_claimed_on", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Epoch: 3, Nonce: 3, Duration: cfg.LeaseDuration})
			check(t, err)
			b := c.member("b", config(cfg))
			b.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: time.Second}})
			b.lead()
			time.Sleep(time.Second / 2) // while its first read is under way
			b.Observe("seat", 7)
			time.Sleep(cfg.LeaseDuration / 2)
			if b.leads() {
				t.Error("it has seen epoch 7, the store shows 3, and it leads without waiting")
			}
			if got := b.kinds(regent.EventStoreRegressed); len(got) != 1 {
				t.Errorf("%d events", len(got))
			}

			b.quit()
		})
	})

	t.Run("an_old_answer_is_no_rollback", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			l, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Epoch: 3, Nonce: 3, Duration: cfg.LeaseDuration})
			check(t, err)
			b := c.member("b", config(cfg))
			b.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: time.Second}})
			b.lead()
			time.Sleep(time.Second / 4) // its first read has been carried out, and is answered later
			b.client.SetFaults(memstore.Faults{})
			_, err = c.store.Swap(c.ctx, held(l, 4))
			check(t, err)
			check(t, b.Pause(c.ctx, "seat")) // by this it learns of epoch 4
			time.Sleep(2 * time.Second)
			if got := b.kinds(regent.EventStoreRegressed); len(got) != 0 {
				t.Errorf("%+v", got)
			}
			if v, _ := b.View("seat"); v.Epoch != 4 {
				t.Errorf("it shows epoch %d", v.Epoch)
			}

			b.quit()
		})
	})

	t.Run("an_answer_older_than_a_reported_epoch_is_no_rollback", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			l, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Epoch: 3, Nonce: 3, Duration: cfg.LeaseDuration})
			check(t, err)
			b := c.member("b", config(cfg))
			b.client.SetFaults(memstore.Faults{Answer: memstore.Delay{Min: time.Second}})
			b.lead()
			time.Sleep(time.Second / 4) // its first read has been carried out, and is answered later
			b.client.SetFaults(memstore.Faults{})
			_, err = c.store.Swap(c.ctx, held(l, 4))
			check(t, err)
			b.Observe("seat", 4) // as a fence reports it
			time.Sleep(2 * time.Second)
			if got := b.kinds(regent.EventStoreRegressed); len(got) != 0 {
				t.Errorf("%+v", got)
			}

			b.quit()
		})
	})

	t.Run("a_holder_whose_joining_was_forgotten_is_given_a_lease", func(t *testing.T) {
		for name, before := range map[string]bool{"its_register_is_gone": false,
			"its_register_shows_an_earlier_incarnation": true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(c *cluster) {
					c.store.KeepLog(1000)
					_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Nonce: 1, Paused: true})
					check(t, err)
					if before {
						a := c.member("a").lead()
						time.Sleep(time.Second)
						a.quit()
					}

					b := c.member("b").lead()
					b.client.SetFaults(memstore.Faults{Request: memstore.Delay{Min: 50 * time.Millisecond},
						Answer: memstore.Delay{Min: 50 * time.Millisecond}})
					a := c.member("a").lead()
					// it has just sent a heartbeat
					time.Sleep(2*regent.Cluster().HeartbeatInterval + 50*time.Millisecond)
					for { // back to before it joined
						l, err := c.store.Get(c.ctx, driver.MemberRegister("a"))
						if err != nil || l.Vacant() {
							break
						}

						c.store.Undo(1, only(driver.MemberRegister("a")))
					}

					l, err := c.store.Get(c.ctx, "seat")
					check(t, err)
					l.Paused = false
					_, err = c.store.Swap(c.ctx, l)
					check(t, err)
					if n, _ := leader(t, 100*time.Millisecond, a); n == nil {
						t.Fatal("a does not claim")
					}

					a.client.SetFaults(memstore.Faults{LoseNotice: 1}) // or it would hear of another claim at once
					neverTwo(t, 30*time.Second, a, b)
					if !a.leads() && !b.leads() {
						t.Error("nobody leads")
					}

					a.quit()
					b.quit()
				})
			})
		}
	})

	t.Run("a_holder_that_the_store_knows_again_is_not_dead", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(7 * time.Second)
			flap(t, c, a, b)
			if !a.leads() {
				t.Fatal("a has lost its term")
			}

			neverTwo(t, 30*time.Second, a, b)
			if !a.leads() {
				t.Error("a has lost its term")
			}

			a.quit()
			b.quit()
		})
	})

	t.Run("a_join_that_is_forgotten_twice_is_given_a_lease_each_time", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			unseen(c)
			a := c.member("a").lead()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			time.Sleep(7 * time.Second)
			flap(t, c, a, b)
			time.Sleep(100 * time.Millisecond)
			check(t, b.Pause(c.ctx, "seat"))
			time.Sleep(time.Second)
			check(t, b.Resume(c.ctx, "seat"))
			time.Sleep(20 * time.Second)
			if !a.leads() {
				t.Fatal("a has lost its term")
			}
			if b.leads() {
				t.Fatal("b leads already")
			}

			c.store.KeepLog(1000)
			a.client.SetFaults(lostRequests)
			forgetJoin(c, driver.MemberRegister("a"))
			neverTwo(t, 30*time.Second, a, b)
			a.client.SetFaults(memstore.Faults{})
			a.quit()
			b.quit()
		})
	})
}

// TestCheckpointOwner is about writes to a record that has become somebody else's.
func TestCheckpointOwner(t *testing.T) {
	t.Run("a_former_term_never_saves_over_its_successors_checkpoint", func(t *testing.T) {
		for name, profile := range map[string]regent.Config{"cluster": regent.Cluster(), "lock": regent.Lock()} {
			bubble(t, func(c *cluster) {
				a := c.member("a", config(profile)).lead()
				leader(t, time.Second, a)
				b := c.member("b", config(profile)).lead()
				time.Sleep(time.Second)
				former, _ := a.Leads("seat")
				check(t, a.HandOff(c.ctx, "seat", "b"))
				leader(t, 10*time.Second, b)
				now, _ := b.Leads("seat")
				check(t, now.Save(c.ctx, []byte("b")))
				time.Sleep(10 * time.Second) // a has read the record, which is b's

				if err := regent.SaveLate(c.ctx, former, []byte("a")); !errors.Is(err, regent.ErrNotLeader) {
					t.Errorf("%s: Save = %v", name, err)
				}
				if got := now.Saved(); !bytes.Equal(got, []byte("b")) {
					t.Errorf("%s: the checkpoint is %q", name, got)
				}
				if l, err := c.store.Get(c.ctx, "seat"); err != nil || !bytes.Equal(l.Data, []byte("b")) {
					t.Errorf("%s: the record has %q, %v", name, l.Data, err)
				}

				a.quit()
				b.quit()
			})
		}
	})

	t.Run("a_release_leaves_a_later_term_of_the_same_member_alone", func(t *testing.T) {
		bubble(t, func(c *cluster) {
			a := c.member("a").lead()
			leader(t, time.Second, a)
			c.store.SetFaults(memstore.Faults{LoseNotice: 1})
			l, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			// The record moves to another term of the same incarnation, as after a store that has gone back.
			l.Epoch++
			l.Nonce++
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			_ = a.StepDown(c.ctx, "seat")
			synctest.Wait()
			got, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			if slices.ContainsFunc(got.Past, func(p driver.Past) bool {
				return p.Epoch == l.Epoch &&
					p.Reason == "stepped down"
			}) {
				t.Errorf("it has released a term that it never had: %+v", got.Past)
			}
			a.quit()
		})
	})
}

// lostRequests are faults of a client whose requests are lost.
var lostRequests = memstore.Faults{CutRequests: true, Timeout: memstore.Delay{Min: 10 * time.Millisecond}}

// flap has b see a store that does not know a's incarnation, while a cannot reach it, and then brings the store back.
func flap(t *testing.T, c *cluster, a, b *node) {
	t.Helper()
	n := len(b.kinds(regent.EventStoreRegressed))
	f := a.client.Faults()
	a.client.SetFaults(lostRequests)
	snap := c.store.Snapshot()
	c.store.Undo(1000, only(driver.MemberRegister("a")))
	start := time.Now()
	for len(b.kinds(regent.EventStoreRegressed)) == n && time.Since(start) < 2500*time.Millisecond {
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}

	if len(b.kinds(regent.EventStoreRegressed)) == n {
		t.Fatal("b has not noticed")
	}

	c.store.Restore(snap)
	a.client.SetFaults(f)
}

// forgetJoin puts a member's register back to before its holder joined.
func forgetJoin(c *cluster, name string) {
	l, err := c.store.Get(c.ctx, name)
	if err != nil {
		return
	}

	l.Holder = driver.Identity{}
	l.Epoch--
	l.Nonce++
	if _, err := c.store.Swap(c.ctx, l); err != nil {
		panic(err)
	}
}
