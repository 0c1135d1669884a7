package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	maxConnections  = 1024 // at once, if the process may open so many files
	maxStreams      = 128  // likewise
	warningInterval = 10 * time.Second
)

// Limits bounds how many connections and event streams clients can have, so that a node under load or attack still
// answers its health probes. For a new connection beyond the limit the one that has waited longest for a request, or
// for the rest of a header, is closed. A connection on which a proved request is answered is not.
type Limits struct {
	Connections int
	Streams     int

	log     *slog.Logger
	streams atomic.Int64
	refused atomic.Uint64 // streams
	evicted atomic.Uint64 // connections that were closed to make room

	mu     sync.Mutex
	open   map[net.Conn]*connection
	warned map[string]time.Time // when each warning was last logged
}

// connection is an open connection. The mutex of Limits guards its fields.
type connection struct {
	conn      net.Conn
	waits     bool // for a request, or the rest of its header
	since     time.Time
	protected bool
	l         *Limits
}

// connectionKey is the key of a connection in the context of its requests.
type connectionKey struct{}

// NewLimits returns limits that leave half of this process's descriptors to everything else.
func NewLimits(log *slog.Logger) *Limits {
	n := min(maxConnections, max(8, descriptors()/2))
	return &Limits{
		Connections: n, Streams: min(maxStreams, n/4), log: log,
		open: map[net.Conn]*connection{}, warned: map[string]time.Time{},
	}
}

// Attach makes a server keep the limits. It returns the listener that the server must serve.
func (l *Limits) Attach(server *http.Server, listener net.Listener) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, l.opened(c))
	}
	server.ConnState = l.changed
	return &limited{listener, l}
}

// limited is a listener that warns when file descriptors have run out, and frees some.
type limited struct {
	net.Listener
	l *Limits
}

// Accept implements [net.Listener]. The server tries again after an error of this kind.
func (a *limited) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		n := a.l.evict()
		a.l.warn("file descriptors have run out: connections wait; raise the limit of open files (LimitNOFILE)",
			"error", err, "connections", n)
	}

	return c, err
}

// opened adds a connection, and closes another one if there are too many.
func (l *Limits) opened(conn net.Conn) *connection {
	c := &connection{conn: conn, waits: true, since: time.Now(), l: l}
	if l.add(c) {
		l.warn(fmt.Sprintf("more than %d connections: those that waited longest are closed", l.Connections))
	}
	return c
}

// add reports whether another connection had to be closed for this one.
func (l *Limits) add(c *connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.open[c.conn] = c

	if len(l.open) <= l.Connections {
		return false
	}

	l.evictLocked(c)

	return true
}

// evict closes a connection. It returns how many there were.
func (l *Limits) evict() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	n := len(l.open)
	l.evictLocked(nil)

	return n
}

// evictLocked closes a connection: one that waits before one that is in use, the oldest first. If none may be closed,
// it closes the newest.
func (l *Limits) evictLocked(newest *connection) {
	var best *connection
	for _, c := range l.open {
		switch {
		case c.protected || c == newest:
		case best == nil, c.waits && !best.waits, c.waits == best.waits && c.since.Before(best.since):
			best = c
		}
	}

	if best == nil {
		best = newest
	}
	if best == nil {
		return
	}

	delete(l.open, best.conn)
	l.evicted.Add(1)

	if secure, ok := best.conn.(*tls.Conn); ok { // its own Close would wait for the peer
		_ = secure.NetConn().Close()
		return
	}

	_ = best.conn.Close()
}

// changed records what a connection is used for.
func (l *Limits) changed(conn net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()

	c := l.open[conn]
	if c == nil {
		return
	}

	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(l.open, conn)
	case http.StateActive:
		c.waits = false
		c.since = time.Now()
	case http.StateIdle:
		c.waits = true
		c.protected = false
		c.since = time.Now()
	}
}

// protectConnection keeps the connection of a request open until the request is answered.
func protectConnection(r *http.Request) {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return
	}

	c.l.mu.Lock()
	defer c.l.mu.Unlock()

	c.protected = true
}

// stream admits a stream unless there are too many.
func (l *Limits) stream(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer l.streams.Add(-1)

		if n := l.streams.Add(1); n > int64(l.Streams) {
			l.refused.Add(1)
			l.warn("event streams are refused: there are too many", "streams", l.Streams, "remote", r.RemoteAddr)
			w.Header().Set("Retry-After", "5")
			fail(w, http.StatusServiceUnavailable, CodeTooManyStreams,
				fmt.Sprintf("this node has %d event streams, which is its limit: try another node, or later",
					l.Streams))

			return
		}

		protectConnection(r)
		next.ServeHTTP(w, r)
	})
}

// warn logs a warning, the same one at most once per warningInterval.
func (l *Limits) warn(message string, args ...any) {
	if l.due(message) {
		l.log.Warn(message, args...)
	}
}

// due reports whether a warning was not logged lately, and records that it is logged now.
func (l *Limits) due(message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if time.Since(l.warned[message]) < warningInterval {
		return false
	}

	l.warned[message] = time.Now()

	return true
}

// connections returns how many connections are open.
func (l *Limits) connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return len(l.open)
}
