package main

import (
	"context"

	"github.com/regentd/regent"
	"github.com/regentd/regent/bench/internal/compare"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/etcd"
	"github.com/regentd/regent/store/nats"
	"github.com/regentd/regent/store/postgres"
)

// regentOn returns Regent on a store, with both profiles.
func regentOn(name, server string, start func(context.Context, string) (compare.Server, error),
	open func(context.Context, string) (driver.Store, error)) []compare.Peer {
	var all []compare.Peer
	for _, p := range []struct {
		name string
		cfg  regent.Config
	}{{"lock", regent.Lock()}, {"cluster", regent.Cluster()}} {
		all = append(all, compare.Peer{Name: "Regent on " + name + ", profile " + p.name, Server: server, Start: start,
			Store: open, Config: p.cfg})
	}
	return all
}

func openStorePostgres(ctx context.Context, addr string) (driver.Store, error) {
	return postgres.Open(ctx, addr, postgres.Options{})
}

func openStoreEtcd(ctx context.Context, addr string) (driver.Store, error) {
	return etcd.Open(ctx, addr, etcd.Options{})
}

func openStoreNATS(ctx context.Context, addr string) (driver.Store, error) {
	return nats.Open(ctx, addr, nats.Options{})
}
