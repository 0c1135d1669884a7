package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/runner/brood"
	"golang.org/x/sys/unix"
)

// A reaper that dies is replaced after a twentieth of a second, then after twice that; one that lived for a while is as new.
const (
	againFirst = 50 * time.Millisecond
	againMax   = 5 * time.Second
	asNew      = 10 * time.Second
)

// patience is how long anybody waits for the reaper. The elector never does.
const patience = time.Second

// Reaper is the companion process as seen by the one that leads. Its methods are safe for concurrent use.
type Reaper struct {
	opts  Options
	pidfd *os.File // of this process

	kick   chan struct{} // something is to be written
	closed chan struct{}
	done   chan struct{} // nothing runs any more

	mu      sync.Mutex
	board   board
	pending pending
	asked   uint64        // counts what was made pending
	written uint64        // up to where it has reached the pipe
	wrote   chan struct{} // closed and replaced when that moves
	child   *child
	closing bool
}

// pending names what has changed since it was last written. What it has changed to is on the board,
// so that a slow reaper is sent the newest state of each register, and never an older one after it.
type pending struct {
	lines  map[string]bool // by register
	groups map[string]bool // by mark
	bye    bool
}

func newPending() pending { return pending{lines: map[string]bool{}, groups: map[string]bool{}} }

// child is one companion process.
type child struct {
	cmd  *exec.Cmd
	pipe *os.File
	gone chan struct{}
	err  error
}

// Start starts the companion process. ctx bounds the starting only: it has to outlive whatever ends this process, until Close.
func Start(ctx context.Context, opts Options) (*Reaper, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if opts.Exe == "" {
		opts.Exe = "/proc/self/exe" // this very program, even if its file was replaced
	}
	if opts.Args == nil {
		opts.Args = []string{Command}
	}
	if opts.Stderr == nil {
		opts.Stderr = os.Stderr
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("%w (pidfd_open: %w)", ErrUnsupported, err)
	}
	r := &Reaper{opts: opts, pidfd: os.NewFile(uintptr(fd), "pidfd"), board: newBoard(), pending: newPending(),
		kick: make(chan struct{}, 1), closed: make(chan struct{}), done: make(chan struct{}), wrote: make(chan struct{})}
	c, err := r.spawn()
	if err != nil {
		r.pidfd.Close()
		return nil, fmt.Errorf("start reaper: %w", err)
	}
	go r.keep(c)
	return r, nil
}

// Lifeline passes on what the member says. It never blocks: set it as Member.OnLifeline.
func (r *Reaper) Lifeline(l regent.Lifeline) {
	if r == nil {
		return
	}
	noted := newLine(l, boottime(), r.opts.StopTimeout)
	r.put(func() {
		r.board.note(noted)
		r.pending.lines[noted.Register] = true
	})
}

// Group tells of a command whose processes must not outlive this one. It returns once that is in the pipe, where it survives this process; or
// after a second, if the reaper does not take it. Tell it before the command starts, when only its mark is known, and again with its pid.
func (r *Reaper) Group(b brood.Brood) {
	if r == nil {
		return
	}
	r.await(r.put(func() {
		r.board.groups[b.Mark] = b
		r.pending.groups[b.Mark] = true
	}))
}

// Ungroup says that nothing of a command is left.
func (r *Reaper) Ungroup(b brood.Brood) {
	if r == nil {
		return
	}
	r.put(func() {
		delete(r.board.groups, b.Mark)
		r.pending.groups[b.Mark] = true
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

// Close ends the companion process, if nothing hangs on this one any more. Else it stays, and does its work when this process ends.
func (r *Reaper) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	first, idle := !r.closing, r.board.idle()
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

// put changes what is known and pending, and has it written. It never waits for the reaper.
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

// await waits until what was asked for has been written.
func (r *Reaper) await(asked uint64) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		r.mu.Lock()
		done, wrote := r.written >= asked, r.wrote
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

// keep has one reaper running at all times.
func (r *Reaper) keep(c *child) {
	defer close(r.done)
	defer r.pidfd.Close()
	for wait := againFirst; ; wait = min(2*wait, againMax) {
		began := time.Now()
		var err error
		if c == nil {
			c, err = r.spawn()
		}
		if c != nil {
			err = r.tend(c)
			c = nil
		}
		select {
		case <-r.closed:
			return
		default:
		}
		r.opts.Log.Warn("reaper has ended: starting another", "error", err)
		if time.Since(began) > asNew {
			wait = againFirst
		}
		select {
		case <-time.After(wait):
		case <-r.closed:
			return
		}
	}
}

// spawn starts a companion process and makes everything pending that still holds.
func (r *Reaper) spawn() (*child, error) {
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	cmd := exec.Command(r.opts.Exe, r.opts.Args...)
	cmd.Args[0] = "regent"
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = in, r.opts.Stderr, []*os.File{r.pidfd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what the terminal sends does not reach it
	if err := cmd.Start(); err != nil {
		pipe.Close()
		return nil, err
	}
	c := &child{cmd: cmd, pipe: pipe, gone: make(chan struct{})}
	go func() {
		defer close(c.gone)
		c.err = cmd.Wait()
	}()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child = c
	r.pending = newPending()
	for register := range r.board.lines {
		r.pending.lines[register] = true
	}
	for mark := range r.board.groups {
		r.pending.groups[mark] = true
	}
	r.pending.bye = r.closing
	return c, nil
}

// tend writes to a companion process until it has ended.
func (r *Reaper) tend(c *child) error {
	stop := make(chan struct{})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		r.feed(c, stop)
	}()
	select {
	case <-c.gone:
	case <-r.closed:
		select {
		case <-c.gone:
		case <-time.After(patience): // it is stopped, or stuck, and nothing hangs on it
			_ = c.cmd.Process.Kill()
			<-c.gone
		}
	}
	r.mu.Lock()
	r.child = nil
	r.mu.Unlock()
	close(stop)
	c.pipe.Close() // ends a write that is stuck
	<-fed
	return c.err
}

// feed writes what is pending, in one piece, and then what has come meanwhile.
func (r *Reaper) feed(c *child, stop <-chan struct{}) {
	out := message{Hello: &hello{Store: r.opts.Store, PID: os.Getpid(), Adopter: r.opts.Adopter}}.encode(nil)
	for {
		changes, upto := r.changes()
		for _, m := range changes {
			out = m.encode(out)
		}
		if len(out) > 0 {
			if _, err := c.pipe.Write(out); err != nil {
				if !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EPIPE) {
					r.opts.Log.Warn("reaper takes no more: ending it", "error", err)
				}
				_ = c.cmd.Process.Kill() // its successor is told everything
				return
			}
			out = out[:0]
		}

		r.mu.Lock()
		r.written = max(r.written, upto)
		close(r.wrote)
		r.wrote = make(chan struct{})
		r.mu.Unlock()

		select {
		case <-r.kick:
		case <-stop:
			return
		}
	}
}

// changes returns the messages that are pending, the farewell last, and up to which one they are.
func (r *Reaper) changes() ([]message, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	var all []message
	for register := range r.pending.lines {
		all = append(all, r.board.line(register))
	}
	for mark := range r.pending.groups {
		all = append(all, r.board.group(mark))
	}
	if r.pending.bye {
		all = append(all, message{Bye: true})
	}
	r.pending = newPending()
	return all, r.asked
}

// boottime is a clock that counts while the machine is suspended, the same for all processes.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(err) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
