//go:build unix

package regular

import "syscall"

const (
	noFollow = syscall.O_NOFOLLOW // keeps an open from following a link
	noWait   = syscall.O_NONBLOCK // keeps an open from waiting for the other end of a pipe
)
