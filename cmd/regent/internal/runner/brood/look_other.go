//go:build unix && !linux

package brood

import "syscall"

// look knows the process group only.
func (b Brood) look() (strays []int, alive bool) {
	return nil, b.grouped() && syscall.Kill(-b.Leader, 0) != syscall.ESRCH
}

func (b Brood) grouped() bool { return b.Leader > 0 }

func startTime(int) uint64 { return 0 }

func living(int, uint64) bool { return false }
