package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/regular"
	"github.com/regentd/regent/work"
)

// confirmTimeout is the timeout of the request by which a fence confirms an epoch.
const confirmTimeout = 2 * time.Second

// fenceInterval is the time between two attempts to raise the fence of the worker, if its file cannot be written.
const fenceInterval = 10 * time.Second

// newWorker opens the worker, which keeps its journal and its epoch file in a directory.
func (n *Node) newWorker(dir string) (*work.Worker, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, n.dataDirError(fmt.Errorf("%w (worker=false goes without)", err))
	}
	n.warnOfWriters(dir)

	c := n.opts.Coordination
	w := &work.Worker{
		Election:    n.opts.Election,
		Journal:     filepath.Join(dir, "journal"),
		Concurrency: c.Tasks,
		KeepBytes:   c.TaskBytes,
		Log:         n.opts.Log,
		Fence:       n.newFence(filepath.Join(dir, "epoch")),
	}
	orchestrate.HandleChecks(w, &check.Checker{AllowExec: c.ExecPolls})
	if err := w.Open(); err != nil {
		return nil, n.dataDirError(err)
	}
	if _, err := w.Fence.Highest(); err != nil {
		return nil, errors.Join(n.dataDirError(err), w.Close())
	}

	return w, nil
}

// newFence returns the fence of the worker.
func (n *Node) newFence(path string) *regent.Fence {
	return &regent.Fence{
		Path:    path,
		Confirm: n.confirm,
		Grace:   n.opts.Config.EpochGracePeriod,
		Off:     n.opts.Config.EpochFencingOff,
		OnLate: func(epoch, newest uint64, age time.Duration) {
			n.opts.Log.Warn("took a task of the last leader", "epoch", epoch, "newest", newest, "age", age)
		},
	}
}

// warnOfWriters warns of a directory of the worker, below dataDir, that other users can write.
func (n *Node) warnOfWriters(dir string) {
	for _, d := range []string{filepath.Dir(dir), dir} {
		if info, err := os.Stat(d); err == nil && regular.Stranger(info) != "" {
			n.opts.Log.Warn("directory of dataDir belongs to another user, who can change what is in it: "+
				"chown it to the user of the node", "dir", d, "owner", regular.Stranger(info))
		}
	}

	info, err := os.Stat(dir)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		n.opts.Log.Warn("other users can write the directory of the worker's data: chmod 700 it",
			"dir", dir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// dataDirError adds to an error of the worker's files what to do about it. The result is a [driver.ErrRefused] if to
// wait does not help.
func (n *Node) dataDirError(err error) error {
	if errors.Is(err, work.ErrInUse) { // the other process may be about to stop
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

// confirm returns an error unless the store knows the epoch of a token: whoever can send a task can write any number
// into it.
func (n *Node) confirm(t regent.Token) error {
	ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
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
		return fmt.Errorf("the store shows epoch %d as that of term %s, held by %s, and not of term %s",
			l.Epoch, l.Holder.Incarnation, l.Holder.ID, t.Term)
	}
	return nil
}

// raiseFence raises the worker's fence to the term in an event, before the new leader has sent anything.
func (n *Node) raiseFence(e regent.Event) {
	newTerm := e.Kind == regent.EventLeaderChanged || e.Kind == regent.EventBecameLeader
	if n.Worker == nil || e.Election != n.opts.Election || !newTerm {
		return
	}

	n.learn(regent.Token{Epoch: e.Epoch, Term: e.Metadata["term"]})
	n.checkFence(e.Epoch)
}

// learn raises the worker's fence to a token, and notes the token for retryFence if its file cannot be written.
func (n *Node) learn(token regent.Token) {
	err := n.Worker.Fence.Learn(token)
	if err != nil {
		n.opts.Log.Error("fence cannot be raised", "epoch", token.Epoch, "term", token.Term, "error", err)
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	n.unlearned = nil
	if n.Worker.Fence.Unwritable() != nil {
		n.unlearned = &token
	}
}

// retryFence raises the worker's fence again where its file could not be written, until ctx ends.
func (n *Node) retryFence(ctx context.Context) {
	if n.Worker == nil {
		return
	}

	tick := time.NewTicker(fenceInterval)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}

		n.mu.Lock()
		token := n.unlearned
		n.mu.Unlock()
		if token != nil {
			n.learn(*token)
		}
	}
}

// addWorker adds whether the worker can write its files.
func (n *Node) addWorker(h *Health) {
	if n.Worker == nil {
		return
	}

	h.Checks["worker"] = ok
	if err := n.Worker.Unwritable(); err != nil {
		h.Checks["worker"] = fmt.Sprintf("refuses tasks: %v (is the disk of dataDir full?)", err)
	}
}

// maxAhead is how far the worker's epoch file may be ahead of the election: no store loses more terms.
const maxAhead = 1 << 20

// checkFence compares the worker's epoch file with the epoch that the election has just reached. A worker with an epoch
// that the election cannot have reached refuses every leader.
func (n *Node) checkFence(epoch uint64) {
	highest, err := n.Worker.Fence.Highest()
	if err != nil || highest.Epoch <= epoch+maxAhead {
		return
	}

	n.opts.Log.Error("epoch file of this worker is damaged: the election cannot have reached its epoch, "+
		"so every task is refused; stop the node, and write the election's epoch into the file",
		"file", n.Worker.Fence.Path, "holds", highest.Epoch, "election", n.opts.Election, "epoch", epoch)
}

// drainWorker waits until the worker has ended its tasks and the leader has their results.
func (n *Node) drainWorker(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return n.Worker.Drain(ctx)
}

// interrupt ends the tasks that have not ended in time, and waits a moment until the leader knows: after this node has
// left, they are started on other workers.
func (n *Node) interrupt(log *slog.Logger) {
	if err := n.Worker.Close(); err != nil {
		log.Warn("closing the journal failed", "error", err)
	}
	_ = n.drainWorker(drainTimeout / 2) // the leader may have stopped too
}
