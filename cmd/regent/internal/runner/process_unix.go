//go:build unix

package runner

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/regentd/regent/reaper/proctree"
)

// process is a program that was started.
type process struct {
	tree   proctree.Tree
	exited chan struct{}
	state  *os.ProcessState // once it has exited
}

// start starts a program in a process group of its own. A death signal comes when the thread that started it ends, not its process, so that
// thread is kept until the program has exited.
func start(cmd *exec.Cmd, b proctree.Tree) (*process, error) {
	p := &process{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		attr, done, err := attributes(b.Cgroup)
		if err == nil {
			cmd.SysProcAttr = attr
			err = cmd.Start()
			done()
		}
		if err == nil {
			p.tree = b.Started(cmd.Process.Pid) // before it is waited for: until then the pid is its own
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state tells
			p.state = cmd.ProcessState
			close(p.exited)
		}
	}()
	return p, <-started
}

// exitCode is as shells have it.
func exitCode(s *os.ProcessState) (int, syscall.Signal) {
	if s == nil {
		return 1, 0
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitSignal + int(w.Signal()), w.Signal()
	}
	return s.ExitCode(), 0
}

// others are the signals that are passed on, and mean nothing to this process.
func others() []os.Signal {
	return []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
}

// suspensions are the signals that stop a process for a while, and that it can refuse.
func suspensions() []os.Signal { return []os.Signal{syscall.SIGTSTP} }

// suspend stops this process, unless a program runs: see [Forward].
func (c *Command) suspend() {
	c.mu.Lock()
	runs := c.running.Leader != 0
	c.mu.Unlock()
	if runs {
		c.refuseSuspension()
		return
	}
	if os.Getppid() != 1 && c.Adopter == 0 { // there is somebody to let it go on again
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}
