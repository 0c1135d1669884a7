package reaper

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/reaper/proctree"
	"golang.org/x/sys/unix"
)

// A companion that dies is replaced after restartFirst, then after twice that. One that lived for restartReset
// counts as the first.
const (
	restartFirst = 50 * time.Millisecond
	restartMax   = 5 * time.Second
	restartReset = 10 * time.Second
)

// companionTimeout is how long a caller waits for the companion. Lifeline never waits.
const companionTimeout = time.Second

// Reaper is the companion process, as seen by the process that it watches. Its methods are safe for concurrent use.
type Reaper struct {
	opts  Options
	pidfd *os.File // of this process

	kick   chan struct{} // something is pending
	closed chan struct{}
	done   chan struct{} // closed when no goroutine runs any more

	mu      sync.Mutex
	state   state
	pending pending
	asked   uint64        // counts calls of put
	written uint64        // the last call of put that is in the pipe
	wrote   chan struct{} // closed and replaced when written changes
	child   *child
	closing bool
}

// pending names what has changed since it was last written. The newest values are in state, so a slow companion gets
// the newest state of each register, and never an older one after it.
type pending struct {
	lines map[string]bool // by register
	trees map[string]bool // by mark
	bye   bool
}

func newPending() pending { return pending{lines: map[string]bool{}, trees: map[string]bool{}} }

// child is one companion process.
type child struct {
	cmd  *exec.Cmd
	pipe *os.File
	gone chan struct{}
	err  error
}

// start starts the companion process, and the goroutine that replaces it if it dies.
func start(opts Options) (*Reaper, error) {
	if os.Getpid() == 1 {
		return nil, fmt.Errorf("%w: it is the first process of its "+
			"container, and the kernel kills all others when it ends",
			ErrUnsupported)
	}

	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("%w: it needs Linux 5.3 (pidfd_open: %w)", ErrUnsupported, err)
	}

	r := &Reaper{
		opts:    opts,
		pidfd:   os.NewFile(uintptr(fd), "pidfd"),
		kick:    make(chan struct{}, 1),
		closed:  make(chan struct{}),
		done:    make(chan struct{}),
		state:   newState(),
		pending: newPending(),
		wrote:   make(chan struct{}),
	}

	c, err := r.spawn()
	if err != nil {
		r.pidfd.Close()
		return nil, fmt.Errorf("start reaper: %w", err)
	}

	go r.supervise(c)
	return r, nil
}

// Lifeline sends a report of the member to the companion. It never blocks. Set it as Member.OnLifeline.
func (r *Reaper) Lifeline(l regent.Lifeline) {
	if r == nil {
		return
	}
	noted := newLine(l, boottime(), r.opts.StopTimeout)
	r.put(func() {
		r.state.note(noted)
		r.pending.lines[noted.Register] = true
	})
}

// Track names a command whose processes must not outlive this one: the companion kills them before it releases
// anything. Call it before the command starts, when only the mark is known, and again with [proctree.Tree.Started].
//
// Track returns when the companion is certain to receive the message, even if this process dies; or after a second, if
// the companion does not read.
func (r *Reaper) Track(t proctree.Tree) {
	if r == nil {
		return
	}
	r.await(r.put(func() {
		r.state.trees[t.Mark] = t
		r.pending.trees[t.Mark] = true
	}))
}

// Untrack reports that no process of a command is left.
func (r *Reaper) Untrack(t proctree.Tree) {
	if r == nil {
		return
	}
	r.put(func() {
		delete(r.state.trees, t.Mark)
		r.pending.trees[t.Mark] = true
	})
}

// PID returns the pid of the companion process, or 0 while there is none.
func (r *Reaper) PID() int {
	if r == nil {
		return 0
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	if r.child == nil {
		return 0
	}
	return r.child.cmd.Process.Pid
}

// Close ends the companion process if this process holds nothing any more. Otherwise the companion stays, and releases
// what is left when this process ends. Call it when the member has ended.
func (r *Reaper) Close() {
	if r == nil {
		return
	}

	r.mu.Lock()
	first := !r.closing
	idle := r.state.idle()
	r.closing = r.closing || idle
	r.mu.Unlock()

	if !idle {
		return
	}

	if first {
		r.await(r.put(func() { r.pending.bye = true }))
		close(r.closed)
	}

	<-r.done
}

// put changes the state and what is pending, and triggers a write. It never waits for the companion.
func (r *Reaper) put(changeLocked func()) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()

	changeLocked()
	r.asked++
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return r.asked
}

// await waits until everything up to that call of put is in the pipe.
func (r *Reaper) await(asked uint64) {
	limit := time.NewTimer(companionTimeout)
	defer limit.Stop()

	for {
		r.mu.Lock()
		done := r.written >= asked
		wrote := r.wrote
		r.mu.Unlock()

		if done {
			return
		}

		select {
		case <-wrote:
		case <-limit.C:
			return
		case <-r.done:
			return
		}
	}
}

// boottime reads a clock that counts while the machine is suspended, and is the same for all processes.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
