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

// cluster is members over a store in memory, each with a monitor as its duty.
type cluster struct {
	t     *testing.T
	store *memstore.Store

	mu   sync.Mutex
	cut  map[string]bool // who cannot be probed
	told []string
}

// node is one of them.
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
		Self: id, Members: n.member.Members, HeartbeatInterval: n.member.Config.HeartbeatInterval,
		Changed: n.client.Wake(ctx, driver.MemberRegister("")),
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
				c.told = append(c.told, id+" tells "+e.Kind+" "+e.Metadata["member"]+" "+e.Metadata["to"])
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

func (c *cluster) wantTold(want ...string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.told) // who joins first, of several, is not fixed
	slices.Sort(want)
	if !slices.Equal(c.told, want) {
		c.t.Errorf("told %q, want %q", c.told, want)
	}
	c.told = nil
}

// want checks what a node shows of the others.
func (c *cluster) want(n *node, cluster health.Status, members map[string]health.Status) {
	c.t.Helper()
	s := n.monitor.Snapshot()
	got := map[string]health.Status{}
	for _, m := range s.Members {
		got[m.ID] = m.Status
	}
	for id, status := range members {
		if got[id] != status {
			c.t.Errorf("%s is %q, want %s", id, got[id], status)
		}
	}
	if s.Status != cluster || len(got) != len(members) || !s.Known {
		c.t.Errorf("got %s %q %v, want %s %v", s.Status, s.Reasons, got, cluster, members)
	}
}

func TestMembersOfTheLibrary(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		c := &cluster{t: t, store: memstore.New(), cut: map[string]bool{}}
		a := c.join("a")
		time.Sleep(3 * time.Second)
		c.want(a, health.Healthy, map[string]health.Status{"a": health.Healthy})
		b, d, e, f := c.join("b"), c.join("d"), c.join("e"), c.join("f")
		time.Sleep(10 * time.Second) // the push tells of them
		c.want(a, health.Healthy, map[string]health.Status{"a": health.Healthy, "b": health.Healthy, "d": health.Healthy, "e": health.Healthy, "f": health.Healthy})
		c.wantTold("a tells cluster:node_up b healthy", "a tells cluster:node_up d healthy", "a tells cluster:node_up e healthy", "a tells cluster:node_up f healthy")
		if s := b.monitor.Snapshot(); s.Known {
			t.Errorf("a standby observes: %+v", s)
		}

		time.Sleep(5 * time.Minute)
		c.wantTold()
		f.stop()
		time.Sleep(2 * time.Second)
		c.want(a, health.Healthy, map[string]health.Status{"a": health.Healthy, "b": health.Healthy, "d": health.Healthy, "e": health.Healthy, "f": health.Gone})
		c.wantTold("a tells cluster:node_down f gone")

		c.reach("e", false) // it goes on, but nobody gets there
		c.crash("d", d)
		time.Sleep(45 * time.Second)
		c.want(a, health.Critical, map[string]health.Status{"a": health.Healthy, "b": health.Healthy, "d": health.Unreachable, "e": health.Partitioned, "f": health.Gone})
		c.wantTold("a tells cluster:partition e partitioned", "a tells cluster:node_down d unreachable")
		c.reach("e", true)
		d.client.SetFaults(memstore.Faults{})
		c.reach("d", true)
		time.Sleep(35 * time.Second)
		c.want(a, health.Healthy, map[string]health.Status{"a": health.Healthy, "b": health.Healthy, "d": health.Healthy, "e": health.Healthy, "f": health.Gone})
		c.wantTold("a tells cluster:node_up d healthy", "a tells cluster:node_up e healthy")

		// The leader dies: its successor misses it, and is surprised by nobody else.
		d.stop()
		e.stop()
		time.Sleep(10 * time.Second)
		c.wantTold("a tells cluster:node_down d gone", "a tells cluster:node_down e gone")
		c.crash("a", a)
		time.Sleep(20 * time.Second)
		if s := a.monitor.Snapshot(); s.Known {
			t.Errorf("a former leader observes: %+v", s)
		}
		c.want(b, health.Critical, map[string]health.Status{"a": health.Gone, "b": health.Healthy})
		if r := b.monitor.Snapshot().Reasons; len(r) != 1 || !strings.Contains(r[0], "a (gone: it led the term before, which ended: expired)") {
			t.Errorf("b says %q", r)
		}
		c.wantTold("b tells cluster:node_down a gone")
		a.client.SetFaults(memstore.Faults{})
		c.reach("a", true)
		time.Sleep(10 * time.Second)
		c.want(b, health.Healthy, map[string]health.Status{"a": health.Healthy, "b": health.Healthy})
		c.wantTold("b tells cluster:node_up a healthy")
		a.stop()
		b.stop()
	})
}
