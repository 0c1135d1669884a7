// Package hostport checks the addresses of other nodes, which come from the store. One that holds more than a host and
// a port would send this node's requests, with its signature or certificate, to a path that somebody else has chosen.
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

// foreign reports whether a character can be neither in the name of a host nor in an address.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:%", r)
}
