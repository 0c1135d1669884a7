package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// direct is a connection for one swap at a time. The goroutine of the caller writes and reads by itself. Over the
// shared connection a call is handed to a goroutine that writes, and its answer comes from one that reads: that takes
// a third of the client's processor time.
//
// It only saves time. While it is in use, or is not open, swaps go over the shared connection. Nobody reads from it
// between two calls, so that nobody notices when the server closes it. So it is checked before it is used, and closed
// when any other connection to the server is lost.
type direct struct {
	s    *Store
	conn atomic.Pointer[connection] // nil while none is open
	busy atomic.Bool                // it is in use, or somebody connects or closes it

	// What follows belongs to whoever has set busy.
	dialed  *connection // the last one, open or not
	usedAt  time.Time
	retryAt time.Time // no attempt to connect before

	mu     sync.Mutex
	ctx    context.Context // of the call that is under way; nil if there is none
	stop   func() bool     // ends waiting for the end of ctx; nil if nobody waits
	timer  *time.Timer     // when somebody begins to wait for that
	armed  bool            // the timer will fire
	closed bool
}

const (
	// directTimeout is how long a call may take, whatever its context says: the client's own limit.
	directTimeout = writeTimeout
	// directIdle is how long the connection may be unused before it is checked.
	directIdle = 100 * time.Millisecond
	// directRetry is the wait after an attempt to connect that has failed.
	directRetry = 5 * time.Second
	// directWatch is how long a call may take before its context is waited for. The deadline of the context holds from
	// the beginning, so this is about contexts that are cancelled. To wait in every call would cost four allocations,
	// and to set a timer in every call would wake a thread that waits for the network.
	directWatch = 20 * time.Millisecond
)

// forDirect is in the context with which the connection is dialed: see connections.dial.
type forDirect struct{}

func (d *direct) init(s *Store) {
	d.s = s
	d.timer = time.AfterFunc(time.Hour, d.watch)
	d.timer.Stop()
}

// eval calls a script that returns 1 or nothing. It returns false if the call has to go over the shared connection.
func (d *direct) eval(ctx context.Context, sc script, r *request) (error, bool) {
	if d.conn.Load() == nil || !d.busy.CompareAndSwap(false, true) {
		return nil, false
	}

	defer d.busy.Store(false)

	if !d.usable() {
		return nil, false
	}

	began := time.Now()
	d.begin(ctx)
	answer := d.s.client.DoStream(ctx, d.s.command(sc, r, false))
	_, err := answer.WriteTo(io.Discard)
	d.end()
	d.usedAt = time.Now()

	if _, answered := rueidis.IsRedisErr(err); err == nil || answered {
		return err, true
	}

	if errors.Is(err, os.ErrDeadlineExceeded) {
		if until, ok := ctx.Deadline(); ok && until.Sub(began) < directTimeout {
			<-ctx.Done() // its deadline, which was that of the connection, has passed
		} else {
			err = fmt.Errorf("no answer within %v", directTimeout)
		}
	}
	if d.usedAt.Sub(began) > answerTimeout {
		d.s.conns.closeIdle() // what has broken this connection may have broken the others
	}
	return err, true
}

// usable reports whether a call can use the connection.
func (d *direct) usable() bool {
	conn := d.conn.Load()
	switch {
	case conn == nil || d.s.closed.Load():
		return false
	case time.Since(d.usedAt) > directIdle && !quiet(conn.Conn):
		_ = conn.Close()
		return false
	}

	return true
}

// begin makes a call end when its context is cancelled. The timer may have been set by an earlier call.
func (d *direct) begin(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.ctx = ctx
	if !d.armed {
		d.armed = true
		d.timer.Reset(directWatch)
	}
}

func (d *direct) end() {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.ctx = nil
	if d.stop != nil {
		d.stop()
		d.stop = nil
	}
}

// watch waits for the end of the context of a call that takes long.
func (d *direct) watch() {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.armed = false
	if ctx := d.ctx; ctx != nil && d.stop == nil {
		d.stop = context.AfterFunc(ctx, func() { d.interrupt(ctx) })
	}
}

// interrupt ends a call whose context has ended. The next call could take its answer for its own, so the
// connection is closed.
func (d *direct) interrupt(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()

	if conn := d.conn.Load(); conn != nil && d.ctx == ctx {
		_ = conn.Close()
	}
}

// open connects, unless that is done or under way. It does not wait. Only a server whose shared connection is open is
// tried.
func (d *direct) open() {
	if d.conn.Load() != nil || !canBeQuiet || d.s.addr.replicas > 0 || !d.s.conns.ready() {
		return
	}
	if !d.busy.CompareAndSwap(false, true) {
		return
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	if d.closed || time.Now().Before(d.retryAt) {
		d.busy.Store(false)
		return
	}

	d.s.goroutines.Go(func() {
		defer d.busy.Store(false)
		d.connect()
	})
}

// connect makes the client open the connection, which it does for the first command.
func (d *direct) connect() {
	ctx, cancel := context.WithTimeout(context.WithValue(d.s.ctx, forDirect{}, d), dialTimeout)
	defer cancel()

	d.dialed = nil
	for range 2 { // the client may still have one that is closed
		answer := d.s.client.DoStream(ctx, d.s.client.B().Ping().Build())
		if _, err := answer.WriteTo(io.Discard); err != nil || d.dialed == nil {
			continue
		}

		d.usedAt = time.Now()
		d.conn.Store(d.dialed)
		if d.dialed.state.Load() == gone {
			d.lost(d.dialed)
		}
		return
	}

	d.retryAt = time.Now().Add(directRetry)
}

// lost takes in that a connection is closed.
func (d *direct) lost(l *connection) { d.conn.CompareAndSwap(l, nil) }

// closeIdle closes the connection unless it is in use: then its answer shows whether it works.
func (d *direct) closeIdle() {
	if !d.busy.CompareAndSwap(false, true) {
		return
	}

	defer d.busy.Store(false)
	if conn := d.conn.Load(); conn != nil {
		_ = conn.Close()
	}
}

// close closes the connection for good. It does not wait for a call, which ends by that.
func (d *direct) close() {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.closed = true
	if conn := d.conn.Load(); conn != nil {
		_ = conn.Close()
	}
}
