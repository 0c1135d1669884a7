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

// start starts a program in a process group of its own. The kernel sends the death signal when the thread that started
// the program ends, not its process. So that thread is kept until the program has exited.
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
			p.tree = b.Started(cmd.Process.Pid) // before it is reaped: after that the pid may be another's
		}
		started <- err

		if err == nil {
			_ = cmd.Wait() // the state has the exit code
			p.state = cmd.ProcessState
			close(p.exited)
		}
	}()

	return p, <-started
}

// exitCode returns the exit code that a shell would report, and the signal that the program died of, or 0.
func exitCode(s *os.ProcessState) (int, syscall.Signal) {
	if s == nil {
		return 1, 0
	}
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return exitSignal + int(w.Signal()), w.Signal()
	}

	return s.ExitCode(), 0
}

// forwarded returns the signals that are only forwarded to the program.
func forwarded() []os.Signal {
	return []os.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}
}

// suspensions returns the signals that suspend a process and can be caught.
func suspensions() []os.Signal { return []os.Signal{syscall.SIGTSTP} }

// suspend suspends this process, unless a program runs: see [Forward].
func (c *Command) suspend() {
	if c.runs() {
		c.refuseSuspension()
		return
	}

	if os.Getppid() != 1 && c.Adopter == 0 { // a shell can resume it
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}
