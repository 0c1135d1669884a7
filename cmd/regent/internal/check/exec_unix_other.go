//go:build unix && !linux

package check

import "syscall"

func processGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
