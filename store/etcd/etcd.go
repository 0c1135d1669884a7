// Package etcd stores Regent's registers in etcd, 3.4 or later: one key for each.
//
// What it assumes:
//   - A cluster that keeps what a majority has accepted, as etcd does. A snapshot that is restored loses what was
//     written since: docs/STORES.md says what that does.
//   - One cluster behind all the addresses. A cluster that was forced to start again without its majority
//     (--force-new-cluster) beside members that still run is two stores.
//   - Nobody changes the keys by hand. A register that was deleted begins again with epoch 1.
//
// What it does not guarantee:
//   - Progress without a majority of members: every request then fails, and no outcome of a swap is known.
//   - Progress in a cluster whose quota is exceeded (NOSPACE): writes fail, reads are still answered.
//
// The shortest program:
//
//	store, err := etcd.Open(ctx, os.Getenv("ETCD_ADDRESS"), etcd.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The registers, with etcd's own tool:
//
//	etcdctl get --prefix /regent/
package etcd

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/regentd/regent/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// DefaultPrefix begins every key unless the address names another prefix.
const DefaultPrefix = "/regent/"

// Options configures a [Store]. The zero value is usable.
type Options struct {
	// Username and Password are used if the address names no user.
	Username, Password string

	// TLS turns TLS on. Files that the address names are used instead of what is in it.
	TLS *tls.Config

	// NoProbe leaves out the check that this user may write, for a process that only reads.
	NoProbe bool

	// InOrder asks the members in the order of the address, the first one as long as it answers. Without it one of them
	// is chosen at random, so that many processes share the members.
	InOrder bool

	// OnWarning gets what makes the store slower or less safe, one line each. It may be called at any time, from any
	// goroutine.
	OnWarning func(string)
}

// Store is a range of keys of an etcd cluster. It implements [driver.Store], [driver.Notifier], [driver.Batcher],
// [driver.Refresher], [driver.Remover] and [driver.Counter].
type Store struct {
	addr     *address
	warn     func(string)
	client   *clientv3.Client
	kv       clientv3.KV
	watch    pb.WatchClient
	member   endpoint // the member of the cluster that is asked
	notifier notifier
	sent     driver.RequestCount

	leaderless atomic.Bool // a member has answered that there is no leader, and none has done more since

	id     uint64        // of this Store; never reused
	stamps atomic.Uint64 // how many stamps it has made

	ctx        context.Context // cancelled by Close
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
	closed     atomic.Bool
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Notifier  = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
	_ driver.Counter   = (*Store)(nil)
)

// Open connects to a cluster:
//
//	etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?key=value&…]
//
// The hosts are members of one cluster. One of them is asked at a time; another one takes its place if it does not
// answer. The keys of an address are tls, ca, cert, key and serverName: see docs/STORES.md.
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	a, err := parseAddress(addr, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(addr), driver.Refused(err))
	}

	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	s := &Store{addr: a, id: binary.LittleEndian.Uint64(id[:]), warn: opts.OnWarning}
	if s.warn == nil {
		s.warn = func(string) {}
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.notifier.init(s)

	if err := s.connect(ctx, opts); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %w", err)
	}
	return s, nil
}

// String returns the address without its secrets.
func (s *Store) String() string { return s.addr.String() }

// Close implements [driver.Store].
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}

	s.cancel()
	s.notifier.stop()
	if s.client != nil {
		_ = s.client.Close() // it returns that its context was cancelled
	}
	s.goroutines.Wait()
	return nil
}

// Requests implements [driver.Counter]: requests by what they ask for. Many registers may share one.
func (s *Store) Requests() map[string]uint64 { return s.sent.Requests() }
