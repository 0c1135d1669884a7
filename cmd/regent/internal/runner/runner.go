// Package runner runs a program while its member leads: the engine of 'regent run'.
//
// The program runs in a process group of its own. When its term ends, its process tree gets TERM, then KILL after a
// part of the stop timeout, and is waited for; only then is the election released. The same happens when the program
// has exited and left processes behind, and when this process has forwarded TERM to it: KILL follows after the stop
// timeout. Package proctree defines the process tree, and what can escape it.
//
// If this process dies, the kernel kills the program by a death signal, and the reaper kills the rest of the process
// tree: Command.OnStart and OnEnd inform the reaper.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/reaper/proctree"
)

// Exit codes.
const (
	ExitNotAcquired = 75  // leadership was not won in time
	ExitLost        = 90  // leadership was lost, and the program stopped
	ExitCannotRun   = 126 // as shells report it
	ExitNotFound    = 127 // likewise
	exitSignal      = 128 // and the signal's number
)

var (
	// ErrNotRunning means that there is no program to send a signal to.
	ErrNotRunning = errors.New("the program is not running")
	// ErrLost means that leadership was lost before the program had ended.
	ErrLost = errors.New("leadership lost")
	// ErrNotAcquired means that leadership was not won in time.
	ErrNotAcquired = errors.New("leadership not acquired in time")
)

// Command is a program to run. Set its fields before it is used, and do not copy it after.
type Command struct {
	Path string   // searched in PATH if it holds no slash
	Args []string // after the program's name
	Env  []string // this process's if nil; REGENT_ELECTION, REGENT_EPOCH, REGENT_TERM and REGENT_NODE are set over it
	Dir  string   // this process's if empty
	Node string   // REGENT_NODE

	// The program inherits these files. Nil is the null device. If Stdin is a terminal and this process is in its
	// foreground, the program gets the foreground: so an interactive program works, and gets Ctrl-C itself.
	Stdin, Stdout, Stderr *os.File

	StopTimeout time.Duration // of the member: so long after the end of the term the process tree must be gone
	KillAfter   time.Duration // when KILL follows TERM; three quarters of StopTimeout if 0, which is also the most

	// Adopter is the pid of the process that adopts the orphans of this one, if this is its only program; else 0.
	Adopter int

	// OnStart is called twice: before the program starts, when only the mark of its process tree is known, so that the
	// tree is found even if this process dies meanwhile; and again with its pid. OnEnd is called when the process tree
	// is gone.
	OnStart, OnEnd func(proctree.Tree)

	// OnKill is called before KILL is sent, with the reason for the stop and how long the processes had to end.
	OnKill func(reason string, after time.Duration)

	// OnSuspend is called when somebody has tried to suspend the program (Ctrl-Z), which is refused: see [Forward].
	OnSuspend func()

	mu       sync.Mutex
	running  proctree.Tree  // its Leader is 0 if no program runs
	stopping bool           // the process tree is being stopped
	asked    syscall.Signal // the last signal to end that was forwarded to the program
	overdue  chan struct{}  // closed when a program still runs so long after TERM as the stop timeout
	limit    *time.Timer    // closes overdue; nil before TERM
}

// Result is how a program has ended.
type Result struct {
	Code   int            // its exit code, or 128 and the number of the signal that it died of
	Signal syscall.Signal // which it died of, or 0
	Lost   bool           // the term ended first, and the program was stopped
	Cause  error          // why the term ended, if it did
	Asked  syscall.Signal // the last signal to end that was forwarded to the program, or 0
}

// Ended reports whether the program has ended because this process got a signal to end and forwarded it. After TERM it
// always has. Programs use the other signals for other things too: after those the program must have died of the
// signal, or exited with its code.
func (r Result) Ended() bool {
	died := r.Signal == r.Asked || r.Code == exitSignal+int(r.Asked)
	return r.Asked == syscall.SIGTERM || r.Asked != 0 && died
}

// Run runs the program until it exits, or until the term's context ends and the program was stopped. It returns when
// the whole process tree is gone, however long that takes: until then the election must not be released. An error means
// that the program could not be started.
func (c *Command) Run(ctx context.Context, t regent.Term) (Result, error) {
	if ctx.Err() != nil {
		return Result{Code: ExitLost, Lost: true, Cause: context.Cause(ctx)}, nil
	}

	p, err := c.startConfined(t)
	if err != nil {
		return Result{Code: cannotStart(err)}, fmt.Errorf("start %s: %w", c.Path, err)
	}

	notify(c.OnStart, p.tree)
	terminal := takeTerminal(c.Stdin, p.tree, c.refuseSuspension)

	overdue := false
	select {
	case <-p.exited:
	case <-ctx.Done():
	case <-c.overdue:
		overdue = true
	}

	var r Result
	if ctx.Err() != nil { // checked last, so that no exit code of 0 hides a loss
		r.Lost = true
		r.Cause = context.Cause(ctx)
	}

	c.stop(p, overdue, r)

	<-p.exited
	r.Asked = c.ended()
	r.Code, r.Signal = exitCode(p.state())
	terminal.restore()
	p.tree.Remove()
	notify(c.OnEnd, p.tree)

	return r, nil
}

// stop ends the process tree: at once if it is overdue after TERM, else by TERM first.
func (c *Command) stop(p *process, overdue bool, r Result) {
	c.setStopping()

	if overdue {
		c.killing("TERM was forwarded, and not every process has ended", c.StopTimeout)
		_ = p.tree.Kill(context.Background()) // it fails only if its context ends
		return
	}

	reason := "the program has ended, and left processes behind"
	if r.Lost {
		reason = fmt.Sprintf("the term has ended: %v", r.Cause)
	}

	p.tree.Stop(c.killAfter(), func() { c.killing(reason, c.killAfter()) })
}

// setStopping makes [Command.Signal] return ErrNotRunning from now on.
func (c *Command) setStopping() {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.stopping = true
}

// runs reports whether a program runs.
func (c *Command) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.running.Leader != 0
}

// Signal sends a signal to the process group of the program. It returns ErrNotRunning if no program runs, and if one is
// being stopped: a signal to end is then meant for the supervisor, which would run the program again.
//
// After TERM the whole process tree must end: it is killed when the stop timeout has passed. The program decides what
// any other signal means.
func (c *Command) Signal(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return fmt.Errorf("signal %v: %w", sig, errors.ErrUnsupported)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.running.Leader == 0 || c.stopping {
		return ErrNotRunning
	}
	if slices.Contains(endings(), sig) {
		c.asked = s
	}

	err := c.running.Signal(s)
	if s == syscall.SIGTERM {
		c.running.Continue() // a suspended process gets the signal only after that
		if overdue := c.overdue; c.limit == nil {
			c.limit = time.AfterFunc(c.StopTimeout, func() { close(overdue) })
		}
	}

	return err
}

// ended records that the process tree is gone. It returns the last signal to end that was forwarded to the program.
func (c *Command) ended() syscall.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.limit != nil {
		c.limit.Stop()
		c.limit = nil
	}

	asked := c.asked
	c.running = proctree.Tree{}
	c.asked = 0
	c.stopping = false

	return asked
}

// startConfined starts the program in a cgroup of its own, or without one if that fails: a kernel before 5.7, or a
// filter of system calls, does not start a process in a cgroup.
func (c *Command) startConfined(t regent.Term) (*process, error) {
	b := proctree.New()
	b.Adopter = c.Adopter

	if confined, err := b.Confined(); err == nil {
		if p, err := c.startIn(t, confined); err == nil {
			return p, nil
		}
	}

	return c.startIn(t, b)
}

// startIn starts the program as one process tree. It calls OnStart before, and OnEnd if the start fails.
func (c *Command) startIn(t regent.Term, b proctree.Tree) (*process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = c.environ(t, b.Mark)
	cmd.Dir = c.Dir
	c.connect(cmd)
	notify(c.OnStart, b)

	p, err := c.start(cmd, b)
	if err != nil {
		b.Remove()
		notify(c.OnEnd, b)
	}

	return p, err
}

// start starts the program. It holds the mutex, so that a signal that comes meanwhile waits for the program.
func (c *Command) start(cmd *exec.Cmd, b proctree.Tree) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	p, err := start(cmd, b)
	if err == nil {
		c.running = p.tree
		c.overdue = make(chan struct{})
	}

	return p, err
}

// notify calls f unless it is nil.
func notify(f func(proctree.Tree), b proctree.Tree) {
	if f != nil {
		f(b)
	}
}

// killing calls OnKill.
func (c *Command) killing(reason string, after time.Duration) {
	if c.OnKill != nil {
		c.OnKill(reason, after)
	}
}

// killAfter returns how long after TERM the processes get KILL.
func (c *Command) killAfter() time.Duration {
	most := c.StopTimeout * 3 / 4
	if c.KillAfter > 0 {
		return min(c.KillAfter, most)
	}
	return most
}

// environ returns the environment of the program. Its own variables replace inherited ones, which may come from another
// 'regent run' around this one.
func (c *Command) environ(t regent.Term, mark string) []string {
	set := []string{
		"REGENT_ELECTION=" + t.Election,
		"REGENT_EPOCH=" + strconv.FormatUint(t.Epoch, 10),
		"REGENT_TERM=" + t.Incarnation,
		"REGENT_NODE=" + c.Node,
		mark,
	}

	env := c.Env
	if env == nil {
		env = os.Environ()
	}

	out := make([]string, 0, len(env)+len(set))
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if !slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") }) {
			out = append(out, v)
		}
	}

	return append(out, set...)
}

// connect sets the files that are not nil: a nil *os.File in an interface would not be nil.
func (c *Command) connect(cmd *exec.Cmd) {
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
}

// cannotStart returns the exit code for a program that cannot be started.
func cannotStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return ExitNotFound
	}
	return ExitCannotRun
}
