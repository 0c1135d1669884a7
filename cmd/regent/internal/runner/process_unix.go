//go:build unix

package runner

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/regentd/regent/cmd/regent/internal/spawn"
	"github.com/regentd/regent/reaper/proctree"
)

// process is a program that was started.
type process struct {
	tree   proctree.Tree
	cmd    *exec.Cmd
	exited <-chan struct{}
}

// start starts a program in a process group of its own, which dies with this process where the kernel can do that.
func start(cmd *exec.Cmd, b proctree.Tree) (*process, error) {
	attr, done, err := attributes(b.Cgroup)
	if err != nil {
		return nil, err
	}
	defer done()

	p := &process{cmd: cmd}
	cmd.SysProcAttr = attr
	p.exited, err = spawn.Start(cmd, func(pid int) { p.tree = b.Started(pid) })
	return p, err
}

// state returns how the program has ended, once it has.
func (p *process) state() *os.ProcessState { return p.cmd.ProcessState }

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
