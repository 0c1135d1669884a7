//go:build unix

package regular

import "syscall"

const (
	noFollow = syscall.O_NOFOLLOW // do not follow a symbolic link
	noWait   = syscall.O_NONBLOCK // do not wait for the other end of a pipe
)
