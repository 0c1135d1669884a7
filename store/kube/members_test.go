package kube

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/storetest"
)

const election = "orders"

// candidates is all who campaign in one election, members and electors of client-go, and what happened. It checks that
// no two of them work at once, and that the epochs of members increase.
type candidates struct {
	t     *testing.T
	stops map[string]func() // of members

	mu      sync.Mutex
	working map[string]uint64 // who works now, and in which epoch
	last    uint64            // the epoch of the last term of a member
	events  map[regent.EventKind]int
}

func newCandidates(t *testing.T) *candidates {
	return &candidates{
		t: t, stops: map[string]func(){}, working: map[string]uint64{}, events: map[regent.EventKind]int{},
	}
}

// join starts a member. Other duties come before its work.
func (c *candidates) join(id string, s *Store, cfg regent.Config, duties ...regent.Duty) *regent.Member {
	m := &regent.Member{ID: id, Store: s, Config: cfg, OnEvent: func(e regent.Event) {
		c.mu.Lock()
		c.events[e.Kind]++
		c.mu.Unlock()
	}}
	work := func(ctx context.Context, t regent.Term) error {
		c.work(ctx, id, t.Epoch)
		return ctx.Err()
	}
	c.stops[id] = storetest.RunMember(c.t, m, append(duties, regent.Duty{Election: election, Run: work})...)
	return m
}

// leave stops a member.
func (c *candidates) leave(id string) { c.stops[id]() }

// work is the work of whoever leads. An elector has no epoch: 0.
func (c *candidates) work(ctx context.Context, id string, epoch uint64) {
	c.mu.Lock()
	if len(c.working) > 0 {
		c.t.Errorf("%s works at the same time as %q", id, slices.Collect(maps.Keys(c.working)))
	}
	if epoch > 0 && epoch <= c.last {
		c.t.Errorf("%s works in epoch %d, after epoch %d", id, epoch, c.last)
	}
	c.last = max(c.last, epoch)
	c.working[id] = epoch
	c.mu.Unlock()

	<-ctx.Done()
	c.mu.Lock()
	delete(c.working, id)
	c.mu.Unlock()
}

// worker returns who works now, and in which epoch.
func (c *candidates) worker() (id string, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, epoch = range c.working {
	}
	return id, epoch
}

// worksAs waits until somebody works.
func (c *candidates) worksAs(want string) {
	c.t.Helper()
	eventually(c.t, want+" works", func() bool {
		id, _ := c.worker()
		return id == want
	})
}

// beyond waits until a member works in an epoch above another one, and returns it.
func (c *candidates) beyond(epoch uint64) uint64 {
	c.t.Helper()
	next := epoch
	eventually(c.t, "a member works in a later epoch", func() bool {
		_, next = c.worker()
		return next > epoch
	})
	return next
}

func (c *candidates) happened(kind regent.EventKind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events[kind]
}

// hasten returns a configuration with leases and intervals for tests that wait for leases to expire.
func hasten(cfg regent.Config) regent.Config {
	const often = 500 * time.Millisecond
	for _, d := range []*time.Duration{&cfg.HeartbeatInterval, &cfg.RenewInterval, &cfg.StopTimeout,
		&cfg.ElectionInterval} {
		*d = often
	}
	cfg.LeaseDuration = peerLease
	cfg.WorkerTimeout = peerLease
	cfg.TakeoverDelay = 0
	return cfg
}

// quick returns leases of which that of the member is renewed.
func quick() regent.Config { return hasten(regent.Cluster()) }

// quickLock returns leases of which that of the election is renewed.
func quickLock() regent.Config { return hasten(regent.Lock()) }
