//go:build !unix

package redis

import "net"

// canBeQuiet says that quiet can tell whether a connection is open.
const canBeQuiet = false

func quiet(net.Conn) bool { return false }
