package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

const (
	dialTimeout = 3 * time.Second
	// writeTimeout is the client's limit of a write, and of a call over the connection for one call at a time.
	writeTimeout = 5 * time.Second
	// idlePing is how long a connection may be idle before it is pinged. A standby that polls its election never
	// reaches it. A connection that hangs is found by its requests (connections), a half-open one by the kernel.
	idlePing = time.Minute
)

// connect returns when ctx is done, which rueidis.NewClient does not.
func (s *Store) connect(ctx context.Context) error {
	type outcome struct {
		client rueidis.Client
		err    error
	}

	done := make(chan outcome, 1)
	go func() {
		client, err := rueidis.NewClient(s.clientOption())
		done <- outcome{client, err}
	}()

	select {
	case o := <-done:
		if o.err != nil {
			if o.client != nil {
				o.client.Close()
			}
			return fmt.Errorf("connect: %w", o.err)
		}
		s.client = o.client
		s.conns.opened.Store(true)
		return nil
	case <-ctx.Done():
		go func() {
			if o := <-done; o.client != nil {
				o.client.Close()
			}
		}()
		return fmt.Errorf("connect: %w", ctx.Err())
	}
}

func (s *Store) clientOption() rueidis.ClientOption {
	a := s.addr
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: idlePing}
	return rueidis.ClientOption{
		InitAddress: a.hosts, Username: a.user, Password: a.password, SelectDB: a.db, TLSConfig: a.tls,
		ClientName: "regent",
		Sentinel: rueidis.SentinelOption{
			MasterSet: a.sentinel, Username: a.sentinelUser, Password: a.sentinelPassword, TLSConfig: a.tls,
			ClientName: "regent", Dialer: dialer,
			TopologyRefreshInterval: 5 * time.Second,
		},
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: 30 * time.Second, MaxMovedRedirections: 8},
		ForceSingleClient: s.conns.single,
		ClientSetInfo:     rueidis.DisableClientSetInfo,
		DialCtxFn:         s.conns.dial,
		Dialer:            dialer,
		ConnWriteTimeout:  writeTimeout,
		// A swap that was sent twice could conflict with itself, and would be reported as refused.
		DisableRetry: true,
		DisableCache: true,
		// Without it, a call that is alone on its connection does not notice that its context was cancelled.
		AlwaysPipelining:  true,
		PipelineMultiplex: -1, // one connection to a node
		BlockingPipeline:  -1, // for a large batch too
		RingScaleEachConn: 8, ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
	}
}

// forCalls is in a context so that it is not context.Background: see connections.dial.
type forCalls struct{}

// send runs a call of the client. It returns when ctx ends, even while the client connects; the client's own calls do
// not.
func send[R any](ctx context.Context, s *Store, call func() R, failed func(error) R) R {
	if s.closed.Load() {
		return failed(driver.ErrClosed)
	}

	if err := ctx.Err(); err != nil {
		return failed(err)
	}

	if s.conns.ready() {
		return call()
	}

	done := make(chan R, 1)
	go func() {
		if s.conns.single {
			// The first call over a dead connection fails. That should not be a swap.
			s.client.Do(context.WithValue(ctx, forCalls{}, true), s.client.B().Ping().Build())
		}
		done <- call()
	}()

	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return failed(ctx.Err())
	}
}

// explain turns an error of the client into the error for the caller.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case s.closed.Load():
		return driver.ErrClosed
	case ctx.Err() != nil:
		s.conns.closeUnresponsive()
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		// Another call was connecting, and its context ended. That is not this caller's context.
		err = fmt.Errorf("connect: no answer in time: %v", err)
	}

	return markRefused(err)
}
