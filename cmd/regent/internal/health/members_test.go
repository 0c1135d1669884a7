package health_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// cluster is real members over a store in memory, each with a monitor as its duty.
type cluster struct {
	t     *testing.T
	store *memstore.Store

	mu     sync.Mutex
	cut    map[string]bool // members that cannot be probed
	events []string
}

// node is a member with its monitor.
type node struct {
	member  *regent.Member
	client  *memstore.Client
	monitor *health.Monitor
	stop    func()
}

func (c *cluster) join(id string) *node {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	n := &node{client: c.store.Client(id, memstore.Faults{})}
	n.member = &regent.Member{Store: n.client, ID: id, Addr: id + ":1", Config: regent.Cluster()}
	var err error
	n.monitor, err = health.New(health.Options{
		Self:              id,
		NewRoster:         n.member.NewRoster,
		HeartbeatInterval: n.member.Config.HeartbeatInterval,
		Changed:           n.client.Subscribe(ctx, driver.Prefix(driver.MemberPrefix)),
		Past: func() []driver.Past {
			v, _ := n.member.View("seat")
			return v.Past
		},
		Probe: func(_ context.Context, v regent.MemberView) (health.Report, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.cut[v.ID] {
				return health.Report{}, errors.New("no route to host")
			}
			return health.Report{Role: "standby", Healthy: true}, nil
		},
		Emit: func(e regent.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if e.Kind != health.EventHealthCheck {
				kind := strings.TrimPrefix(string(e.Kind), "cluster:")
				event := []string{id, kind, e.Metadata["member"], e.Metadata["to"]}
				c.events = append(c.events, strings.Join(event, " "))
			}
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() { done <- n.member.Run(ctx, regent.Duty{Election: "seat", Run: n.monitor.Run}) }()
	n.stop = func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			c.t.Errorf("%s: %v", id, err)
		}
	}
	return n
}

// crash cuts a member off from everybody.
func (c *cluster) crash(id string, n *node) {
	n.client.SetFaults(memstore.Faults{CutRequests: true, CutAnswers: true})
	c.reach(id, false)
}

func (c *cluster) reach(id string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[id] = !yes
}

// wantEvents checks the events since the last call, in any order: "monitor kind member status".
func (c *cluster) wantEvents(want ...string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.events)
	slices.Sort(want)
	if !slices.Equal(c.events, want) {
		c.t.Errorf("events %q, want %q", c.events, want)
	}
	c.events = nil
}

// wantStatus checks the status of the cluster and of its members according to a node. Members are IDs of healthy ones,
// and ID=STATUS of others.
func (c *cluster) wantStatus(n *node, cluster health.Status, members string) {
	c.t.Helper()
	s := n.monitor.Snapshot()
	var got []string
	for _, m := range s.Members {
		if m.Status == health.Healthy {
			got = append(got, m.ID)
		} else {
			got = append(got, m.ID+"="+string(m.Status))
		}
	}
	if s.Status != cluster || strings.Join(got, " ") != members || !s.Known {
		c.t.Errorf("got %s %q %v, want %s %v", s.Status, s.Reasons, got, cluster, members)
	}
}

// TestRealMembers has real members join, leave, crash and come back.
func TestRealMembers(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := &cluster{t: t, store: memstore.New(), cut: map[string]bool{}}
		a := c.join("a")
		time.Sleep(3 * time.Second)
		c.wantStatus(a, health.Healthy, "a")
		nodes := map[string]*node{}
		for _, id := range []string{"b", "d", "e", "f"} {
			nodes[id] = c.join(id)
		}
		time.Sleep(10 * time.Second) // notifications report them
		c.wantStatus(a, health.Healthy, "a b d e f")
		c.wantEvents("a node_up b healthy", "a node_up d healthy", "a node_up e healthy", "a node_up f healthy")
		if s := nodes["b"].monitor.Snapshot(); s.Known {
			t.Errorf("a standby checks: %+v", s)
		}

		time.Sleep(5 * time.Minute)
		c.wantEvents()
		nodes["f"].stop()
		time.Sleep(2 * time.Second)
		c.wantStatus(a, health.Healthy, "a b d e f=gone")
		c.wantEvents("a node_down f gone")

		c.reach("e", false) // its heartbeat continues
		c.crash("d", nodes["d"])
		time.Sleep(45 * time.Second)
		c.wantStatus(a, health.Critical, "a b d=unreachable e=partitioned f=gone")
		c.wantEvents("a partition e partitioned", "a node_down d unreachable")

		c.reach("e", true)
		nodes["d"].client.SetFaults(memstore.Faults{})
		c.reach("d", true)
		time.Sleep(35 * time.Second)
		c.wantStatus(a, health.Healthy, "a b d e f=gone")
		c.wantEvents("a node_up d healthy", "a node_up e healthy")

		nodes["d"].stop()
		nodes["e"].stop()
		time.Sleep(10 * time.Second)
		c.wantEvents("a node_down d gone", "a node_down e gone")
		c.leaderCrashes(a, nodes["b"])
		a.stop()
		nodes["b"].stop()
	})
}

// leaderCrashes has the leader a crash and come back: its successor b misses it, and no other member.
func (c *cluster) leaderCrashes(a, b *node) {
	c.t.Helper()
	c.crash("a", a)
	time.Sleep(20 * time.Second)
	if s := a.monitor.Snapshot(); s.Known {
		c.t.Errorf("a former leader checks: %+v", s)
	}
	c.wantStatus(b, health.Critical, "a=gone b")
	reasons := b.monitor.Snapshot().Reasons
	if len(reasons) != 1 || !strings.Contains(reasons[0], "a (gone: it led the term before, which ended: expired)") {
		c.t.Errorf("reasons %q", reasons)
	}
	c.wantEvents("b node_down a gone")

	a.client.SetFaults(memstore.Faults{})
	c.reach("a", true)
	time.Sleep(10 * time.Second)
	c.wantStatus(b, health.Healthy, "a b")
	c.wantEvents("b node_up a healthy")
}
