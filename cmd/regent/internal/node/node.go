// Package node is the daemon behind 'regent serve': a member, what it knows of its election and of its store, and how both are told to
// others. Tests start it in their own process.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/work"
)

// Options is what a node is made of.
type Options struct {
	Config   regent.Config
	Election string
	ID       string // the library's default if empty
	Addr     string // that others are told
	Log      *slog.Logger
	Open     func(context.Context) (driver.Store, error)
	Duties   []regent.Duty // run while the node leads, besides what every leader does
	Crew     Crew
	Lifeline func(regent.Lifeline) // for a companion process, or nil
	Store    string                // the store's address, without secrets
	Facts    map[string]string     // what others are told of this node: see Facts
	Now      func() time.Time      // the wall clock that polls are due by; time.Now if nil
}

// Node is a member that runs as a daemon.
type Node struct {
	Member  *regent.Member
	Hub     *Hub
	Cluster *health.Monitor
	Polls   *poll.Orchestrator
	Worker  *work.Worker // nil if it is none

	opts    Options
	signer  *signed.Signer
	store   *Store
	changed chan driver.Record // a hint that members have come or gone
	peers   peers

	mu         sync.Mutex
	reasons    map[string]uint64 // terms ended, by reason
	regressed  uint64            // how often the store was found to have lost writes
	leaderless time.Duration     // how long the seat was vacant, as far as this node saw
	since      time.Time         // when that was last counted
	facts      map[string]string // what others are told of this node
	behind     time.Time         // since when the store shows less than this node knows; zero if it does not
}

// New returns a node that does nothing yet.
func New(opts Options) (*Node, error) {
	if opts.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("the node has no name, and the host neither: %w", err)
		}
		opts.ID = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	n := &Node{opts: opts, Hub: NewHub(), store: NewStore(opts.Open), reasons: map[string]uint64{}, facts: opts.Facts}
	n.store.Log = opts.Log
	log := logEvents(opts.Log)
	n.Member = &regent.Member{Store: n.store, ID: opts.ID, Addr: opts.Addr, Config: opts.Config, OnLifeline: opts.Lifeline, Facts: opts.Facts,
		OnEvent: func(e regent.Event) {
			if e.Kind == regent.EventMemberStarted {
				n.store.Begin()
			}
			log(e)
			n.take(e)
			n.learn(e) // it may wait for the disk; whoever sees the event on the stream finds the fence raised
			n.Hub.Send(e)
		}}
	return n, n.coordinate()
}

// Run is the node's life: it returns when ctx has ended, its tasks and duties have stopped, its seat is released and its store is closed, in this order.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	n.since = time.Now()
	n.mu.Unlock()
	if n.opts.Config.StartupJitterMax == 0 {
		n.store.Begin()
	}
	var others sync.WaitGroup
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	campaign, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var refused error
	others.Go(func() {
		refused = n.store.Run(life, func(err error) {
			n.opts.Log.Error("store unreachable", "store", n.opts.Store, "error", err)
		})
		if refused != nil {
			stop(refused)
		}
	})
	others.Go(func() { n.countLeaderless(life) })
	others.Go(func() { n.passHints(life) })
	others.Go(func() { n.watchLeader(life) })
	unhook := context.AfterFunc(ctx, func() {
		n.wind(n.opts.Log)
		stop(context.Cause(ctx))
	})
	defer unhook()
	err := n.Member.Run(campaign, n.duties()...)
	cancel()
	others.Wait()
	if n.Worker != nil {
		if cerr := n.Worker.Close(); cerr != nil {
			n.opts.Log.Warn("closing the journal failed", "error", cerr)
		}
	}
	if cerr := n.store.Close(); cerr != nil {
		n.opts.Log.Warn("closing the store failed", "store", n.opts.Store, "error", cerr)
	}
	if refused != nil {
		return refused
	}
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// logEvents writes events as the library does, but those that only a node knows at a level of their own.
func logEvents(l *slog.Logger) func(regent.Event) {
	log := regent.LogEvents(l)
	quieter := regent.LogEvents(slog.New(levelHandler{l.Handler(), slog.LevelDebug}))
	louder := regent.LogEvents(slog.New(levelHandler{l.Handler(), slog.LevelWarn}))
	return func(e regent.Event) {
		switch {
		case e.Kind == health.EventHealthCheck: // twice a minute is too much for a log
			quieter(e)
		case e.Kind == EventConfigDiffers && e.Metadata["key"] != factVersion, e.Kind == health.EventNodeDown, e.Kind == health.EventPartition, e.Kind == poll.EventMissed, e.Kind == poll.EventClock,
			e.Kind == poll.EventChanged && e.Metadata["to"] == string(poll.Down):
			louder(e)
		default:
			log(e)
		}
	}
}

// levelHandler writes everything at one level.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, h.level)
}

func (h levelHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = h.level
	return h.Handler.Handle(ctx, r)
}

// passHints tells the monitor that members have come or gone.
func (n *Node) passHints(ctx context.Context) {
	for hints := n.store.Wake(ctx, memberPrefix); ; {
		select {
		case l := <-hints:
			driver.Hint(n.changed, l)
		case <-ctx.Done():
			return
		}
	}
}

// take counts what the metrics tell.
func (n *Node) take(e regent.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.Kind == regent.EventLostLeadership && e.Node == n.Member.ID:
		n.reasons[e.Metadata["reason"]]++
	case e.Kind == regent.EventStoreRegressed && e.Election == n.opts.Election:
		n.regressed++
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
			n.noteEpoch(v, ok, now)
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
	HeartbeatAgeMs   int64             `json:"heartbeatAgeMs,omitempty"` // of another node that leads: how old its newest heartbeat is
	Store            StoreHealth       `json:"store"`
	Checks           map[string]string `json:"checks"`
	Differs          []Difference      `json:"differs,omitempty"` // from other members, in configuration
}

// ok is what a check says that has passed.
const ok = "ok"

// Health tells how the node is, without asking the store.
func (n *Node) Health() Health {
	h := Health{Node: n.Member.ID, Checks: map[string]string{"loop": ok, "store": ok}, Store: StoreHealth{Address: n.opts.Store, AnsweredMs: -1}}
	n.addStore(&h)
	if lag := n.Member.Stats().LoopLag; lag > 0 {
		h.Checks["loop"] = fmt.Sprintf("overdue by %v", lag.Round(time.Millisecond))
	}
	v, seen := n.Member.View(n.opts.Election)
	h.Leader, h.LeaderAddr = v.Leader, v.Addr
	n.tellEpoch(&h, v, seen)
	n.tellPeers(&h)
	addLeader(&h, v)
	t, leads := n.Member.Leads(n.opts.Election)
	switch {
	case leads:
		h.Role, h.LeaseRemainingMs, h.Epoch = Leader, t.Remaining().Milliseconds(), t.Epoch
		h.Leader, h.LeaderAddr = n.Member.ID, n.opts.Addr
		delete(h.Checks, "leader")
	case !h.Store.Reachable && h.Store.AnsweredMs >= 0:
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

// Config is how the member behaves.
func (n *Node) Config() regent.Config { return n.opts.Config }

// Peers returns how other nodes are reached.
func (n *Node) Peers() (client *http.Client, scheme string) {
	return n.opts.Crew.Client, n.opts.Crew.Scheme
}

// Signer signs requests to other nodes, where there is a token.
func (n *Node) Signer() *signed.Signer { return n.signer }

// Drifts returns how many tasks and other work this node has refused for their old epochs.
func (n *Node) Drifts() uint64 {
	drifts := n.Member.Stats().EpochDriftEvents
	if n.Worker != nil {
		drifts += n.Worker.Fence.Refused()
	}
	return drifts
}

// Counts are what only the node counts.
type Counts struct {
	Ended      map[string]uint64 // terms, by the reason for which they ended
	Leaderless time.Duration
	Regressed  uint64            // how often the store was found to have lost writes
	Requests   map[string]uint64 // to the store, by kind
}

// Counts returns what the node has counted.
func (n *Node) Counts() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := Counts{Ended: map[string]uint64{}, Leaderless: n.leaderless, Regressed: n.regressed, Requests: n.store.Requests()}
	for k, v := range n.reasons {
		c.Ended[k] = v
	}
	return c
}

// Watchdog tells the service manager that the node lives, until ctx ends.
func (n *Node) Watchdog(ctx context.Context, to Notifier) { to.Watch(ctx, n.Live) }
