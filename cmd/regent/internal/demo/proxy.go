package demo

import (
	"io"
	"net"
	"sync"
)

// proxy is a process's way to the store. While it is shut, nothing passes and nobody gets through. While it hangs,
// connections stay, and nothing passes.
type proxy struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
	flows chan struct{} // closed while bytes may pass
}

// throughProxies gives every process a way of its own to the store, which can be cut.
func (c *cluster) throughProxies() error {
	var err error
	for _, p := range c.nodes {
		if p.cut, err = newProxy(c.own.address.Host); err != nil {
			return err
		}
		own := *c.own.address
		own.Host = p.cut.listener.Addr().String()
		p.store = own.String()
	}
	c.lock = &wayLock{c.nodes}
	return nil
}

func newProxy(to string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to, conns: map[net.Conn]bool{}, flows: make(chan struct{})}
	close(p.flows)
	go p.serve()
	return p, nil
}

func (p *proxy) serve() {
	for {
		from, err := p.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.to)
		if err != nil {
			from.Close()
			continue
		}
		if !p.add(from, to) {
			continue
		}
		go p.copy(to, from)
		go p.copy(from, to)
	}
}

// add keeps a pair of connections, unless the proxy is shut.
func (p *proxy) add(pair ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range pair {
		if p.isCut {
			c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.isCut
}

func (p *proxy) copy(to, from net.Conn) {
	_, _ = io.Copy(to, &gated{from, p})
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		c.Close()
		delete(p.conns, c)
	}
}

// gated reads from a connection what may pass.
type gated struct {
	from net.Conn
	by   *proxy
}

// Read implements [io.Reader]. What has come while nothing may pass is returned later.
func (g *gated) Read(b []byte) (int, error) {
	n, err := g.from.Read(b)
	g.by.mu.Lock()
	flows := g.by.flows
	g.by.mu.Unlock()
	<-flows

	return n, err
}

// hang lets nothing pass, or lets it pass again.
func (p *proxy) hang(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	flowing := true
	select {
	case <-p.flows:
	default:
		flowing = false
	}
	switch {
	case on && flowing:
		p.flows = make(chan struct{})
	case !on && !flowing:
		close(p.flows)
	}
}

func (p *proxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = true
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCut = false
}

func (p *proxy) close() {
	p.listener.Close()
	p.hang(false)
	p.shut()
}
