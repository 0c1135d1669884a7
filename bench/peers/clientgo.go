package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/regentd/regent/bench/internal/compare"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// clientGo is leaderelection of client-go with the settings that its documentation shows. Its lock is a key of etcd,
// written by compare-and-swap, which is what an API server does with a Lease. HTTP, authentication and admission are
// left out, so its figures are lower bounds.
type clientGo struct{ client *clientv3.Client }

func openClientGo(_ context.Context, addr string) (compare.Contender, error) {
	client, err := dialEtcd(addr)
	if err != nil {
		return nil, err
	}
	return &clientGo{client}, nil
}

func (c *clientGo) Hold(ctx context.Context, election string, led func()) error {
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            &etcdLock{client: c.client, key: "/leases/" + election, id: rand.Text()},
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Name:            election,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { led() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}

	e.Run(ctx)
	if ctx.Err() == nil {
		return errors.New("the lease was lost")
	}
	return nil
}

func (c *clientGo) Once(ctx context.Context, election string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return c.Hold(ctx, election, cancel)
}

func (c *clientGo) Close() { _ = c.client.Close() }

// etcdLock implements resourcelock.Interface on a key of etcd. It finishes a request that is under way when the elector
// is stopped: else the revision that the release needs would not be known.
type etcdLock struct {
	client  *clientv3.Client
	key, id string
	rev     int64 // of the key, as last seen
}

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (l *etcdLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	got, err := l.client.Get(context.WithoutCancel(ctx), l.key)
	if err != nil {
		return nil, nil, err
	}
	if len(got.Kvs) == 0 {
		return nil, nil, apierrors.NewNotFound(leases, l.key)
	}

	l.rev = got.Kvs[0].ModRevision
	var r resourcelock.LeaderElectionRecord
	if err := json.Unmarshal(got.Kvs[0].Value, &r); err != nil {
		return nil, nil, err
	}
	return &r, got.Kvs[0].Value, nil
}

func (l *etcdLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.rev = 0
	return l.Update(ctx, r)
}

func (l *etcdLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}

	done, err := l.client.Txn(context.WithoutCancel(ctx)).If(clientv3.Compare(clientv3.ModRevision(l.key), "=", l.rev)).
		Then(clientv3.OpPut(l.key, string(b))).Commit()
	if err != nil {
		return err
	}
	if !done.Succeeded {
		return apierrors.NewConflict(leases, l.key, errors.New("the lease has changed"))
	}

	l.rev = done.Header.Revision
	return nil
}

func (l *etcdLock) RecordEvent(string) {}

func (l *etcdLock) Identity() string { return l.id }

func (l *etcdLock) Describe() string { return l.key }
