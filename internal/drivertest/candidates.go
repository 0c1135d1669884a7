package drivertest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// Candidates is members that campaign in one election, and what happened. The test fails if two of them led at once, or
// if epochs did not increase.
type Candidates struct {
	t        testing.TB
	election string

	mu      sync.Mutex
	working map[uint64]string // who works now, by epoch
	epochs  []uint64          // in which terms began, in order
	overlap bool              // two worked at once
	events  map[regent.EventKind]int
}

// NewCandidates returns Candidates without members.
func NewCandidates(t testing.TB, election string) *Candidates {
	c := &Candidates{t: t, election: election, working: map[uint64]string{}, events: map[regent.EventKind]int{}}
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.overlap {
			t.Error("two members led at once")
		}
		for i := 1; i < len(c.epochs); i++ {
			if c.epochs[i] <= c.epochs[i-1] {
				t.Errorf("the epochs %v do not increase", c.epochs)
			}
		}
	})
	return c
}

// Join starts a member.
func (c *Candidates) Join(id string, store driver.Store, cfg regent.Config) *regent.Member {
	c.t.Helper()
	m := &regent.Member{ID: id, Store: store, Config: cfg, OnEvent: func(e regent.Event) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.events[e.Kind]++
	}}
	storetest.RunMember(c.t, m, regent.Duty{Election: c.election, Run: func(ctx context.Context, t regent.Term) error {
		c.mu.Lock()
		c.overlap = c.overlap || len(c.working) > 0
		c.working[t.Epoch] = id
		c.epochs = append(c.epochs, t.Epoch)
		c.mu.Unlock()

		<-ctx.Done()
		c.mu.Lock()
		delete(c.working, t.Epoch)
		c.mu.Unlock()
		return ctx.Err()
	}})
	return m
}

// Leads waits until somebody leads beyond an epoch, and returns who and in which epoch.
func (c *Candidates) Leads(beyond uint64) (id string, epoch uint64) {
	c.t.Helper()
	Eventually(c.t, "somebody leads", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for e, who := range c.working {
			id, epoch = who, e
		}
		return len(c.working) > 0 && epoch > beyond
	})
	return id, epoch
}

// Happened returns how many events of a kind there were.
func (c *Candidates) Happened(kind regent.EventKind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[kind]
}

// GoBack has a member lead two more terms, which restore makes the store forget, twice. The member must say so, and
// lead beyond every epoch that it has seen.
func (c *Candidates) GoBack(m *regent.Member, epoch uint64, restore func()) {
	c.t.Helper()
	for range 2 { // terms that are lost
		if err := m.StepDown(c.t.Context(), c.election); err != nil {
			c.t.Fatal(err)
		}
		_, epoch = c.Leads(epoch)
	}

	for again := range 2 { // gone back, and gone back once more
		before := c.Happened(regent.EventStoreRegressed)
		restore()
		Eventually(c.t, "somebody says that the store has lost writes", func() bool {
			return c.Happened(regent.EventStoreRegressed) > before
		})
		_, next := c.Leads(epoch)
		if next <= epoch {
			c.t.Errorf("time %d: epoch %d after %d", again, next, epoch)
		}
		epoch = next
	}
}

// Quick returns leases for tests that wait for them to expire.
func Quick() regent.Config {
	cfg := regent.Cluster()
	cfg.LeaseDuration = 4 * time.Second
	cfg.HeartbeatInterval = 500 * time.Millisecond
	cfg.RenewInterval = cfg.HeartbeatInterval
	cfg.WorkerTimeout = cfg.LeaseDuration
	cfg.StopTimeout = 500 * time.Millisecond
	cfg.ElectionInterval = 500 * time.Millisecond
	cfg.TakeoverDelay = 0
	return cfg
}
