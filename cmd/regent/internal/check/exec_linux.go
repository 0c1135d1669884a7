package check

import "syscall"

// processGroup returns the attributes of a process group of its own, which the kernel kills when this process dies.
func processGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
