package kube

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/internal/kubetest"
	"github.com/regentd/regent/storetest"
)

// fault is what happens to the bytes of connections.
type fault int

const (
	none           fault = iota
	hang                 // nothing moves, in either direction
	loseRequests         // what is sent does not arrive
	loseAnswers          // what is answered does not arrive
	refuseConnects       // there are no new connections
	slowDown             // everything takes a while
)

// dialer makes the connections of a store, and faults of them.
type dialer struct {
	mu      sync.Mutex
	fault   fault
	changed chan struct{} // closed when the fault changes
	open    map[*faultyConn]bool
}

func newDialer() *dialer { return &dialer{changed: make(chan struct{}), open: map[*faultyConn]bool{}} }

// set makes a fault the current one.
func (d *dialer) set(f fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
	close(d.changed)
	d.changed = make(chan struct{})
}

// cut closes all connections.
func (d *dialer) cut() {
	d.mu.Lock()
	var all []*faultyConn
	for c := range d.open {
		all = append(all, c)
	}
	d.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

func (d *dialer) current() (fault, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fault, d.changed
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if f, _ := d.current(); f == refuseConnects {
		return nil, errors.New("connection refused")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}

	c := &faultyConn{Conn: conn, d: d, closed: make(chan struct{})}
	d.mu.Lock()
	d.open[c] = true
	d.mu.Unlock()
	return c, nil
}

type faultyConn struct {
	net.Conn
	d      *dialer
	once   sync.Once
	closed chan struct{}
}

func (c *faultyConn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.d.mu.Lock()
		delete(c.d.open, c)
		c.d.mu.Unlock()
	})
	return c.Conn.Close()
}

// pass waits while everything hangs, and returns the fault after that.
func (c *faultyConn) pass() (fault, error) {
	for {
		f, changed := c.d.current()
		switch f {
		case hang:
			select {
			case <-changed:
			case <-c.closed:
				return f, net.ErrClosed
			}
		case slowDown:
			<-time.After(50 * time.Millisecond)
			return f, nil
		default:
			return f, nil
		}
	}
}

func (c *faultyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil {
			return n, err
		}
		if f, err := c.pass(); err != nil || f != loseAnswers {
			return n, err
		}
	}
}

func (c *faultyConn) Write(b []byte) (int, error) {
	f, err := c.pass()
	if err != nil {
		return 0, err
	}
	if f == loseRequests {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// openOver opens a store whose connections have faults.
func openOver(t *testing.T, s *kubetest.Server, addr string, d *dialer) *Store {
	t.Helper()
	config := configOf(t, addr)
	config.Dial = d.dial
	return storetest.Opened[*Store](t)(Open(t.Context(), addr, Options{Config: config}))
}
