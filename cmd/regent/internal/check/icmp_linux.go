package check

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// echoConn is a socket that is connected to a host. A socket of icmp.ListenPacket is not connected, so that the kernel
// reports no errors to it, and a program that starts at the same moment inherits it.
type echoConn struct {
	*os.File
	v6    bool
	raw   bool // each message comes with its IPv4 header
	ownID bool // the kernel does not replace identifiers
}

// echoSocket opens a datagram socket, for which the groups in ping_group_range need no privilege, or else a raw one.
func echoSocket(v6 bool) (fd int, raw bool, err error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if v6 {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}

	const flags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|flags, protocol); err == nil {
		return fd, false, nil
	}

	fd, err = unix.Socket(family, unix.SOCK_RAW|flags, protocol)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		err = fmt.Errorf("%w: icmp needs a group of this process to be in the sysctl net.ipv4.ping_group_range, "+
			"or the capability CAP_NET_RAW", ErrNotPermitted)
	}

	return fd, true, err
}

// echoPermitted returns an error if this process can send no echo request at all.
func echoPermitted() error {
	fd, _, err := echoSocket(false)
	if err != nil {
		if fd, _, err = echoSocket(true); err != nil {
			return err
		}
	}

	return unix.Close(fd)
}

// dialEcho opens a socket that is connected to an address.
func dialEcho(a netip.Addr) (*echoConn, error) {
	v6 := a.Is6()
	fd, raw, err := echoSocket(v6)
	if err != nil {
		return nil, err
	}

	to, err := sockaddr(a)
	if err == nil {
		err = os.NewSyscallError("connect", unix.Connect(fd, to))
	}

	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}

	return &echoConn{File: os.NewFile(uintptr(fd), "icmp"), v6: v6, raw: raw && !v6, ownID: raw}, nil
}

// sockaddr returns the address of a socket, with the zone of an IPv6 address.
func sockaddr(a netip.Addr) (unix.Sockaddr, error) {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4()}, nil
	}
	to := &unix.SockaddrInet6{Addr: a.As16()}

	if zone := a.Zone(); zone != "" {
		if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
			to.ZoneId = uint32(n)
		} else if i, err := net.InterfaceByName(zone); err == nil {
			to.ZoneId = uint32(i.Index)
		} else {
			return nil, fmt.Errorf("zone %s: %w", zone, err)
		}
	}

	return to, nil
}

// payload returns the ICMP message of a packet, or nil if the packet has none.
func (c *echoConn) payload(b []byte) []byte {
	if !c.raw {
		return b
	}

	header, err := ipv4.ParseHeader(b)
	if err != nil {
		return nil
	}

	return b[header.Len:]
}
