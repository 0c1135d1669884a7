package etcd

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// TestKilledMember kills the member that a store asks, which is not the cluster's leader.
func TestKilledMember(t *testing.T) {
	t.Parallel()
	all := cluster(t, 3)
	s := open(t, etcdtest.Address(all, ""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	leader := leaderOf(t, all)
	kill := func() (restart func()) {
		if at, _ := s.current(); asked(s, all) == leader {
			s.move(at)
		}
		drivertest.Settled(t, s, "a")
		killed := asked(s, all)
		killed.Kill()
		return func() {
			if err := killed.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}

	restart := kill()
	if _, err := s.Get(drivertest.Short(t), "a"); err != nil {
		t.Errorf("a read after the member was killed: %v, want the answer of another one", err)
	}
	restart()

	kill()
	drivertest.Eventually(t, "the connection is known to be lost", func() bool {
		s.client.ActiveConnection().Connect()
		return s.client.ActiveConnection().GetState() == connectivity.TransientFailure
	})
	if _, err := s.Swap(drivertest.Short(t), l); err != nil {
		t.Errorf("a swap after the connection was lost: %v, want it to be sent to another member", err)
	}
}

// cancelling passes requests on, and answers transactions as a server does that gave up waiting for them.
type cancelling struct {
	pb.UnimplementedKVServer
	pb.KVClient
	transactions atomic.Int64
}

func (c *cancelling) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return c.KVClient.Range(ctx, r)
}

func (c *cancelling) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	return c.KVClient.Put(ctx, r)
}

func (c *cancelling) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return c.KVClient.DeleteRange(ctx, r)
}

func (c *cancelling) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return c.KVClient.Compact(ctx, r)
}

func (c *cancelling) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	c.transactions.Add(1)
	if _, err := c.KVClient.Txn(ctx, r); err != nil {
		return nil, err
	}
	return nil, rpctypes.ErrGRPCCanceled
}

// TestCancelledByTheServer has a server answer that it has cancelled a swap, after it was applied. etcd's client would
// send it again, and report the conflict of the second one with the first.
func TestCancelledByTheServer(t *testing.T) {
	addr := fresh()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	between := &cancelling{KVClient: pb.NewKVClient(plain(t, shared...).ActiveConnection())}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, between)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	through := strings.Replace(addr, shared[0].Addr(), listener.Addr().String(), 1)
	s := storetest.Opened[*Store](t)(Open(t.Context(), through, Options{NoProbe: true}))
	l := held("a", "x", 1)
	_, err = s.Swap(t.Context(), l)
	if err == nil || errors.Is(err, driver.ErrConflict) {
		t.Errorf("a swap that the server has cancelled: %v, want an unknown outcome", err)
	}
	if n := between.transactions.Load(); n != 1 {
		t.Errorf("the swap was sent %d times", n)
	}
	if got := drivertest.Settled(t, s, "a"); got.Nonce != l.Nonce {
		t.Errorf("the register shows nonce %d", got.Nonce)
	}
}
