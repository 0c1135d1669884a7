// Package port returns free ports of the loopback for servers that may be restarted.
package port

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

var given sync.Map

// Free returns a port that nobody listens on. It returns no port twice, and none that a system takes for connections,
// which are those from 32768 on.
func Free() int {
	for {
		p := 10000 + rand.IntN(20000)
		if _, taken := given.LoadOrStore(p, true); taken {
			continue
		}

		if l, err := net.Listen("tcp", Address(p)); err == nil {
			_ = l.Close()
			return p
		}
	}
}

// Address returns the address of a port on the loopback.
func Address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
