package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/bench/internal/compare"
	"github.com/regentd/regent/bench/internal/port"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// etcdScheme begins the address of a store on etcd.
const etcdScheme = "etcd://"

// startEtcd starts one member of etcd in this process. It does not wait for the disk, as the other servers do not.
func startEtcd(_ context.Context, dir string) (compare.Server, error) {
	received := new(messages)
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "fatal"
	cfg.UnsafeNoFsync = true
	cfg.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.StatsHandler(received)}
	client := url.URL{Scheme: "http", Host: port.Address(port.Free())}
	peer := url.URL{Scheme: "http", Host: port.Address(port.Free())}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.ListenPeerUrls = []url.URL{peer}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return compare.Server{}, err
	}

	select {
	case <-server.Server.ReadyNotify():
		return compare.Server{Addr: etcdScheme + client.Host, Stop: server.Close,
			Requests: func(context.Context) (float64, error) { return float64(received.n.Load()), nil }}, nil
	case <-time.After(time.Minute):
		server.Close()
		return compare.Server{}, errors.New("etcd does not become ready")
	}
}

// messages counts what clients send: a request is one message, and so is each message of a stream.
type messages struct{ n atomic.Int64 }

func (m *messages) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.InPayload); ok {
		m.n.Add(1)
	}
}

func (*messages) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*messages) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*messages) HandleConn(context.Context, stats.ConnStats) {}

// dialEtcd connects a client.
func dialEtcd(addr string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{strings.TrimPrefix(addr, etcdScheme)},
		DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
}

// etcdElection is etcd's own election, with one session for each client.
type etcdElection struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func openEtcd(ctx context.Context, addr string) (compare.Contender, error) {
	client, err := dialEtcd(addr)
	if err != nil {
		return nil, err
	}

	session, err := concurrency.NewSession(client, concurrency.WithTTL(int(lease.Seconds())))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &etcdElection{client, session}, nil
}

func (e *etcdElection) Hold(ctx context.Context, election string, led func()) error {
	el := concurrency.NewElection(e.session, "/"+election)
	if err := el.Campaign(ctx, "bench"); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	led()
	select {
	case <-ctx.Done():
	case <-e.session.Done():
		return errors.New("the session has ended")
	}
	return el.Resign(context.WithoutCancel(ctx))
}

func (e *etcdElection) Once(ctx context.Context, election string) error {
	el := concurrency.NewElection(e.session, "/"+election)
	if err := el.Campaign(ctx, "bench"); err != nil {
		return fmt.Errorf("campaign: %w", err)
	}
	return el.Resign(ctx)
}

func (e *etcdElection) Close() {
	_ = e.session.Close()
	_ = e.client.Close()
}
