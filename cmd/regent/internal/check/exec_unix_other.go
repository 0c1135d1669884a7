//go:build unix && !linux

package check

import "syscall"

// processGroup returns the attributes of a process group of its own.
func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
