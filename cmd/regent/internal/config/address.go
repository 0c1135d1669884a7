package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

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

// everywhere reports whether the host stands for all addresses of the machine.
func everywhere(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.Unmap().IsUnspecified()
}

// Exposed reports whether others than this machine can reach the node, and it was not said that anybody may write.
func (s *Settings) Exposed() bool {
	host, _, err := splitAddress(s.Listen)
	return (err != nil || !loopback(host)) && !s.Insecure
}
