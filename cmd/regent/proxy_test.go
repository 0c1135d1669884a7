package main

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy forwards between a node and Redis, with faults that a test can set.
type proxy struct {
	to       string
	listener net.Listener
	cutTo    atomic.Bool // requests
	cutFrom  atomic.Bool // answers
	delay    atomic.Int64
	late     atomic.Int64 // answers are forwarded so much later
	single   atomic.Bool  // bytes are forwarded one by one
	mu       sync.Mutex
	conns    map[net.Conn]bool
}

func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	p := &proxy{to: to, listener: l, conns: map[net.Conn]bool{}}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}

			s, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}

			p.keep(c, s)
			requests := make(chan chunk, 1024)
			answers := make(chan chunk, 1024)
			work.Go(func() { p.read(c, requests, &p.cutTo, nil) })
			work.Go(func() { p.write(s, requests) })
			work.Go(func() { p.read(s, answers, &p.cutFrom, &p.late) })
			work.Go(func() { p.write(c, answers) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.drop()
		work.Wait()
	})

	return p
}

// chunk is the bytes of one read, and when they are to be forwarded.
type chunk struct {
	data []byte
	due  time.Time
}

// byteInterval is the time between two bytes that are forwarded one by one.
const byteInterval = time.Millisecond

func (p *proxy) address() string { return "redis://" + p.listener.Addr().String() }

func (p *proxy) keep(cs ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range cs {
		p.conns[c] = true
	}
}

// drop closes every connection: bytes that were dropped cannot be sent any more.
func (p *proxy) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()

	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = map[net.Conn]bool{}
}

// heal ends every fault, and closes the connections.
func (p *proxy) heal() {
	p.cutTo.Store(false)
	p.cutFrom.Store(false)
	p.delay.Store(0)
	p.late.Store(0)
	p.single.Store(false)
	p.drop()
}

// read queues the bytes from one side. It closes the connection and the queue at the end.
func (p *proxy) read(from net.Conn, queue chan<- chunk, cut *atomic.Bool, late *atomic.Int64) {
	defer from.Close()
	defer close(queue)

	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if d := time.Duration(p.delay.Load()); d > 0 {
			<-time.After(d)
		}
		if cut.Load() {
			continue
		}

		c := chunk{data: bytes.Clone(b[:n]), due: time.Now()}
		if late != nil {
			c.due = c.due.Add(time.Duration(late.Load()))
		}

		queue <- c
	}
}

// write forwards queued chunks when they are due. It closes the connection at the end.
func (p *proxy) write(to net.Conn, queue <-chan chunk) {
	defer to.Close()
	for c := range queue {
		if wait := time.Until(c.due); wait > 0 {
			<-time.After(wait)
		}
		size := len(c.data)

		if p.single.Load() {
			size = 1
		}
		for part := range slices.Chunk(c.data, size) {
			if _, err := to.Write(part); err != nil {
				break // the loop still reads the queue to its end
			}
			if size == 1 {
				<-time.After(byteInterval)
			}
		}
	}
}
