package regent_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// panicky panics in one swap.
type panicky struct {
	*memstore.Client
	once atomic.Bool
}

func (p *panicky) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if p.once.Swap(false) {
		panic("driver")
	}
	return p.Client.Swap(ctx, l)
}

// A member that a failing duty has made ill, and which restarts before it is well again.
func TestUnhealthyOverARestart(t *testing.T) {
	for _, panics := range []bool{false, true} {
		bubble(t, func(c *cluster) {
			var fails atomic.Bool
			fails.Store(true)
			a := c.member("a")
			p := &panicky{Client: a.client}
			a.Store = p
			ctx, cancel := context.WithCancel(c.ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = a.Run(ctx, regent.Duty{Election: "seat", Name: "d", Run: func(ctx context.Context, _ regent.Term) error {
					if fails.Load() {
						return errors.New("fails")
					}
					<-ctx.Done()
					return nil
				}})
			}()
			leader(t, time.Second, a)
			b := c.member("b").lead()
			if n, _ := leader(t, 2*time.Minute, b); n == nil {
				t.Fatal("b does not lead")
			}
			fails.Store(false)
			time.Sleep(5 * time.Second)
			p.once.Store(panics)
			time.Sleep(10 * time.Second)
			t.Log("restarted", len(a.kinds(regent.EventCandidateRestarted)))
			b.quit()
			n, took := leaderOrNil(10*time.Minute, a)
			t.Log("panics", panics, "leads", n != nil, "after", took)
			if n == nil {
				t.Errorf("panics %v: nobody leads for ten minutes", panics)
			}
			cancel()
			<-done
		})
	}
}

func leaderOrNil(limit time.Duration, n *node) (*node, time.Duration) {
	start := time.Now()
	for time.Since(start) < limit {
		if n.leads() {
			return n, time.Since(start)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, limit
}

// A standby of many elections and a store that hangs: is its loop reported as stuck?
func TestLoopLagOfManyElections(t *testing.T) {
	bubble(t, func(c *cluster) {
		duties := make([]regent.Duty, 12000)
		for i := range duties {
			duties[i].Election = fmt.Sprintf("seat%05d", i)
		}
		var nodes [2]*node
		var dones [2]chan struct{}
		ctx, cancel := context.WithCancel(c.ctx)
		for i, id := range []string{"a", "b"} {
			n := c.member(id)
			nodes[i] = n
			dones[i] = make(chan struct{})
			go func() { defer close(dones[i]); _ = n.Run(ctx, duties...) }()
			time.Sleep(10 * time.Second)
		}
		b := nodes[1]
		c.store.Hang()
		var most time.Duration
		var lost time.Duration
		start := time.Now()
		for range 6000 {
			time.Sleep(10 * time.Millisecond)
			most = max(most, b.Stats().LoopLag)
		}
		c.store.Drop()
		resumed := time.Now()
		for lost = 0; lost < 5*time.Minute; lost = time.Since(resumed) {
			time.Sleep(100 * time.Millisecond)
			_, x := nodes[0].Leads("seat00000")
			_, y := b.Leads("seat00000")
			if x || y {
				break
			}
		}
		t.Log("lag", most, "leader after", lost, time.Since(start))
		if most > 0 {
			t.Errorf("the loop of a standby was late by %v, so that livez fails", most)
		}
		cancel()
		<-dones[0]
		<-dones[1]
	})
}
