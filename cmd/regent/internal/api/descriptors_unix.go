//go:build unix

package api

import "syscall"

// descriptors returns how many files this process may have open.
func descriptors() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 2 * maxConnections
	}
	return int(min(uint64(l.Cur), 1<<20))
}
