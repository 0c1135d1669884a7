package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// connections are the open connections of a client.
type connections struct {
	single bool // there is one node, and no sentinel
	began  time.Time
	open   atomic.Int32 // how many for calls have received something from their server
	opened atomic.Bool  // the client has made its first connection
	mu     sync.Mutex
	all    map[*connection]bool
	onLost func() // called when a connection over which a server has answered is lost; may be nil
	direct *direct
}

// connection is a connection that records when an answer became due.
type connection struct {
	net.Conn
	owner   *connections
	apart   bool         // it is not for all calls
	direct  *direct      // whose connection it is; nil for all others
	askedAt atomic.Int64 // when something was sent that was not answered since, in microseconds; 0 if nothing
	silent  atomic.Int64 // for how long an answer was due when it was closed for that, in microseconds; 0 if it was not
	state   atomic.Int32
}

// The states of a connection.
const (
	dialing int32 = iota
	dialed        // nothing was received yet
	greeted
	gone
)

// answerTimeout is how long an answer may be due before a connection is closed, once a caller has given up as well.
const answerTimeout = time.Second

func (ls *connections) now() int64 { return time.Since(ls.began).Microseconds() + 1 }

// dial connects. The kernel finds half-open connections, so an idle client need not send anything.
func (ls *connections) dial(ctx context.Context, dst string, _ *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3,
	}}
	conn, err := d.DialContext(ctx, "tcp", dst)
	if err != nil {
		return nil, err
	}

	// The client connects for a call with the context of the call, and for Dedicate with this one.
	apart := ls.opened.Load() && ctx == context.Background()
	l := &connection{Conn: conn, owner: ls, apart: apart}
	if d, ok := ctx.Value(forDirect{}).(*direct); ok {
		l.apart = true
		l.direct = d
		d.dialed = l
	}

	ls.mu.Lock()
	ls.all[l] = true
	ls.mu.Unlock()

	if cfg == nil {
		l.state.Store(dialed)
		return l, nil
	}

	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(dst)
	}

	secure := tls.Client(l, cfg)
	hello, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()

	if err := secure.HandshakeContext(hello); err != nil {
		_ = l.Close()
		return nil, err
	}

	l.state.CompareAndSwap(dialing, dialed)
	return secure, nil
}

func (l *connection) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil {
		l.drop()
		if due := time.Duration(l.silent.Load()) * time.Microsecond; due > 0 {
			err = fmt.Errorf("no answer from %v within %v: %w", l.RemoteAddr(), due.Round(time.Millisecond), err)
		}
		return n, err
	}

	l.askedAt.Store(0)
	if l.state.Load() == dialed && l.state.CompareAndSwap(dialed, greeted) && !l.apart {
		l.owner.open.Add(1)
	}
	return n, nil
}

func (l *connection) Write(b []byte) (int, error) {
	if l.askedAt.Load() == 0 {
		l.askedAt.Store(l.owner.now())
	}
	n, err := l.Conn.Write(b)
	if err != nil {
		l.drop()
	}
	return n, err
}

func (l *connection) Close() error {
	l.drop()
	return l.Conn.Close()
}

func (l *connection) drop() {
	before := l.state.Swap(gone)
	if before == gone {
		return
	}

	l.owner.mu.Lock()
	delete(l.owner.all, l)
	l.owner.mu.Unlock()

	if l.direct != nil {
		l.direct.lost(l)
		return
	}
	if before != greeted {
		return
	}
	if !l.apart {
		l.owner.open.Add(-1)
	}

	l.owner.direct.closeIdle()
	if l.owner.onLost != nil {
		l.owner.onLost()
	}
}

// ready reports whether a call finds a connection. With several nodes it is not known which of them a call needs.
func (ls *connections) ready() bool { return ls.single && ls.open.Load() > 0 }

// closeIdle closes the connections for all calls over which no answer is due.
func (ls *connections) closeIdle() {
	ls.mu.Lock()
	var idle []*connection
	for l := range ls.all {
		if !l.apart && l.askedAt.Load() == 0 {
			idle = append(idle, l)
		}
	}
	ls.mu.Unlock()

	for _, l := range idle {
		_ = l.Close()
	}
}

// closeUnresponsive closes the connections whose answer is overdue. A proxy may drop all answers while both ends are
// fine: every call would time out, and no notification would arrive.
func (ls *connections) closeUnresponsive() {
	now := ls.now()
	var silent []*connection

	ls.mu.Lock()
	for l := range ls.all {
		if asked := l.askedAt.Load(); asked != 0 && now-asked > answerTimeout.Microseconds() {
			l.silent.Store(now - asked)
			silent = append(silent, l)
		}
	}
	ls.mu.Unlock()

	for _, l := range silent {
		_ = l.Close()
	}
}
