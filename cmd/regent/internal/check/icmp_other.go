//go:build !linux

package check

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
)

// echoConn is never opened here.
type echoConn struct {
	*os.File
	v6, ownID bool
}

func (*echoConn) payload(b []byte) []byte { return b }

func echoPermitted() error {
	return fmt.Errorf("icmp is not supported on %s, only on linux: %w", runtime.GOOS, errors.ErrUnsupported)
}

func dialEcho(netip.Addr) (*echoConn, error) { return nil, echoPermitted() }
