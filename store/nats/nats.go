// Package nats stores Regent's registers in a stream of NATS JetStream, nats-server 2.11 or later: one subject for
// each.
//
// What it assumes:
//   - A stream with three replicas or more that keeps what a majority has accepted. By default nats-server writes its
//     files to disk every two minutes. A server that loses power forgets what came since, and a majority that does so
//     at once has lost answered writes; sync_interval: always in the servers' configuration prevents that.
//   - Nobody changes the messages by hand. A register whose message was deleted begins again with epoch 1.
//   - Only members of Regent may publish to the subjects of the stream: see docs/STORES.md for the permissions.
//
// What it does not guarantee:
//   - Progress without a majority of the replicas: every request then fails, and no outcome of a swap is known.
//
// The shortest program:
//
//	store, err := nats.Open(ctx, os.Getenv("NATS_ADDRESS"), nats.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The registers, with the tool of NATS:
//
//	nats stream view REGENT
package nats

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent/driver"
)

// DefaultStream is the name of the stream unless the address has another.
const DefaultStream = "REGENT"

// Options configures a [Store]. The zero value is usable.
type Options struct {
	// NoProbe is for a process that only reads. Open then neither creates the stream nor checks that this user may
	// write. Without a stream Open returns [ErrNoStream].
	NoProbe bool

	// Username and Password are used if the address names neither a user nor a token.
	Username string
	Password string

	// TLS turns TLS on. Files that the address names are used instead of what is in it.
	TLS *tls.Config

	// OnWarning gets what makes the store slower or less safe, one line each. It may be called at any time, from any
	// goroutine.
	OnWarning func(string)
}

// Store is a stream. It implements [driver.Store], [driver.Notifier], [driver.Batcher], [driver.Refresher],
// [driver.Remover] and [driver.Counter].
type Store struct {
	addr     *address
	noProbe  bool
	warn     func(string)
	conn     *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	link     link
	known    known
	notifier notifier
	repairs  repairs

	id     uint64        // of this Store; never reused
	stamps atomic.Uint64 // how many stamps it has made
	sent   driver.RequestCount

	closed     atomic.Bool
	closing    sync.Mutex      // guards the start of goroutines against Close
	ctx        context.Context // cancelled by Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Notifier  = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
	_ driver.Counter   = (*Store)(nil)
)

// Open connects to a server or a cluster, and creates the stream if there is none:
//
//	nats://[user:password@ or token@]host[:port][,host[:port]…][/STREAM][?key=value&…]
//
// The hosts are servers of one cluster, from which the client learns the others. The keys of an address are tls, ca,
// cert, key, serverName, creds, nkey, domain, apiPrefix, inbox and replicas: see docs/STORES.md.
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	parsed, err := parseAddress(addr, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(addr), driver.Refused(err))
	}

	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	s := &Store{addr: parsed, id: binary.LittleEndian.Uint64(id[:]), noProbe: opts.NoProbe, warn: opts.OnWarning}
	if s.warn == nil {
		s.warn = func(string) {}
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.link.init()
	s.notifier.init(s)

	if err = s.connect(ctx); err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %w", err)
	}
	return s, nil
}

// Close implements [driver.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}

	s.closing.Lock() // from here on no goroutine begins
	s.cancel()
	s.closing.Unlock()
	s.notifier.stop()
	if s.conn != nil {
		s.conn.Close()
	}
	s.goroutines.Wait()
	return nil
}

// start runs f in a goroutine that Close waits for. It does nothing after Close.
func (s *Store) start(f func()) {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.ctx.Err() == nil {
		s.goroutines.Go(f)
	}
}

// String returns the address without its secrets.
func (s *Store) String() string { return s.addr.String() }

// Requests implements [driver.Counter]: requests by what they ask for. A read sends two: a barrier and the read itself.
func (s *Store) Requests() map[string]uint64 { return s.sent.Requests() }
