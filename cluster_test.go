package regent_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// cluster is a store and members of it, in a synctest bubble.
type cluster struct {
	t     *testing.T
	store *memstore.Store
	ctx   context.Context
	mu    sync.Mutex
	log   []string // what happened, in order
}

// bubble runs f with a cluster in virtual time. All that f started has stopped when it ends.
func bubble(t *testing.T, f func(*cluster)) {
	t.Helper()
	virtual.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &cluster{t: t, store: memstore.New(), ctx: ctx}
		f(c)
		cancel()
		synctest.Wait()
	})
}

func (c *cluster) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// noted returns how many notes are equal to what.
func (c *cluster) noted(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.log {
		if l == what {
			n++
		}
	}

	return n
}

// node is a member that leads "seat" until it is stopped.
type node struct {
	*regent.Member
	c      *cluster
	client *memstore.Client
	stop   context.CancelFunc
	done   chan struct{}
	err    error

	mu     sync.Mutex
	events []regent.Event
}

// member returns a member that does nothing yet. Its events are kept.
func (c *cluster) member(id string, change ...func(*regent.Member)) *node {
	n := &node{c: c, client: c.store.Client(id, memstore.Faults{})}
	n.Member = &regent.Member{Store: n.client, ID: id, Addr: id + ":1", OnEvent: func(e regent.Event) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.events = append(n.events, e)
	}}
	for _, f := range change {
		f(n.Member)
	}
	return n
}

// config changes the profile that a member has.
func config(c regent.Config, change ...func(*regent.Config)) func(*regent.Member) {
	for _, f := range change {
		f(&c)
	}
	return func(m *regent.Member) { m.Config = c }
}

// lead starts the node's campaign for "seat", with a duty that notes its start and its stop.
func (n *node) lead() *node {
	ctx, cancel := context.WithCancel(n.c.ctx)
	n.stop, n.done = cancel, make(chan struct{})
	go func() {
		defer close(n.done)
		n.err = n.Lead(ctx, "seat", func(ctx context.Context, t regent.Term) error {
			n.c.note("%s starts %d", n.ID, t.Epoch)
			<-ctx.Done()
			n.c.note("%s stops %d: %v", n.ID, t.Epoch, context.Cause(ctx))
			return nil
		})
	}()

	return n
}

// quit stops the node gracefully and waits for it.
func (n *node) quit() {
	n.stop()
	<-n.done
}

func (n *node) leads() bool {
	_, ok := n.Leads("seat")
	return ok
}

// kinds returns the node's events of one kind.
func (n *node) kinds(kind regent.EventKind) []regent.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.events), func(e regent.Event) bool { return e.Kind != kind })
}

// leader waits up to limit for one of the nodes to lead, and returns it with the time that took.
func leader(t *testing.T, limit time.Duration, nodes ...*node) (*node, time.Duration) {
	t.Helper()
	for start := time.Now(); time.Since(start) <= limit; time.Sleep(time.Millisecond) {
		synctest.Wait()
		var who []*node
		for _, n := range nodes {
			if n.leads() {
				who = append(who, n)
			}
		}

		if len(who) > 1 {
			t.Fatalf("%s and %s both lead", who[0].ID, who[1].ID)
		}
		if len(who) == 1 {
			return who[0], time.Since(start)
		}
	}

	t.Fatalf("nobody leads after %v", limit)
	return nil, 0
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
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

// faults is short for what goes wrong between a member and the store.
type faults = memstore.Faults
