package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
)

const (
	// dialTimeout bounds a connection attempt.
	dialTimeout = 3 * time.Second
	// maxPause is the longest pause between two rounds of connection attempts.
	maxPause = time.Second
	// pingInterval is how often the client checks a connection. After two pings without an answer it reconnects.
	pingInterval = 5 * time.Second
	// writeTimeout bounds a write to the connection. The client holds its lock meanwhile, so that no other request can
	// be sent or given up.
	writeTimeout = 2 * time.Second
	// unanswered is how long a request may take before the server that it went to is checked.
	unanswered = 500 * time.Millisecond
)

var errLinkLost = errors.New("the connection to the server was lost")

// link is the state of the connection. Its context ends when the connection is lost, and another one begins when it is
// back: the client itself would let a request wait for an answer that cannot come.
type link struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelCauseFunc
	calls  map[*call]bool // requests under way

	checking bool // whether the server still answers
}

// call is a request that waits for its answer.
type call struct {
	subject string
	cancel  context.CancelCauseFunc
}

func (l *link) init() {
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.calls = map[*call]bool{}
}

// lost ends all requests that are under way.
func (l *link) lost(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel(why)
}

func (l *link) back() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		l.ctx, l.cancel = context.WithCancelCause(context.Background())
	}
}

// begin returns a context for a request: it ends with that of the caller, with the connection, with the store, or if
// the server denies the request.
func (l *link) begin(ctx context.Context, store context.Context, subject string) (context.Context, func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.ctx
	within, cancel := context.WithCancelCause(ctx)
	c := &call{subject, cancel}
	l.calls[c] = true
	stopLink := context.AfterFunc(current, func() { cancel(context.Cause(current)) })
	stopStore := context.AfterFunc(store, func() { cancel(driver.ErrClosed) })

	return within, func() {
		stopLink()
		stopStore()
		cancel(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.calls, c)
	}
}

// denied ends the requests to a subject, for which the server sends no answer but an error of the connection.
func (l *link) denied(subject string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.calls {
		if c.subject == subject {
			c.cancel(why)
		}
	}
}

// connect connects to one of the servers.
func (s *Store) connect(ctx context.Context) error {
	opts, err := s.clientOptions()
	if err != nil {
		return s.explain(ctx, driver.Refused(err))
	}

	type result struct {
		conn *nats.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := nats.Connect(scheme+strings.Join(s.addr.servers, ","+scheme), opts...)
		done <- result{conn, err}
	}()

	select {
	case r := <-done:
		if r.err != nil {
			return s.explain(ctx, fmt.Errorf("connect: %w", r.err))
		}
		s.conn = r.conn
	case <-ctx.Done():
		go func() { // the client knows no context
			if r := <-done; r.err == nil {
				r.conn.Close()
			}
		}()
		return s.explain(ctx, fmt.Errorf("connect: no server has answered yet: is one running there, and does it "+
			"speak TLS exactly if the address says tls=true? %w", ctx.Err()))
	}

	if s.addr.exposed() {
		s.warn(s.String() + ": the password or token crosses the network in plain text; use tls=true")
	}
	return s.manage()
}

// manage makes what manages streams.
func (s *Store) manage() (err error) {
	switch {
	case s.addr.keys["domain"] != "":
		s.js, err = jetstream.NewWithDomain(s.conn, s.addr.keys["domain"])
	case s.addr.keys["apiPrefix"] != "":
		s.js, err = jetstream.NewWithAPIPrefix(s.conn, s.addr.keys["apiPrefix"])
	default:
		s.js, err = jetstream.New(s.conn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s, driver.Refused(err))
	}
	return nil
}

func (s *Store) clientOptions() ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("regent"),
		nats.Timeout(dialTimeout),
		nats.FlusherTimeout(writeTimeout),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(2),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(rounds int) time.Duration {
			return min(time.Duration(rounds)*50*time.Millisecond, maxPause)
		}),
		// A request that is made without a connection fails. The client would keep it, and send it at some later time.
		nats.ReconnectBufSize(-1),
		// A password that is wrong for a while, because servers get another one by turns, ends no store for good.
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { s.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.failed(err) }),
	}
	if s.addr.user != "" {
		opts = append(opts, nats.UserInfo(s.addr.user, s.addr.password))
	}
	if s.addr.token != "" {
		opts = append(opts, nats.Token(s.addr.token))
	}
	if path := s.addr.keys["creds"]; path != "" {
		login := nats.UserCredentials(path)
		if err := usable(login); err != nil {
			return nil, fmt.Errorf("creds %s: must be a file with the JWT of a user and its seed: %w", path, err)
		}
		opts = append(opts, login)
	}
	if prefix := s.addr.keys["inbox"]; prefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(prefix))
	}
	if s.addr.tls != nil {
		opts = append(opts, nats.Secure(s.addr.tls))
	}
	if path := s.addr.keys["nkey"]; path != "" {
		nkey, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return nil, fmt.Errorf("nkey %s: must be a file with the seed of a user's nkey: %w", path, err)
		}
		opts = append(opts, nkey)
	}
	return opts, nil
}

// usable reads a file of credentials as the client does at every connection. Later it may be replaced.
func usable(login nats.Option) error {
	var o nats.Options
	if err := login(&o); err != nil {
		return err
	}
	if _, err := o.UserJWT(); err != nil {
		return err
	}
	_, err := o.SignatureCB(nil)
	return err
}

func (s *Store) disconnected(err error) {
	why := errLinkLost
	if err != nil {
		why = fmt.Errorf("%w: %w", errLinkLost, err)
	}
	s.link.lost(why)
	s.known.forget()
	s.notifier.lost()
}

func (s *Store) reconnected() {
	s.link.back()
	s.notifier.wake()
}

// failed takes in an error that is not the answer to a request.
func (s *Store) failed(err error) {
	switch {
	case errors.Is(err, nats.ErrSlowConsumer):
		s.notifier.wakeAll()
	case errors.Is(err, nats.ErrPermissionViolation):
		_, subject, _ := strings.Cut(err.Error(), `to "`)
		subject, _, _ = strings.Cut(subject, `"`)
		if strings.Contains(err.Error(), "Subscription") {
			s.notifier.denied(subject, err)
		} else {
			s.link.denied(subject, err)
		}
	}
}

// suspect checks that the server answers at all, after a request went unanswered. If not, another server is asked. It
// does not wait.
func (s *Store) suspect() {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	if s.link.checking || s.link.ctx.Err() != nil {
		return
	}

	s.link.checking = true
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		if s.conn.FlushWithContext(ctx) != nil && s.ctx.Err() == nil && s.conn.IsConnected() {
			_ = s.conn.ForceReconnect() // it is closed otherwise
		}

		s.link.mu.Lock()
		defer s.link.mu.Unlock()
		s.link.checking = false
	})
}
