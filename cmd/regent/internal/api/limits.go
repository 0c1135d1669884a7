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
	maxConnections = 1024 // at once, where there are descriptors for them
	maxStreams     = 128  // likewise
	sayAgain       = 10 * time.Second
)

// Limits bound what clients can take from a node: connections, and streams, which last. So a node that many ask, or that
// somebody attacks, still answers its health probes. Connections that wait for a request, or dribble one, are closed for new
// ones, the oldest first; those on which a request that has proved itself is answered are not.
type Limits struct {
	Connections int
	Streams     int

	log     *slog.Logger
	streams atomic.Int64
	refused atomic.Uint64 // streams
	evicted atomic.Uint64 // connections that were closed to make room

	mu   sync.Mutex
	open map[net.Conn]*connection
	said map[string]time.Time // when each warning was last logged
}

// connection is one that is open. Its fields belong to the mutex of Limits.
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
	return &Limits{Connections: n, Streams: min(maxStreams, n/4), log: log, open: map[net.Conn]*connection{}, said: map[string]time.Time{}}
}

// Attach has a server keep the limits, and returns the listener that it must serve.
func (l *Limits) Attach(server *http.Server, listener net.Listener) net.Listener {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, l.opened(c))
	}
	server.ConnState = l.changed
	return &limited{listener, l}
}

// limited is a listener that says when descriptors have run out, and frees some.
type limited struct {
	net.Listener
	l *Limits
}

// Accept implements [net.Listener]. The server tries again after an error of this kind.
func (a *limited) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		a.l.mu.Lock()
		n := len(a.l.open)
		a.l.evictLocked(nil)
		a.l.mu.Unlock()
		a.l.warn("file descriptors have run out: connections wait; raise the limit of open files (LimitNOFILE)",
			"error", err, "connections", n)
	}
	return c, err
}

// opened takes in a connection, and makes room for it if there are too many.
func (l *Limits) opened(conn net.Conn) *connection {
	c := &connection{conn: conn, waits: true, since: time.Now(), l: l}
	l.mu.Lock()
	l.open[conn] = c
	over := len(l.open) > l.Connections
	if over {
		l.evictLocked(c)
	}
	l.mu.Unlock()
	if over {
		l.warn(fmt.Sprintf("more than %d connections: those that waited longest are closed", l.Connections))
	}
	return c
}

// evictLocked closes a connection: one that waits before one that is used, the oldest first. If none may be closed, it
// closes the newest.
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
	if secure, ok := best.conn.(*tls.Conn); ok { // whose own Close would wait for its peer
		_ = secure.NetConn().Close()
		return
	}
	_ = best.conn.Close()
}

// changed follows what connections are used for.
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
		c.waits, c.since = false, time.Now()
	case http.StateIdle:
		c.waits, c.protected, c.since = true, false, time.Now()
	}
}

// protectConnection keeps a request's connection from being closed for others until the request is answered.
func protectConnection(r *http.Request) {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.protected = true
}

// stream lets a stream through unless there are too many.
func (l *Limits) stream(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer l.streams.Add(-1)
		if n := l.streams.Add(1); n > int64(l.Streams) {
			l.refused.Add(1)
			l.warn("event streams are refused: there are too many", "streams", l.Streams, "remote", r.RemoteAddr)
			w.Header().Set("Retry-After", "5")
			answer(w, http.StatusServiceUnavailable, failure{Error: fmt.Sprintf("this node has %d event streams, which is its limit: try another node, or later", l.Streams)})
			return
		}
		protectConnection(r)
		next.ServeHTTP(w, r)
	})
}

// warn logs a warning, but not the same one all the time.
func (l *Limits) warn(message string, args ...any) {
	l.mu.Lock()
	again := time.Since(l.said[message]) < sayAgain
	if !again {
		l.said[message] = time.Now()
	}
	l.mu.Unlock()
	if !again {
		l.log.Warn(message, args...)
	}
}
