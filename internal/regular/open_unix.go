//go:build unix

package regular

import "syscall"

// careful keeps an open from following a link and from waiting for the other end of a pipe.
const careful = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
