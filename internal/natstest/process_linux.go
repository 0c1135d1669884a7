package natstest

import (
	"os/exec"
	"syscall"
)

// endWithTests ends a server when the tests die without stopping it.
func endWithTests(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
