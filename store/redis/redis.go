// Package redis stores Regent's registers in Redis, 6.2 or later, or Valkey: one node, Sentinel or Cluster.
//
// What it assumes:
//   - Redis keeps what it has acknowledged. By default it does not: replication is asynchronous, so a failover may lose
//     the last writes, and so may a restart without appendfsync always. docs/STORES.md says what each loss does.
//     Options.Replicas makes it rarer.
//   - The clock of a primary runs at the usual rate and is not set forward by more than a member's stop timeout,
//     because elections with a lease of their own (profile lock) expire by it. A lease that another server has
//     written, or this one before it was last started or promoted, does not expire by it: observers then wait for a
//     whole lease by their own clocks. Elections kept by a member's heartbeat (profiles cluster and fleet) do not
//     expire in Redis and depend only on the clocks of the members.
//   - Nothing is evicted: maxmemory-policy noeviction. Open warns of what it finds: see [Store.Warnings].
//
// What it does not guarantee:
//   - A single primary. A primary that is cut off answers until it notices. With min-replicas-to-write 1 and
//     min-replicas-max-lag 2 it notices after two seconds, and then refuses reads too.
//   - Protection from somebody who deletes or overwrites keys by hand. A deleted election is still its holder's until
//     it would have expired, but not if its register is deleted as well.
//
// The shortest program:
//
//	store, err := redis.Open(ctx, os.Getenv("REDIS_URL"), redis.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The keys of the election stargate:leader, in redis-cli:
//
//	GET stargate:leader            # the election: who holds it, as ID/incarnation; it expires with the lease
//	GET {stargate:leader}:regent   # its register: revision, expiry, server, epoch, record; it never expires
//	ZRANGE {regent}:index 0 -1     # the names of all registers
//
// In a name the characters { } % are written %7B %7D %25, so that both keys have one hash slot and no two names share a
// key. An election that is held by a program without Regent, with a plain SET NX PX, is respected: it shows as held by
// that value until it expires.
package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// Options configures a [Store] beyond its address. A value in the address takes precedence. The zero value is usable.
type Options struct {
	Username string
	Password string
	TLS      *tls.Config // for rediss:// addresses: certificates, pools, names
	Prefix   string      // of every key and of the channel; without { } %

	// Replicas is how many replicas must confirm a swap (WAIT) within ReplicaTimeout, or a second if that is 0. The
	// outcome of a swap that was not confirmed is unknown, and Get does not show its record before it is confirmed.
	Replicas       int
	ReplicaTimeout time.Duration

	// CheckOver delays the checks of the server in Open: its version, its permissions, and what makes it lose writes.
	// Many processes that start at once can spread the checks with it. Open then only connects, the checks follow in
	// steps over that time, and OnWarning gets what they find, an error included: one line each. With 0 Open checks,
	// and returns the error.
	CheckOver time.Duration
	OnWarning func(string)
}

// Store is a database of one Redis server, or of several. It implements [driver.Store], [driver.Notifier],
// [driver.Batcher], [driver.Refresher] and [driver.Remover].
type Store struct {
	addr     *address
	client   rueidis.Client
	cluster  bool
	conns    connections
	direct   direct
	warnings []string

	index   string // the key of the index of all names
	channel string // on which changes are published
	get     script
	swap    script
	remove  script
	id      uint64        // of this Store; never reused
	swaps   atomic.Uint64 // how many it has sent
	buffers sync.Pool     // of *request
	sent    driver.RequestCount

	ctx           context.Context // cancelled by Close
	cancel        context.CancelFunc
	closed        atomic.Bool
	goroutines    sync.WaitGroup // of subscriptions, and of a wait for a lost node
	notifier      notifier
	awaitingNodes atomic.Bool // in a cluster: a node was lost, and a goroutine waits for it or its successor

	mu          sync.Mutex
	indexed     map[string]time.Time // in a cluster: when a name was last written to the index
	unconfirmed map[string]bool      // with Replicas: names whose last swap was not confirmed
	// By election with a lease of its own: the holder for which this Store last wrote one.
	claimed map[string]driver.Identity
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Notifier  = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
)

// Open connects to the server or servers at an address:
//
//	redis://[user[:password]@]host[:port][/db][?key=value&…]       rediss:// with TLS
//	redis://host:port,host:port/?cluster=true                      some nodes of a cluster
//	redis://host:port,host:port/0?sentinel=mymaster                the sentinels of mymaster
//
// The keys are prefix, replicas and replicaTimeout (see [Options]); sentinelUser and sentinelPassword; and with
// rediss:// ca, cert and key, which are files, and serverName. Reserved characters in user and password are
// percent-encoded.
//
// Open checks the server. It returns an error for a server that is too old, a replica, or missing permissions. For what
// makes the server lose writes see [Store.Warnings].
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	a, err := parseAddress(addr, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", redact(addr), driver.Refused(err))
	}

	s := &Store{
		addr: a, cluster: a.cluster, index: a.prefix + "{regent}:index",
		channel: fmt.Sprintf("regent:wake:%d:%s", a.db, a.prefix),
		conns:   connections{single: !a.cluster && a.sentinel == "", began: time.Now(), all: map[*connection]bool{}},
		get:     newScript(serverLua + getLua), remove: newScript(serverLua + removeLua),
		id: rand.Uint64(), indexed: map[string]time.Time{}, unconfirmed: map[string]bool{},
		claimed: map[string]driver.Identity{},
	}

	s.swap = newScript(s.channelsLua() + serverLua + swapLua)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.notifier.init(s)
	s.direct.init(s)
	s.conns.direct = &s.direct
	s.conns.onLost = func() { poke(s.notifier.suspect) }
	if s.cluster {
		s.conns.onLost = s.nodeLost
	}

	if err := s.connect(ctx); err != nil {
		s.cancel()
		return nil, fmt.Errorf("open store %s: %w", a, markRefused(err))
	}

	if opts.CheckOver > 0 {
		s.goroutines.Go(func() { s.checkLater(opts.CheckOver, opts.OnWarning) })
		return s, nil
	}

	if s.warnings, err = s.check(ctx, s.channel, func() {}); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %s: %w", a, err)
	}

	return s, nil
}

// String returns the address, without its passwords.
func (s *Store) String() string { return s.addr.String() }

// Warnings returns what Open found that makes the server lose writes, or could not check: one line each. It is empty
// with Options.CheckOver.
func (s *Store) Warnings() []string { return s.warnings }

// Close implements [driver.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.notifier.stop()
	s.cancel()
	s.client.Close()
	s.direct.close()
	s.goroutines.Wait()
	return nil
}
