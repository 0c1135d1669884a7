package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/work"
)

// Coordination configures how a node works with other nodes, as their leader and as a worker.
type Coordination struct {
	Token  *signed.Secret // signs requests to other nodes; nil for none
	Client *http.Client   // for requests to other nodes; if nil, they are not probed
	Scheme string         // http or https; http if empty
	Polls  []poll.Poll    // from the configuration file

	Worker    bool   // take tasks
	DataDir   string // of the worker
	Tasks     int    // most tasks at the same time
	TaskBytes int    // most bytes of results that the worker keeps
	ExecPolls bool   // allow polls of kind exec

	RetireAfter time.Duration // after which the leader removes registers that nobody uses; 0 for never
}

// Duties is the number of duties of every leader, besides those of its user.
const Duties = 3

// coordinate creates the duties of every leader, and the worker.
func (n *Node) coordinate() error {
	c := &n.opts.Coordination
	if c.Scheme == "" {
		c.Scheme = "http"
	}
	n.signer = signed.NewSigner(c.Token)
	n.changed = make(chan driver.Record, 1)

	var err error
	if n.Cluster, err = n.newMonitor(); err != nil {
		return err
	}
	n.Polls = n.newOrchestrator()
	if n.retirement, err = n.newRetirement(); err != nil {
		return err
	}
	if !c.Worker {
		return nil
	}

	n.Member.Worker = true
	id := n.Member.ID
	if !filepath.IsLocal(id) || id == "." || strings.ContainsAny(id, `/\`) {
		return fmt.Errorf("node %q: it names a directory below dataDir, and must be a single name", id)
	}
	n.Worker, err = n.newWorker(filepath.Join(c.DataDir, id))
	return err
}

func (n *Node) newMonitor() (*health.Monitor, error) {
	opts := health.Options{
		Self:              n.Member.ID,
		NewRoster:         n.Member.NewRoster,
		OnMembers:         n.compareWithMembers,
		Emit:              n.Member.Emit,
		Changed:           n.changed,
		HeartbeatInterval: n.opts.Config.HeartbeatInterval,
		Past: func() []driver.Past {
			v, _ := n.Member.View(n.opts.Election)
			return v.Past
		},
	}
	if c := n.opts.Coordination; c.Client != nil {
		opts.Probe = health.HTTPProbe(c.Client, c.Scheme)
	}

	return health.New(opts)
}

// newRetirement returns the duty that removes registers which nobody uses, or one that does nothing.
func (n *Node) newRetirement() (regent.Duty, error) {
	after := n.opts.Coordination.RetireAfter
	if after == 0 {
		return regent.Duty{Election: n.opts.Election}, nil
	}
	return n.Member.RetirementDuty(n.opts.Election, after)
}

func (n *Node) newOrchestrator() *orchestrate.Orchestrator {
	c := n.opts.Coordination
	return orchestrate.New(orchestrate.Options{
		Store:    n.store,
		Election: n.opts.Election,
		Leader:   n.Member.ID,
		Fixed:    c.Polls,
		Kinds:    check.Names(),
		Members:  n.Member.WatchMembers,
		Pool:     work.Options{Do: n.signer.Do, Client: c.Client, Scheme: c.Scheme},
		Emit:     n.Member.Emit,
		Log:      n.opts.Log,
		Now:      n.opts.Now,
	})
}

// duties returns what the node does while it leads: the duties of every leader, and then those of its user.
func (n *Node) duties() []regent.Duty {
	return append([]regent.Duty{
		{Election: n.opts.Election, Name: "cluster-health", Run: n.Cluster.Run},
		{Election: n.opts.Election, Name: "polls", Run: n.Polls.Run},
		n.retirement,
	}, n.opts.Duties...)
}

// drainTimeout is how long a node that stops waits for its tasks, and then for its polls, before it releases the
// election.
const drainTimeout = time.Second

// drain ends the work of a node that is about to stop, while it still leads: the next leader then knows the results.
func (n *Node) drain(log *slog.Logger) {
	if n.Worker != nil {
		if err := n.drainWorker(drainTimeout); err != nil {
			log.Warn("stopping with tasks under way", "error", err)
			n.interrupt(log)
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := n.Polls.Quiesce(ctx); err != nil {
		log.Warn("stopping with polls under way", "error", err)
	}
}
