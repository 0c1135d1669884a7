// Package hostport judges the addresses of other nodes. They come from the store: one that holds more than a host and a port
// would send this node's requests, and with them its signature or certificate, to a path that somebody else has chosen.
package hostport

import (
	"net"
	"strconv"
	"strings"
)

// Valid reports whether addr is a host and a port, and nothing else.
func Valid(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || strings.ContainsFunc(host, foreign) {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// foreign reports whether a character is in no name of a host and in no address.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:%", r)
}
