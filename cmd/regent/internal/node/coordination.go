package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/health"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/regular"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/work"
)

// Coordination is how a node works with the others: as their leader, and as a worker.
type Coordination struct {
	Token  *signed.Secret // that requests to other nodes are signed with; nil for none
	Client *http.Client   // for requests to other nodes; without one, nobody is asked how it is
	Scheme string         // http or https
	Polls  []poll.Poll    // of the configuration file

	Worker    bool   // take tasks
	DataDir   string // where the worker keeps what it must not forget
	Tasks     int    // at once
	TaskBytes int    // of results that the worker keeps
	ExecPolls bool
}

// memberPrefix begins the names of the members' registers.
var memberPrefix = driver.MemberRegister("")

// coordinate makes the duties that every leader has, and the worker.
func (n *Node) coordinate() error {
	if n.opts.Coordination.Scheme == "" {
		n.opts.Coordination.Scheme = "http"
	}
	opts, crew := n.opts, n.opts.Coordination
	n.signer = signed.NewSigner(crew.Token)
	var probe func(context.Context, regent.MemberView) (health.Report, error)
	if crew.Client != nil {
		probe = health.HTTPProbe(crew.Client, crew.Scheme)
	}
	n.changed = make(chan driver.Record, 1)
	var err error
	n.Cluster, err = health.New(health.Options{
		Self: n.Member.ID, Members: n.members, Probe: probe, Emit: n.Member.Emit, Changed: n.changed,
		HeartbeatInterval: opts.Config.HeartbeatInterval,
		Past:              func() []driver.Past { v, _ := n.Member.View(opts.Election); return v.Past },
	})
	if err != nil {
		return err
	}
	n.Polls = orchestrate.New(orchestrate.Options{
		Store: n.store, Election: opts.Election, Leader: n.Member.ID, Fixed: crew.Polls, Kinds: check.Names(), Members: n.Member.Members, ListInterval: opts.Config.HeartbeatInterval,
		MembersChanged: func(ctx context.Context) <-chan driver.Record { return n.store.Wake(ctx, memberPrefix) },
		Pool:           work.Options{Do: n.signer.Do, Client: crew.Client, Scheme: crew.Scheme}, Emit: n.Member.Emit, Log: opts.Log, Now: opts.Now,
	})
	if !crew.Worker {
		return nil
	}
	n.Member.Worker = true
	if id := n.Member.ID; !filepath.IsLocal(id) || id == "." || strings.ContainsAny(id, `/\`) {
		return fmt.Errorf("node %q: it names a directory below dataDir, and must be a single name", id)
	}
	n.Worker, err = n.newWorker(filepath.Join(crew.DataDir, n.Member.ID))
	return err
}

// warnOfOthers warns of a directory of the worker's data, below dataDir, that other users can write.
func (n *Node) warnOfOthers(dir string) {
	for _, d := range []string{filepath.Dir(dir), dir} {
		if info, err := os.Stat(d); err == nil && regular.Stranger(info) != "" {
			n.opts.Log.Warn("directory of dataDir belongs to another user, who can change what is in it: chown it to the user of "+
				"the node", "dir", d, "owner", regular.Stranger(info))
		}
	}
	if info, err := os.Stat(dir); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		n.opts.Log.Warn("other users can write the directory of the worker's data: chmod 700 it", "dir", dir,
			"mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// newWorker makes the worker, which remembers in a directory of its own.
func (n *Node) newWorker(dir string) (*work.Worker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, n.ofDataDir(fmt.Errorf("%w (worker=false goes without)", err))
	}
	n.warnOfOthers(dir)
	cfg, crew := n.opts.Config, n.opts.Coordination
	w := &work.Worker{Election: n.opts.Election, Journal: filepath.Join(dir, "journal"), Concurrency: crew.Tasks, KeepBytes: crew.TaskBytes, Log: n.opts.Log,
		Fence: &regent.Fence{Path: filepath.Join(dir, "epoch"), Confirm: n.confirm, Grace: cfg.EpochGracePeriod, Off: !cfg.EpochFencingEnabled,
			OnLate: func(epoch, newest uint64, age time.Duration) {
				n.opts.Log.Warn("took a task of the last leader", "epoch", epoch, "newest", newest, "age", age)
			}}}
	orchestrate.HandleChecks(w, &check.Checker{AllowExec: crew.ExecPolls})
	if err := w.Open(); err != nil {
		return nil, n.ofDataDir(err)
	}
	if _, err := w.Fence.Highest(); err != nil {
		return nil, errors.Join(n.ofDataDir(err), w.Close())
	}
	return w, nil
}

// ofDataDir says what to do about an error of the worker's files. It is a [driver.ErrRefused] where waiting does not help.
func (n *Node) ofDataDir(err error) error {
	if errors.Is(err, work.ErrInUse) { // that one may be about to stop
		return fmt.Errorf("dataDir: %w: another process is node %q with this dataDir: stop it, or give this one "+
			"another name (node) or directory (dataDir)", err, n.Member.ID)
	}
	err = fmt.Errorf("dataDir: %w", err)
	for _, lasting := range []error{regular.ErrUnusable, fs.ErrPermission, syscall.ENOTDIR, syscall.EROFS} {
		if errors.Is(err, lasting) {
			return driver.Refused(err)
		}
	}
	return err
}

// maxAhead is how far the worker's epoch file may be ahead of the election: a store that forgets loses no more terms.
const maxAhead = 1 << 20

// checkFence compares the worker's epoch file with the epoch that an election has just reached. A worker whose file holds
// one that the election cannot have reached refuses every leader.
func (n *Node) checkFence(epoch uint64) {
	highest, err := n.Worker.Fence.Highest()
	if err == nil && highest.Epoch > epoch+maxAhead {
		n.opts.Log.Error("epoch file of this worker is damaged: the election cannot have reached its epoch, so every task is "+
			"refused; stop the node, and write the election's epoch into the file", "file", n.Worker.Fence.Path,
			"holds", highest.Epoch, "election", n.opts.Election, "epoch", epoch)
	}
}

// confirm asks the store whether there has been such a term: whoever can send a task can write any number into it.
func (n *Node) confirm(t regent.Token) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	l, err := n.store.Get(ctx, n.opts.Election)
	if err != nil {
		return err
	}
	if l.Epoch < t.Epoch {
		return fmt.Errorf("the store knows of no epoch beyond %d", l.Epoch)
	}
	// A term that has ended since is not in the record any more.
	if l.Epoch == t.Epoch && !l.Vacant() && t.Term != "" && l.Holder.Incarnation != t.Term {
		return fmt.Errorf("the store shows epoch %d as that of term %s, held by %s, and not of term %s", l.Epoch, l.Holder.Incarnation, l.Holder.ID, t.Term)
	}
	return nil
}

// learn raises the worker's fence with what the member has seen, before the new leader has sent anything.
func (n *Node) learn(e regent.Event) {
	if n.Worker == nil || e.Election != n.opts.Election || e.Kind != regent.EventLeaderChanged && e.Kind != regent.EventBecameLeader {
		return
	}
	token := regent.Token{Epoch: e.Epoch, Term: e.Metadata["term"]}
	if err := n.Worker.Fence.Learn(token); err != nil {
		n.opts.Log.Error("fence cannot be raised", "epoch", token.Epoch, "term", token.Term, "error", err)
	}
	n.checkFence(e.Epoch)
}

// interrupt ends the tasks that have not ended in time, and gives the leader a moment to hear of it: once this node has left, they are begun elsewhere.
func (n *Node) interrupt(log *slog.Logger) {
	if err := n.Worker.Close(); err != nil {
		log.Warn("closing the journal failed", "error", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainFor/2)
	defer cancel()
	_ = n.Worker.Drain(ctx) // the leader may have gone too
}

// Duties is how many duties every leader has, besides its user's.
const Duties = 2

// duties are what the node does while it leads: what every leader does first, and then its user's.
func (n *Node) duties() []regent.Duty {
	return append([]regent.Duty{
		{Election: n.opts.Election, Name: "cluster-health", Run: n.Cluster.Run},
		{Election: n.opts.Election, Name: "polls", Run: n.Polls.Run},
	}, n.opts.Duties...)
}

// drainFor is how long a node that is told to stop gives its tasks, and its polls, before it lets go of its seat.
const drainFor = time.Second

// wind ends the work of a node that is about to stop, while it still leads: what ends now is known to the next leader.
func (n *Node) wind(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	if n.Worker != nil {
		if err := n.Worker.Drain(ctx); err != nil {
			log.Warn("stopping with tasks under way", "error", err)
			n.interrupt(log)
		}
	}
	ctx, cancel = context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	if err := n.Polls.Quiesce(ctx); err != nil {
		log.Warn("stopping with polls under way", "error", err)
	}
}
