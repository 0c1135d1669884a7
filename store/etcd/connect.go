package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
)

const (
	// dialTimeout bounds a connection attempt, and the log-in at Open.
	dialTimeout = 5 * time.Second
	// maxPause is the longest pause between two connection attempts. gRPC's own is two minutes, for which a cluster
	// that is back would go without its leader.
	maxPause = time.Second
	// pingInterval is how often a connection with a watch is checked. gRPC does not take less than 10 s, and a server
	// closes connections that ping more often than every 5 s.
	pingInterval = 10 * time.Second
	pingTimeout  = 3 * time.Second
	// unanswered is how long a member may take to answer before another one is asked.
	unanswered = 500 * time.Millisecond
)

// connect creates the client and checks that the cluster answers.
func (s *Store) connect(ctx context.Context, opts Options) error {
	if !opts.InOrder {
		rand.Shuffle(len(s.addr.endpoints), func(i, j int) { // so that the members of the cluster share the clients
			e := s.addr.endpoints
			e[i], e[j] = e[j], e[i]
		})
	}
	s.member.moved = make(chan struct{})

	stop := context.AfterFunc(ctx, s.cancel)
	client, err := clientv3.New(s.clientConfig())
	if !stop() && err == nil {
		_ = client.Close()
		err = ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no member has answered the log-in within %v: is one running there, and does the address "+
			"say tls=true exactly if it speaks TLS? %w", dialTimeout, err)
	}
	if err != nil {
		return s.explain(ctx, err)
	}

	s.client = client
	client.SetEndpoints(s.addr.endpoints[0])
	s.kv = clientv3.NewKVFromKVClient(failFast{pb.NewKVClient(client.ActiveConnection())}, client)
	s.watch = pb.NewWatchClient(client.ActiveConnection())

	if s.addr.exposed() {
		s.warn(s.String() + ": the password crosses the network in plain text; use tls=true")
	}
	return s.probe(ctx, opts.NoProbe)
}

func (s *Store) clientConfig() clientv3.Config {
	return clientv3.Config{
		Endpoints: s.addr.endpoints, Username: s.addr.user, Password: s.addr.password, TLS: s.addr.tls,
		Context: s.ctx, DialTimeout: dialTimeout,
		DialKeepAliveTime: pingInterval, DialKeepAliveTimeout: pingTimeout,
		// The client would send a transaction again if a server answers that it was cancelled. If the first one was
		// applied, the second one conflicts with it, and an applied swap would be reported as a conflict.
		MaxUnaryRetries: 1,
		Logger:          zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: dialTimeout,
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxPause,
			},
		})},
	}
}

// failFast fails a request if there is no connection. The client would wait until the context ends, and forget why.
type failFast struct{ pb.KVClient }

func (f failFast) Range(ctx context.Context, r *pb.RangeRequest, o ...grpc.CallOption) (*pb.RangeResponse, error) {
	return f.KVClient.Range(ctx, r, append(o, grpc.WaitForReady(false))...)
}

func (f failFast) Txn(ctx context.Context, r *pb.TxnRequest, o ...grpc.CallOption) (*pb.TxnResponse, error) {
	return f.KVClient.Txn(ctx, r, append(o, grpc.WaitForReady(false))...)
}

// openWatches opens a stream of watches.
func (s *Store) openWatches(ctx context.Context) (pb.Watch_WatchClient, error) {
	return s.watch.Watch(clientv3.WithRequireLeader(ctx), grpc.WaitForReady(false),
		grpc.MaxCallRecvMsgSize(math.MaxInt32))
}

// endpoint is the member of the cluster that is asked. The client itself would ask all of them by turns: while one of
// three is frozen, every third request would go unanswered.
type endpoint struct {
	mu    sync.Mutex
	at    int           // in address.endpoints
	moved chan struct{} // closed when another one is asked
}

// current returns the member that is asked, and a channel that is closed when another one is.
func (s *Store) current() (int, <-chan struct{}) {
	s.member.mu.Lock()
	at, moved := s.member.at, s.member.moved
	s.member.mu.Unlock()

	if s.client.ActiveConnection().GetState() == connectivity.TransientFailure && s.move(at) {
		return s.current()
	}
	return at, moved
}

// move makes the member after at the one that is asked, and reports whether there is another one.
func (s *Store) move(at int) bool {
	s.member.mu.Lock()
	defer s.member.mu.Unlock()
	if len(s.addr.endpoints) == 1 || s.member.at != at {
		return false
	}

	s.member.at = (at + 1) % len(s.addr.endpoints)
	s.client.SetEndpoints(s.addr.endpoints[s.member.at])
	close(s.member.moved)
	s.member.moved = make(chan struct{})
	return true
}

// begin returns a context that also ends with Close, or an error if the store is closed.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	switch {
	case s.closed.Load():
		return nil, nil, driver.ErrClosed
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}

	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx)) // a member that is cut off refuses at once
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel() }, nil
}

// write sends a request that changes something, once. If the member does not answer, another one is asked from then
// on; whether the request was applied is not known.
func (s *Store) write(ctx context.Context, kind string, request func(context.Context, clientv3.KV) error) error {
	within, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	if err := s.ask(within, kind, request); err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// read sends a request that changes nothing: to each member in turn until one answers.
func (s *Store) read(ctx context.Context, kind string, request func(context.Context, clientv3.KV) error) error {
	within, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	for range s.addr.endpoints {
		if err = s.ask(within, kind, request); !away(err) || within.Err() != nil {
			break
		}
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	return nil
}

// ask sends a request to the current member. A request that was refused because the log-in has expired was not
// applied. The client has then logged in again, and the request is sent once more.
func (s *Store) ask(ctx context.Context, kind string, request func(context.Context, clientv3.KV) error) error {
	var err error
	for range 2 {
		at, _ := s.current()
		began := time.Now()
		s.sent.Add(kind)
		err = request(ctx, s.kv)
		switch {
		case err == nil:
			s.leaderless.Store(false)
		case errors.Is(err, rpctypes.ErrNoLeader):
			s.leaderless.Store(true)
		}
		if away(err) || err != nil && ctx.Err() != nil && time.Since(began) >= unanswered {
			s.move(at)
		}
		if !s.loggedOut(err) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// probe checks that the cluster answers and that this user may do what is needed. It writes nothing: the condition of
// its transaction never holds, but etcd checks the permissions of all of it.
func (s *Store) probe(ctx context.Context, noProbe bool) error {
	key, all := s.key("probe"), s.key("")
	list := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly()}
	if !noProbe {
		never := clientv3.Compare(clientv3.ModRevision(key), "=", -1)
		err := s.read(ctx, "check", func(ctx context.Context, kv clientv3.KV) error {
			_, err := kv.Txn(ctx).If(never).Then(clientv3.OpPut(key, "")).Else(clientv3.OpGet(all, list...)).Commit()
			return err
		})
		switch {
		case err == nil:
			s.warnOfUpper(ctx)
			return nil
		case !errors.Is(err, rpctypes.ErrNoSpace):
			return err
		}
		s.warn(err.Error())
	}

	return s.read(ctx, "check", func(ctx context.Context, kv clientv3.KV) error {
		_, err := kv.Get(ctx, all, list...)
		return err
	})
}

// warnOfUpper warns of a store with members whose prefix is above this one's: it takes these registers for its own. A
// user who may not read there gets no warning.
func (s *Store) warnOfUpper(ctx context.Context) {
	for at := 1; at < len(s.addr.prefix)-1; at++ {
		if s.addr.prefix[at] != '/' {
			continue
		}

		upper := s.addr.prefix[:at+1]
		var members int64
		err := s.read(ctx, "check", func(ctx context.Context, kv clientv3.KV) error {
			r, err := kv.Get(ctx, upper+driver.MemberPrefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err == nil {
				members = r.Count
			}
			return err
		})
		if err == nil && members > 0 {
			s.warn(fmt.Sprintf("%s: there is another store above it, with prefix %s: that store takes the registers "+
				"of this one for its own, and removes those that rest; choose a prefix beside it, or remove its "+
				"registers if nobody uses it any more", s, upper))
		}
	}
}

// key returns the key of a register.
func (s *Store) key(name string) string { return s.addr.prefix + name }
