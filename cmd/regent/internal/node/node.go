// Package node is the daemon behind 'regent serve': a member, what it knows of its election and of its store, and how both are told to
// others. Tests start it in their own process.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/regentd/regent"
)

// Options is what a node is made of.
type Options struct {
	Config   regent.Config
	Election string
	ID       string // the library's default if empty
	Addr     string // that others are told
	Log      *slog.Logger
	Open     func(context.Context) (regent.Store, error)
	Duties   []regent.Duty         // run while the node leads
	Lifeline func(regent.Lifeline) // for a companion process, or nil
	Store    string                // the store's address, without secrets
}

// Node is a member that runs as a daemon.
type Node struct {
	Member *regent.Member
	Hub    *Hub

	opts  Options
	store *Store

	mu         sync.Mutex
	reasons    map[string]uint64 // terms ended, by reason
	leaderless time.Duration     // how long the seat was vacant, as far as this node saw
	since      time.Time         // when that was last counted
}

// New returns a node that does nothing yet.
func New(opts Options) *Node {
	n := &Node{opts: opts, Hub: &Hub{}, store: NewStore(opts.Open), reasons: map[string]uint64{}}
	log := regent.LogEvents(opts.Log)
	n.Member = &regent.Member{Store: n.store, ID: opts.ID, Addr: opts.Addr, Config: opts.Config, OnLifeline: opts.Lifeline,
		OnEvent: func(e regent.Event) {
			log(e)
			n.take(e)
			n.Hub.Send(e)
		}}
	return n
}

// Run is the node's life: it returns when ctx has ended, its duties have stopped, its seat is released and its store is closed, in this order.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	n.since = time.Now()
	n.mu.Unlock()
	var work sync.WaitGroup
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	work.Go(func() {
		n.store.Run(life, func(err error) { n.opts.Log.Error("store unreachable", "store", n.opts.Store, "error", err) })
	})
	work.Go(func() { n.countLeaderless(life) })
	duties := n.opts.Duties
	if len(duties) == 0 {
		duties = []regent.Duty{{Election: n.opts.Election}}
	}
	err := n.Member.Run(ctx, duties...)
	cancel()
	work.Wait()
	if cerr := n.store.Close(); cerr != nil {
		n.opts.Log.Warn("closing the store failed", "store", n.opts.Store, "error", cerr)
	}
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// take counts what the metrics tell.
func (n *Node) take(e regent.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e.Kind == regent.EventLostLeadership {
		n.reasons[e.Metadata["reason"]]++
	}
}

// countLeaderless adds up the time in which this node saw the seat vacant. A dead leader's name stands in it until it is taken over.
func (n *Node) countLeaderless(ctx context.Context) {
	const every = 100 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			v, ok := n.Member.View(n.opts.Election)
			n.mu.Lock()
			if !ok || v.Leader == "" {
				n.leaderless += now.Sub(n.since)
			}
			n.since = now
			n.mu.Unlock()
		}
	}
}

// Role is what a node is in its election.
type Role string

// The roles. A node is unknown while it cannot see the store and does not lead.
const (
	Leader   Role = "leader"
	Standby  Role = "standby"
	Observer Role = "observer"
	Starting Role = "starting"
	Unknown  Role = "unknown"
)

// Health is how a node is.
type Health struct {
	Node             string            `json:"node"`
	Role             Role              `json:"role"`
	Leader           string            `json:"leader"`
	LeaderAddr       string            `json:"leaderAddr"`
	Epoch            uint64            `json:"epoch"`
	LeaseRemainingMs int64             `json:"leaseRemainingMs"`
	Store            StoreHealth       `json:"store"`
	Checks           map[string]string `json:"checks"`
}

// StoreHealth is how a node's store is, as far as it has asked.
type StoreHealth struct {
	Address    string `json:"address"`
	Reachable  bool   `json:"reachable"`
	AnsweredMs int64  `json:"answeredMs"` // how long ago; -1 for never
	Error      string `json:"error,omitempty"`
}

// ok is what a check says that has passed.
const ok = "ok"

// Health tells how the node is, without asking the store.
func (n *Node) Health() Health {
	h := Health{Node: n.Member.ID, Checks: map[string]string{"loop": ok, "store": ok}, Store: StoreHealth{Address: n.opts.Store, AnsweredMs: -1}}
	at, failed := n.store.Seen()
	fresh := n.fresh()
	if !at.IsZero() {
		h.Store.AnsweredMs = time.Since(at).Milliseconds()
	}
	h.Store.Reachable = !at.IsZero() && time.Since(at) <= fresh
	if failed != nil {
		h.Store.Error = failed.Error()
	}
	if !h.Store.Reachable {
		h.Checks["store"] = fmt.Sprintf("no answer for more than %v", fresh)
	}
	if lag := n.Member.Stats().LoopLag; lag > 0 {
		h.Checks["loop"] = fmt.Sprintf("overdue by %v", lag.Round(time.Millisecond))
	}
	v, seen := n.Member.View(n.opts.Election)
	h.Leader, h.LeaderAddr, h.Epoch = v.Leader, v.Addr, v.Epoch
	t, leads := n.Member.Leads(n.opts.Election)
	switch {
	case leads:
		h.Role, h.LeaseRemainingMs, h.Epoch = Leader, t.Remaining().Milliseconds(), t.Epoch
		h.Leader, h.LeaderAddr = n.Member.ID, n.opts.Addr
	case !h.Store.Reachable && !at.IsZero():
		h.Role = Unknown
	case !seen:
		h.Role = Starting
	case !n.opts.Config.Eligible:
		h.Role = Observer
	default:
		h.Role = Standby
	}
	if h.Role != Leader && h.Leader == n.Member.ID {
		// The record still names this node, which does not believe in it any more.
		h.Leader, h.LeaderAddr = "", ""
	}
	return h
}

// fresh is how long an answer of the store counts: a few heartbeats, or a few looks of a member that writes none.
func (n *Node) fresh() time.Duration {
	c := n.opts.Config
	if c.OwnLease && !c.Register {
		return max(c.ElectionIntervalMax, c.RenewInterval, c.LeaseDuration) + 10*time.Second
	}
	return 3*c.HeartbeatInterval + 2*time.Second
}

// Live reports whether the node's own loop goes round. It never asks the store.
func (n *Node) Live() error {
	if lag := n.Member.Stats().LoopLag; lag > stuckAfter {
		return fmt.Errorf("the node's loop is overdue by %v", lag.Round(time.Second))
	}
	return nil
}

// stuckAfter is how long the loop may be overdue before the node counts as stuck. A slow store is no reason: each request has its own limit.
const stuckAfter = 30 * time.Second

// Election is the name of the node's election.
func (n *Node) Election() string { return n.opts.Election }

// Counts are what only the node counts.
type Counts struct {
	Ended      map[string]uint64 // terms, by the reason for which they ended
	Leaderless time.Duration
}

// Counts returns what the node has counted.
func (n *Node) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := Counts{Ended: map[string]uint64{}, Leaderless: n.leaderless}
	for k, v := range n.reasons {
		c.Ended[k] = v
	}
	return c
}

// Watchdog tells the service manager that the node lives, until ctx ends.
func (n *Node) Watchdog(ctx context.Context, to Notifier) { to.Watch(ctx, n.Live) }
