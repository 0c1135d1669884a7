// Package node is the daemon behind 'regent serve': a member with its coordination duties and its worker, and what the
// API reports about them. Tests start it in their own process.
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
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/work"
)

// Options configures a Node.
type Options struct {
	Config       regent.Config
	Election     string
	ID           string // the host name and process ID if empty
	Addr         string // that other nodes use
	Log          *slog.Logger
	Open         func(context.Context) (driver.Store, error)
	Duties       []regent.Duty // run while the node leads, besides those of every leader
	Coordination Coordination
	HealthCheck  *HealthCheck          // decides whether the node may lead; nil for none
	Lifeline     func(regent.Lifeline) // for the reaper, or nil
	Store        string                // the store's address, without secrets
	Facts        map[string]string     // published to other members: see Facts
	Now          func() time.Time      // the wall clock for due times of polls; time.Now if nil
}

// Node is a member that runs as a daemon.
type Node struct {
	Member  *regent.Member
	Hub     *Hub
	Cluster *health.Monitor
	Polls   *orchestrate.Orchestrator
	Worker  *work.Worker // nil if the node is none

	opts       Options
	retirement regent.Duty // removes registers that nobody uses
	signer     *signed.Signer
	store      *Store
	changed    chan driver.Record // receives when members have joined or left
	election   chan struct{}      // receives after events of the election
	peers      peers
	checker    *HealthChecker // nil if the node has no health check

	mu         sync.Mutex
	reasons    map[string]uint64 // ended terms, by reason
	regressed  uint64            // how often the store was found to have lost writes
	leaderless time.Duration     // how long nobody led, as far as this node saw
	counted    time.Time         // when leaderless was last updated
	led        bool              // somebody led then
	facts      map[string]string // published to other members
	unlearned  *regent.Token     // that the worker's fence could not write
	behind     time.Time         // since when the store shows a lower epoch than this node knows; zero if it does not
}

// New returns a node. It contacts nobody before Run.
func New(opts Options) (*Node, error) {
	if opts.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("node is not set, and the host has no name to use instead: %w", err)
		}
		opts.ID = fmt.Sprintf("%s-%d", host, os.Getpid())
	}

	n := &Node{
		opts:    opts,
		Hub:     NewHub(),
		store:   NewStore(opts.Open),
		reasons: map[string]uint64{},
		facts:   opts.Facts,

		election: make(chan struct{}, 1),
	}
	n.store.Log = opts.Log
	n.store.Address = opts.Store
	n.Member = &regent.Member{
		Store:      n.store,
		ID:         opts.ID,
		Addr:       opts.Addr,
		Config:     opts.Config,
		OnLifeline: opts.Lifeline,
		Facts:      opts.Facts,
		OnEvent:    n.onEvent(),
	}
	if opts.HealthCheck != nil {
		n.checker = NewHealthChecker(opts.HealthCheck)
		n.Member.Health = n.checker.Unhealthy
	}

	return n, n.coordinate()
}

// onEvent returns the function that handles the events of the member.
func (n *Node) onEvent() func(regent.Event) {
	log := logEvents(n.opts.Log)
	return func(e regent.Event) {
		if e.Kind == regent.EventMemberStarted {
			n.store.Begin()
		}

		log(e)
		n.count(e)
		n.raiseFence(e) // it may wait for the disk: whoever sees the event on the stream finds the fence raised
		n.Hub.Send(e)
	}
}

// Run runs the node until ctx ends. It then stops tasks and duties, releases the election and closes the store, in this
// order.
func (n *Node) Run(ctx context.Context) error {
	n.mu.Lock()
	n.counted = time.Now()
	n.mu.Unlock()
	if n.opts.Config.StartupJitterMax == 0 {
		n.store.Begin()
	}

	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	campaign, stopCampaign := context.WithCancelCause(context.WithoutCancel(ctx))
	var goroutines sync.WaitGroup
	var refused error
	goroutines.Go(func() {
		refused = n.store.Run(background, n.logUnreachable)
		if refused != nil {
			stopCampaign(refused)
		}
	})
	goroutines.Go(func() { n.countLeaderless(background) })
	goroutines.Go(func() { n.passNotifications(background) })
	goroutines.Go(func() { n.compareWithLeader(background) })
	goroutines.Go(func() { n.retryFence(background) })
	if n.checker != nil {
		goroutines.Go(func() { n.checker.Run(background) })
	}

	stopDrain := context.AfterFunc(ctx, func() {
		n.drain(n.opts.Log)
		stopCampaign(context.Cause(ctx))
	})
	defer stopDrain()

	err := n.Member.Run(campaign, n.duties()...)
	stopBackground()
	goroutines.Wait()
	n.close()

	if refused != nil {
		return refused
	}
	if errors.Is(err, context.Canceled) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

func (n *Node) logUnreachable(err error) {
	n.opts.Log.Error(NotOpen(err), "store", n.opts.Store, "error", err)
}

// close closes the worker and the store.
func (n *Node) close() {
	if n.Worker != nil {
		if err := n.Worker.Close(); err != nil {
			n.opts.Log.Warn("closing the journal failed", "error", err)
		}
	}
	if err := n.store.Close(); err != nil {
		n.opts.Log.Warn("closing the store failed", "store", n.opts.Store, "error", err)
	}
}

// passNotifications notifies the health monitor when members have joined or left.
func (n *Node) passNotifications(ctx context.Context) {
	notifications := n.store.Subscribe(ctx, driver.Prefix(driver.MemberPrefix))
	for {
		select {
		case l := <-notifications:
			driver.Notify(n.changed, l)
		case <-ctx.Done():
			return
		}
	}
}

// Election returns the name of the node's election.
func (n *Node) Election() string { return n.opts.Election }

// Config returns the configuration of the member.
func (n *Node) Config() regent.Config { return n.opts.Config }

// Peers returns the client and the scheme for requests to other nodes.
func (n *Node) Peers() (client *http.Client, scheme string) {
	return n.opts.Coordination.Client, n.opts.Coordination.Scheme
}

// Signer returns the signer of requests to other nodes. Without a token, it does not sign.
func (n *Node) Signer() *signed.Signer { return n.signer }

// Watchdog resets the watchdog of the service manager while the node is alive, until ctx ends.
func (n *Node) Watchdog(ctx context.Context, to Notifier) { to.Watch(ctx, n.Live) }
