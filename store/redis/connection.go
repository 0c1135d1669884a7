package redis

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lines are the open connections.
type lines struct {
	one   bool // there is one node, and nothing else to talk to
	began time.Time
	open  atomic.Int32 // how many have been greeted by their server
	mu    sync.Mutex
	all   map[*line]bool
	lost  func() // called when a connection over which a server has answered is gone; may be nil
}

// line is a connection that knows when it was last heard of.
type line struct {
	net.Conn
	lines *lines
	asked atomic.Int64 // when something was sent that was not answered since, in microseconds; 0 if nothing
	state atomic.Int32
}

// The states of a line.
const (
	dialing int32 = iota
	dialed        // and the server was not heard of yet
	greeted
	gone
)

// silence is how long an answer may be owed before a connection is given up, once a caller has
// given up as well.
const silence = time.Second

func (ls *lines) now() int64 { return time.Since(ls.began).Microseconds() + 1 }

// dial connects. Half-open connections are found by the kernel, so that an idle client need not
// send anything.
func (ls *lines) dial(ctx context.Context, dst string, _ *net.Dialer, cfg *tls.Config) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3,
	}}
	conn, err := d.DialContext(ctx, "tcp", dst)
	if err != nil {
		return nil, err
	}
	l := &line{Conn: conn, lines: ls}
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

func (l *line) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if err != nil {
		l.forget()
		return n, err
	}
	l.asked.Store(0)
	if l.state.Load() == dialed && l.state.CompareAndSwap(dialed, greeted) {
		l.lines.open.Add(1)
	}
	return n, nil
}

func (l *line) Write(b []byte) (int, error) {
	if l.asked.Load() == 0 {
		l.asked.Store(l.lines.now())
	}
	n, err := l.Conn.Write(b)
	if err != nil {
		l.forget()
	}
	return n, err
}

func (l *line) Close() error {
	l.forget()
	return l.Conn.Close()
}

func (l *line) forget() {
	before := l.state.Swap(gone)
	if before == gone {
		return
	}
	l.lines.mu.Lock()
	delete(l.lines.all, l)
	l.lines.mu.Unlock()
	if before == greeted {
		l.lines.open.Add(-1)
		if l.lines.lost != nil {
			l.lines.lost()
		}
	}
}

// ready reports that there is a connection, so that a call need not make one. With several nodes
// nobody knows which of them it needs.
func (ls *lines) ready() bool { return ls.one && ls.open.Load() > 0 }

// cutSilent closes what has owed an answer for too long. Something in between may swallow them for
// ever, while the other end is fine and the kernel content: every call would wait in vain, and
// hints would not come either.
func (ls *lines) cutSilent() {
	now := ls.now()
	var silent []*line
	ls.mu.Lock()
	for l := range ls.all {
		if asked := l.asked.Load(); asked != 0 && now-asked > silence.Microseconds() {
			silent = append(silent, l)
		}
	}
	ls.mu.Unlock()
	for _, l := range silent {
		_ = l.Close()
	}
}
