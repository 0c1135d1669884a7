//go:build !unix

package runner

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/regentd/regent/reaper/proctree"
)

// Without process groups a program could not be stopped with everything that it has started. So it is not started.

// process is never started here.
type process struct {
	tree   proctree.Tree
	exited chan struct{}
}

func (p *process) state() *os.ProcessState { return nil }

func start(*exec.Cmd, proctree.Tree) (*process, error) { return nil, errors.ErrUnsupported }

func exitCode(*os.ProcessState) (int, syscall.Signal) { return 1, 0 }

// terminal is never taken here.
type terminal struct{}

func takeTerminal(*os.File, proctree.Tree, func()) *terminal { return nil }
func (*terminal) restore()                                   {}

func forwarded() []os.Signal { return nil }

func suspensions() []os.Signal { return nil }

func (c *Command) suspend() {}
