// Package drivertest is what the tests of several drivers have in common: faults of a network, members that campaign on
// a store, and certificates.
package drivertest

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Faults is what a proxy does to the bytes that pass it.
type Faults struct {
	NoRequests bool          // what clients send is dropped
	NoAnswers  bool          // what the server sends is dropped
	Hold       bool          // nothing moves, in either direction
	Refuse     bool          // new connections are closed
	Delay      time.Duration // in each direction
}

// Proxy stands between stores and a server.
type Proxy struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	faults  Faults
	changed chan struct{} // closed when faults change
	conns   []net.Conn
}

// StartProxy starts a proxy in front of a server, until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target, changed: make(chan struct{})}
	t.Cleanup(func() {
		listener.Close()
		p.Set(Faults{NoRequests: true, NoAnswers: true, Refuse: true})
		p.Cut()
	})

	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// Addr returns host and port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Through returns a store's address with this proxy for the server.
func (p *Proxy) Through(address string) string {
	return strings.Replace(address, p.target, p.Addr(), 1)
}

// Set sets the faults.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// now returns the faults once nothing is held any more.
func (p *Proxy) now() Faults {
	for {
		p.mu.Lock()
		f, changed := p.faults, p.changed
		p.mu.Unlock()
		if !f.Hold {
			return f
		}
		<-changed
	}
}

// Cut closes every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	all := slices.Clone(p.conns)
	p.conns = nil
	p.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refuse := p.faults.Refuse
	p.conns = append(p.conns, client)
	p.mu.Unlock()
	if refuse {
		client.Close()
		return
	}

	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, server)
	p.mu.Unlock()
	go p.pass(server, client, func(f Faults) bool { return f.NoRequests })
	p.pass(client, server, func(f Faults) bool { return f.NoAnswers })
}

func (p *Proxy) pass(to, from net.Conn, dropped func(Faults) bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		f := p.now()
		if f.Delay > 0 {
			<-time.After(f.Delay)
		}
		if dropped(f) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
