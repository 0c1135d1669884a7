//go:build unix

package redis

import (
	"net"
	"syscall"
)

// canBeQuiet says that quiet can tell whether a connection is open.
const canBeQuiet = true

// quiet reports whether a connection is open, and nothing has come over it that was not read. It does not wait.
func quiet(conn net.Conn) bool {
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}

	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}

	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && quiet
}
