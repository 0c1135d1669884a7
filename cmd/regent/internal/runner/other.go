//go:build !unix

package runner

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/regentd/regent/cmd/regent/internal/runner/brood"
)

// There are no process groups here, so that a program could not be stopped with all that it has started: it is not started.

type process struct {
	brood  brood.Brood
	exited chan struct{}
	state  *os.ProcessState
}

func start(*exec.Cmd, brood.Brood) (*process, error) { return nil, errors.ErrUnsupported }

func exitCode(*os.ProcessState) (int, syscall.Signal) { return 1, 0 }

type terminal struct{}

func takeTerminal(*os.File, brood.Brood, func()) *terminal { return nil }
func (*terminal) giveBack()                                {}

func others() []os.Signal { return nil }

func suspensions() []os.Signal { return nil }

func (c *Command) suspend() {}
