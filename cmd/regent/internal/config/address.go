package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// splitAddress returns the host and the port of an address.
func splitAddress(s string) (host string, port uint64, err error) {
	host, p, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, err
	}

	port, err = strconv.ParseUint(p, 10, 16)
	return host, port, err
}

// loopback reports whether only this machine can reach the host. A name other than localhost may mean anything.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// everywhere reports whether the host means all addresses of the machine.
func everywhere(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.Unmap().IsUnspecified()
}

// Exposed reports whether other machines can reach the node, and insecure is not set.
func (s *Settings) Exposed() bool {
	host, _, err := splitAddress(s.Listen)
	return (err != nil || !loopback(host)) && !s.Insecure
}
