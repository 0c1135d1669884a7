// Package runner runs a program only while its member leads: the engine of 'regent run'.
//
// The program runs in a process group of its own. When its term ends, everything that it has started is told to stop (TERM), killed after a
// part of the stop timeout (KILL), and waited for; only then is the seat released. The same happens when it has exited and left
// others behind, and when this process got TERM and passed it on: KILL follows after the stop timeout. What counts as started by it, and what can escape, is said in package proctree.
//
// Should this very process die, the kernel kills the program itself (a death signal, tied to a thread that is kept for it), and the reaper
// all that it has started: Command.OnStart and OnEnd are for telling it.
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
	ExitNotAcquired = 75  // the seat was not won in time
	ExitLost        = 90  // leadership was lost, and the program stopped
	ExitCannotRun   = 126 // as shells have it
	ExitNotFound    = 127 // likewise
	exitSignal      = 128 // and the signal's number
)

var (
	// ErrNotRunning says that there is no program to send a signal to.
	ErrNotRunning = errors.New("the program is not running")
	// ErrLost says that leadership was lost before the program had ended.
	ErrLost = errors.New("leadership lost")
	// ErrNotAcquired says that the seat was not won in time.
	ErrNotAcquired = errors.New("leadership not acquired in time")
)

// Command is a program to run. Set its fields before it is used, and do not copy it after.
type Command struct {
	Path string   // looked up in PATH if it holds no slash
	Args []string // after the program's name
	Env  []string // this process's if nil; REGENT_ELECTION, REGENT_EPOCH, REGENT_TERM and REGENT_NODE are set over it
	Dir  string   // this process's if empty
	Node string   // REGENT_NODE

	// They are passed on as they are. Nil is the null device. If Stdin is a terminal whose foreground this process is in, the program gets the
	// foreground, so that an interactive one works and has Ctrl-C for itself.
	Stdin, Stdout, Stderr *os.File

	StopTimeout time.Duration // G of the member's configuration: all must be dead so long after the term's end
	KillAfter   time.Duration // when KILL follows TERM; three quarters of StopTimeout if 0, which is also the most

	// Adopter is the process that adopts the orphans of this one, if this is the only program that it runs; else 0.
	Adopter int

	// OnStart is called before the program starts, when only the mark of its process tree is known, so that it is found even if this process dies
	// while starting it; and again with its pid. OnEnd is called once nothing of it lives any more.
	OnStart, OnEnd func(proctree.Tree)

	// OnKill is called before KILL is sent to what still lives although it was told to stop, with the reason for the stop
	// and how long it had.
	OnKill func(reason string, after time.Duration)

	// OnSuspend is called when somebody has tried to stop the program for a while (Ctrl-Z), which is not done: see [Forward].
	OnSuspend func()

	mu       sync.Mutex
	running  proctree.Tree  // its Leader is 0 if none
	stopping bool           // it was told to stop, or has exited: what is left of it is being ended
	asked    syscall.Signal // the last signal to end that was passed on to it
	overdue  chan struct{}  // closed when a program that was passed TERM still runs after the stop timeout
	limit    *time.Timer    // closes it; nil before TERM
}

// Result is what became of a program.
type Result struct {
	Code   int            // its exit code, or 128 and the number of the signal that it died of
	Signal syscall.Signal // which it died of, or 0
	Lost   bool           // the term ended first; the code is then what it answered to being stopped
	Cause  error          // why the term ended, if it did
	Asked  syscall.Signal // the last signal to end that was passed on to it, or 0
}

// Ended reports whether the program has ended because this process got a signal to end, and passed
// it on. TERM always means that. After any other one, which programs use for other things too, the
// program must have died of it, or say so with its exit code.
func (r Result) Ended() bool {
	died := r.Signal == r.Asked || r.Code == exitSignal+int(r.Asked)
	return r.Asked == syscall.SIGTERM || r.Asked != 0 && died
}

// Run runs the program until it exits, or the term's context ends and it was stopped. It returns once everything that it has started is gone,
// however long that takes: until then the seat must not be released. An error means that it could not be started.
func (c *Command) Run(ctx context.Context, t regent.Term) (Result, error) {
	if ctx.Err() != nil {
		return Result{Code: ExitLost, Lost: true, Cause: context.Cause(ctx)}, nil
	}
	p, err := c.startConfined(t)
	if err != nil {
		return Result{Code: cannotStart(err)}, fmt.Errorf("start %s: %w", c.Path, err)
	}
	c.tell(c.OnStart, p.tree)
	terminal := takeTerminal(c.Stdin, p.tree, c.refuseSuspension)

	var r Result
	reason := "the program has ended, and left processes behind"
	stop := func() { p.tree.Stop(c.killAfter(), func() { c.killing(reason, c.killAfter()) }) }
	select {
	case <-p.exited:
	case <-ctx.Done():
	case <-c.overdue:
		stop = func() {
			c.killing("TERM was passed on, and not everything has ended", c.StopTimeout)
			_ = p.tree.Kill(context.Background()) // it fails with its context alone
		}
	}
	if ctx.Err() != nil { // asked for last, so that no code of 0 hides a loss
		r.Lost, r.Cause = true, context.Cause(ctx)
		reason = fmt.Sprintf("the term has ended: %v", r.Cause)
	}
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	stop()
	<-p.exited
	r.Asked = c.ended()
	terminal.giveBack()
	p.tree.Remove()
	c.tell(c.OnEnd, p.tree)
	r.Code, r.Signal = exitCode(p.state)
	return r, nil
}

// Signal sends a signal to the program's process group. It returns ErrNotRunning if no program
// runs, and if one is being stopped: a signal that means an end is then meant for whoever would run
// it again.
//
// TERM means that all must end: what still lives when the stop timeout has passed is killed. What
// any other signal means is for the program to say.
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
		c.running.Continue() // one that is stopped must hear it
		if overdue := c.overdue; c.limit == nil {
			c.limit = time.AfterFunc(c.StopTimeout, func() { close(overdue) })
		}
	}
	return err
}

// ended takes in that nothing of the program lives any more, and returns the last signal to end that was passed on to it.
func (c *Command) ended() syscall.Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit != nil {
		c.limit.Stop()
		c.limit = nil
	}
	asked := c.asked
	c.running, c.asked = proctree.Tree{}, 0
	c.stopping = false
	return asked
}

// startConfined starts the program in a cgroup of its own, if it can have one, and else without: a kernel before 5.7, or a filter of system
// calls, does not start a process in a cgroup.
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

// startIn starts the program as one process tree, and tells of it before and after.
func (c *Command) startIn(t regent.Term, b proctree.Tree) (*process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir = c.environ(t, b.Mark), c.Dir
	c.connect(cmd)
	c.tell(c.OnStart, b)
	p, err := c.start(cmd, b)
	if err != nil {
		b.Remove()
		c.tell(c.OnEnd, b)
	}
	return p, err
}

// start holds the mutex, so that a signal which comes meanwhile waits for the program, and is not lost.
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

func (c *Command) tell(f func(proctree.Tree), b proctree.Tree) {
	if f != nil {
		f(b)
	}
}

func (c *Command) killing(reason string, after time.Duration) {
	if c.OnKill != nil {
		c.OnKill(reason, after)
	}
}

func (c *Command) killAfter() time.Duration {
	most := c.StopTimeout * 3 / 4
	if c.KillAfter > 0 {
		return min(c.KillAfter, most)
	}
	return most
}

// environ sets the variables over inherited ones, which may be of another run around this one.
func (c *Command) environ(t regent.Term, mark string) []string {
	set := []string{"REGENT_ELECTION=" + t.Election, "REGENT_EPOCH=" + strconv.FormatUint(t.Epoch, 10), "REGENT_TERM=" + t.Incarnation,
		"REGENT_NODE=" + c.Node, mark}
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

// connect hands over the files that are set: a nil *os.File in an interface is not nil.
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

func cannotStart(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return ExitNotFound
	}
	return ExitCannotRun
}
