//go:build !linux

package compare

import (
	"os/exec"
	"syscall"
	"time"
)

func dieWithUs(*exec.Cmd, syscall.Signal) {}

func asNobody(*exec.Cmd, string) error { return nil }

func cpuTime() time.Duration { return 0 }
