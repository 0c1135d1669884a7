package s3

import (
	"os/exec"
	"syscall"
)

// dieWithUs ends a server when the tests die without stopping it.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
