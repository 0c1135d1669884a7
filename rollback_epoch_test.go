package regent_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// TestOneEpochTwoHolders: b sees a in epoch 1. The store loses a's claim, and somebody without memory leads in epoch
// 1 too, and releases it. Then b must wait for a.
func TestOneEpochTwoHolders(t *testing.T) {
	bubble(t, func(c *cluster) {
		unseen(c)
		_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Nonce: 7, Duration: 6 * time.Second})
		check(t, err)
		a := c.member("a").lead()
		leader(t, time.Second, a)
		b := c.member("b").lead()
		time.Sleep(7*time.Second + 600*time.Millisecond) // a has just sent a heartbeat
		a.client.Hang()
		if c.store.Undo(1, only("seat")) != 1 {
			t.Fatal("nothing was undone")
		}

		l, err := c.store.Get(c.ctx, "seat")
		check(t, err)
		if !l.Vacant() || l.Epoch != 0 {
			t.Fatalf("the record is %+v", l)
		}

		d := c.member("d")
		d.lead()
		if n, _ := leader(t, time.Second, d); n == nil {
			t.Fatal("d does not lead")
		}
		for v, _ := b.View("seat"); v.Leader != "d"; v, _ = b.View("seat") {
			check(t, b.Pause(c.ctx, "seat"))
			check(t, b.Resume(c.ctx, "seat"))
			time.Sleep(10 * time.Millisecond)
		}

		if len(b.kinds(regent.EventStoreRegressed)) == 0 {
			t.Error("b has seen two holders of one epoch, and did not report it")
		}

		d.quit()
		neverTwo(t, 20*time.Second, a, b)
		if !b.leads() {
			t.Error("b waits for ever")
		}

		a.client.Drop()
		a.quit()
		b.quit()
	})
}

// TestOneEpochTwoHoldersUnseen is the same where b sees only the vacant record that the other holder has left: it
// waits for one lease, and not for one at every read.
func TestOneEpochTwoHoldersUnseen(t *testing.T) {
	bubble(t, func(c *cluster) {
		unseen(c)
		_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Nonce: 7, Duration: 6 * time.Second})
		check(t, err)
		a := c.member("a").lead()
		leader(t, time.Second, a)
		b := c.member("b").lead()
		time.Sleep(7*time.Second + 600*time.Millisecond)
		a.client.Hang()
		b.client.Hang()
		c.store.Undo(1, only("seat"))
		d := c.member("d").lead()
		leader(t, time.Second, d)
		d.quit()
		b.client.Resume()
		neverTwo(t, 30*time.Second, a, b)
		if !b.leads() {
			t.Error("b waits for ever")
		}
		if n := len(b.kinds(regent.EventStoreRegressed)); n != 1 {
			t.Errorf("b has reported it %d times", n)
		}

		a.client.Drop()
		a.quit()
		b.quit()
	})
}

// TestLateClaimThatFitsAgain: b's claim is late, and b sees a lead. The store loses a's claim, so that b's fits after
// all. It must not be adopted.
func TestLateClaimThatFitsAgain(t *testing.T) {
	bubble(t, func(c *cluster) {
		unseen(c)
		_, err := c.store.Swap(c.ctx, driver.Record{Name: "seat", Nonce: 7, Duration: 6 * time.Second})
		check(t, err)
		b := c.member("b")
		pauseFirst := func(p bool) {
			l, _ := c.store.Get(c.ctx, "seat")
			l.Paused = p
			_, err := c.store.Swap(c.ctx, l)
			check(t, err)
		}
		pauseFirst(true)
		b.lead()
		time.Sleep(2 * time.Second)
		slow := &lateSeat{Client: b.client, late: 8 * time.Second}
		b.quit()
		b = c.member("b")
		slow.Client = b.client
		b.Store = slow
		pauseFirst(false)
		c.store.KeepLog(1000)
		b.lead()
		time.Sleep(100 * time.Millisecond) // its claim is on its way
		a := c.member("a").lead()
		if n, _ := leader(t, time.Second, a); n == nil {
			t.Fatal("a does not lead")
		}
		for v, _ := b.View("seat"); v.Leader != "a"; v, _ = b.View("seat") {
			time.Sleep(10 * time.Millisecond)
		}
		for !slow.near() {
			time.Sleep(time.Millisecond)
		}

		c.store.Undo(1, only("seat"))
		a.client.Hang()
		neverTwo(t, 20*time.Second, a, b)
		a.client.Drop()
		a.quit()
		b.quit()
	})
}

// lateSeat delays the first swap of the seat; its caller has given up by then.
type lateSeat struct {
	*memstore.Client
	late time.Duration
	due  atomic.Int64
}

func (s *lateSeat) near() bool {
	d := s.due.Load()
	return d != 0 && time.Now().UnixNano() > d-int64(5*time.Millisecond)
}

func (s *lateSeat) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if l.Name == "seat" && s.due.CompareAndSwap(0, time.Now().Add(s.late).UnixNano()) {
		go func() {
			time.Sleep(s.late)
			_, _ = s.Client.Swap(context.Background(), l)
		}()

		return driver.Record{}, context.DeadlineExceeded
	}

	return s.Client.Swap(ctx, l)
}

// TestLateClaim is about what is learned between the judgement that an election is free and the claim.
func TestLateClaim(t *testing.T) {
	want := map[string]uint64{"after_a_higher_epoch_was_seen": 10, "after_the_store_has_gone_back": 3}
	for name, learn := range map[string]func(*cluster, *node){
		"after_a_higher_epoch_was_seen": func(_ *cluster, b *node) { b.Observe("seat", 9) },
		"after_the_store_has_gone_back": func(c *cluster, b *node) {
			l, err := c.store.Get(c.ctx, "seat")
			check(t, err)
			l.Epoch = 1
			l.Past = nil
			l.Nonce++
			_, err = c.store.Swap(c.ctx, l)
			check(t, err)
			for len(b.kinds(regent.EventStoreRegressed)) == 0 {
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run("the_claim_goes_beyond_it_"+name, func(t *testing.T) {
			bubble(t, func(c *cluster) {
				a := c.member("a").lead()
				leader(t, time.Second, a)
				b := c.member("b").lead()
				time.Sleep(2 * time.Second)
				a.quit()
				leader(t, time.Second, b)
				check(t, b.StepDown(c.ctx, "seat")) // nobody else is there, so that it waits for a while
				time.Sleep(10 * time.Millisecond)
				learn(c, b)
				synctest.Wait()

				known, _ := b.View("seat")
				leader(t, 30*time.Second, b)
				if term, _ := b.Leads("seat"); term.Epoch != known.Known+1 || term.Epoch != want[name] {
					t.Errorf("it claims epoch %d after %d", term.Epoch, known.Known)
				}

				b.quit()
			})
		})
	}
}
