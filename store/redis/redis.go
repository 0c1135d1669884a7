// Package redis keeps Regent's registers in Redis, 6.2 or later, or Valkey: one node, Sentinel or Cluster.
//
// What it assumes:
//   - What Redis has answered it keeps. It does not by itself: replication is asynchronous, so that
//     a failover may forget the last writes, and so may a restart without appendfsync always.
//     docs/STORES.md says what each loss does. Options.Replicas makes it rarer.
//   - The clock of a primary runs at the usual rate and is not set forward by more than a member's
//     stop timeout: seats with a lease of their own (profile lock) expire by it. A lease that another
//     server has written, or this one before it was last started or promoted, does not: observers
//     then wait for a whole lease by their own clocks. Seats kept by a member's heartbeat (profiles
//     cluster and fleet) do not expire in Redis and need no clock but the members' own.
//   - Nothing is evicted: maxmemory-policy noeviction. Open warns of what it finds: see
//     [Store.Warnings].
//
// What it does not guarantee:
//   - One primary. A primary that is cut off goes on answering until it notices. With
//     min-replicas-to-write 1 and min-replicas-max-lag 2 it notices after two seconds, and then
//     refuses reads too.
//   - Somebody who deletes or overwrites keys by hand. A deleted seat is still its holder's until it would have expired, but nothing
//     helps if its register is gone as well.
//
// The shortest program:
//
//	store, err := redis.Open(ctx, os.Getenv("REDIS_URL"), redis.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// What is in it, told by redis-cli, for the election stargate:leader:
//
//	GET stargate:leader            # the seat: who holds it, as ID/incarnation; it expires with the lease
//	GET {stargate:leader}:regent   # its register: revision, expiry, server, epoch, record; it never expires
//	ZRANGE {regent}:index 0 -1     # the names of all registers
//
// In a name the characters { } % are written %7B %7D %25, so that both keys have one slot and no two names one key. A seat that is held by
// somebody who does not use Regent, with a plain SET NX PX of its own, is respected: it shows as held by that value until it expires.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// Options is what an address cannot hold, or should not. What the address says comes first. The zero value is what most want.
type Options struct {
	Username string
	Password string
	TLS      *tls.Config // for rediss:// addresses: certificates, pools, names
	Prefix   string      // begins every key and the channel; no { } %

	// Replicas is how many replicas must confirm a swap (WAIT) before it counts, within ReplicaTimeout, or a second if that is 0. One that
	// was not confirmed has no known outcome, and a record that waits for it is not shown by Get.
	Replicas       int
	ReplicaTimeout time.Duration

	// CheckOver puts off what Open checks of the server: its version, permissions and what makes it forget. Many processes
	// that start at once can spread that so. Open then only connects, the checks follow in steps over that time, and
	// OnWarning gets what they find, an error included: one line each. With 0 Open checks, and returns the error.
	CheckOver time.Duration
	OnWarning func(string)
}

// Store is a database of a Redis server, or of several. It implements [driver.Store], [driver.Waker],
// [driver.Batcher], [driver.Refresher] and [driver.Remover].
type Store struct {
	addr     *address
	client   rueidis.Client
	cluster  bool
	lines    lines
	warnings []string

	index   string // the key of all names
	channel string // where changes of hands are published
	get     script
	swap    script
	remove  script
	id      uint64        // of this Store among all that ever were
	swaps   atomic.Uint64 // that it has sent
	buffers sync.Pool     // of *request
	sent    driver.RequestCount

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	closed atomic.Bool
	work   sync.WaitGroup // listeners, and who waits for a lost node
	push   push
	absent atomic.Bool // in a cluster: a node was lost, and somebody waits for it or its successor

	mu      sync.Mutex
	indexed map[string]time.Time       // in a cluster: when a name was last written to the index
	unsure  map[string]bool            // with Replicas: names whose last swap was not confirmed
	claimed map[string]driver.Identity // of seats with a lease of their own: for whom this Store last wrote one
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Waker     = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
)

const (
	dialTimeout = 3 * time.Second
	// idlePing is how long a connection may be silent before it is asked for a sign of life. A standby that looks at its seat now and
	// then never comes to that; what hangs is found by its own requests (lines), what is half open by the kernel.
	idlePing = time.Minute
)

// Open connects to the server or servers at an address:
//
//	redis://[user[:password]@]host[:port][/db][?key=value&…]       rediss:// with TLS
//	redis://host:port,host:port/?cluster=true                      some nodes of a cluster
//	redis://host:port,host:port/0?sentinel=mymaster                the sentinels of mymaster
//
// The keys are prefix, replicas and replicaTimeout (see [Options]); sentinelUser and sentinelPassword; and with rediss:// ca, cert and key,
// which are files, and serverName. Characters of user and password that mean something in an address are percent-encoded.
//
// It looks at what it finds there: see [Store.Warnings]. A server that is too old, a replica, and missing permissions are errors.
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	a, err := parseAddress(addr, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", redact(addr), driver.Refused(err))
	}
	s := &Store{
		addr: a, cluster: a.cluster, index: a.prefix + "{regent}:index", channel: fmt.Sprintf("regent:wake:%d:%s", a.db, a.prefix),
		lines: lines{one: !a.cluster && a.sentinel == "", began: time.Now(), all: map[*line]bool{}},
		get:   newScript(serverLua + getLua), remove: newScript(serverLua + removeLua),
		id: rand.Uint64(), indexed: map[string]time.Time{}, unsure: map[string]bool{}, claimed: map[string]driver.Identity{},
	}
	s.swap = newScript("local channel = " + luaString(s.channel) + "\n" + serverLua + swapLua)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.push.init(s)
	if s.cluster {
		s.lines.lost = s.nodeLost
	}
	if err := s.connect(ctx); err != nil {
		s.cancel()
		return nil, fmt.Errorf("open store %s: %w", a, refusal(err))
	}
	if opts.CheckOver > 0 {
		s.work.Go(func() { s.inspectLater(opts.CheckOver, opts.OnWarning) })
		return s, nil
	}
	if s.warnings, err = s.inspect(ctx, s.channel, func() {}); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %s: %w", a, err)
	}
	return s, nil
}

// connect gives up with ctx, which rueidis.NewClient does not know.
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
		InitAddress: a.hosts, Username: a.user, Password: a.password, SelectDB: a.db, TLSConfig: a.tls, ClientName: "regent",
		Sentinel: rueidis.SentinelOption{
			MasterSet: a.sentinel, Username: a.sentinelUser, Password: a.sentinelPassword, TLSConfig: a.tls, ClientName: "regent", Dialer: dialer,
			TopologyRefreshInterval: 5 * time.Second,
		},
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: 30 * time.Second, MaxMovedRedirections: 8},
		ForceSingleClient: s.lines.one,
		ClientSetInfo:     rueidis.DisableClientSetInfo,
		DialCtxFn:         s.lines.dial,
		Dialer:            dialer,
		ConnWriteTimeout:  5 * time.Second,
		// A swap that was sent twice could meet itself, and would be told that it was refused.
		DisableRetry: true,
		DisableCache: true,
		// Otherwise a call that is alone on its connection does not notice that its context was cancelled.
		AlwaysPipelining:  true,
		PipelineMultiplex: -1, // one connection to a node
		BlockingPipeline:  -1, // for a large batch too
		RingScaleEachConn: 8, ReadBufferEachConn: 32 << 10, WriteBufferEachConn: 32 << 10,
	}
}

// String returns the address, without its passwords.
func (s *Store) String() string { return s.addr.String() }

// Warnings returns what Open found that makes the store forget more than it should, or could not find out: one line each.
// It is empty with Options.CheckOver.
func (s *Store) Warnings() []string { return s.warnings }

// Close implements [driver.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.push.stop()
	s.cancel()
	s.client.Close()
	s.work.Wait()
	return nil
}

// send runs a call of the client. It returns when ctx ends, even while the client connects, which its own calls do not.
func send[R any](ctx context.Context, s *Store, call func() R, failed func(error) R) R {
	if s.closed.Load() {
		return failed(driver.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return failed(err)
	}
	if s.lines.ready() {
		return call()
	}
	done := make(chan R, 1)
	go func() {
		if s.lines.one {
			// The first call after a connection has died only finds that out. It had better not be a swap.
			s.client.Do(ctx, s.client.B().Ping().Build())
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

// explain turns an error of the client into what the caller should see.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case s.closed.Load():
		return driver.ErrClosed
	case ctx.Err() != nil:
		s.lines.cutSilent()
		if !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		// Somebody else was connecting and gave up. That is not this caller's context.
		err = fmt.Errorf("connect: %v", err)
	}
	return refusal(err)
}
