// Package spawn starts programs that are to die with this process.
package spawn

import (
	"os/exec"
	"runtime"
)

// Start starts a program. It calls started with the pid before the program can be reaped: after that the pid may be
// another's. The channel is closed when the program has exited; then cmd.ProcessState is set.
//
// The kernel sends a death signal (Pdeathsig) when the thread that started a program ends, not when its process ends.
// So that thread is kept until the program has exited.
func Start(cmd *exec.Cmd, started func(pid int)) (<-chan struct{}, error) {
	exited := make(chan struct{})
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		err := cmd.Start()
		if err == nil {
			started(cmd.Process.Pid)
		}

		failed <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState has the exit code
			close(exited)
		}
	}()

	return exited, <-failed
}
