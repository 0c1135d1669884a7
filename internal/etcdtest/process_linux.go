package etcdtest

import (
	"os/exec"
	"syscall"
)

// DieWithUs ends a server when the tests die without stopping it.
func DieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
