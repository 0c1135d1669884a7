package compare

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
	"github.com/regentd/regent/driver"
)

// renewals returns the operations that renew a lock, the floor first.
func (l *lab) renewals(ctx context.Context, srv *redisServer) ([]*operation, error) {
	const ttl = 30 * time.Second
	store, err := l.store(ctx, srv)
	if err != nil {
		return nil, err
	}

	record, err := store.Swap(ctx, driver.Record{
		Name: "bench:renewed", Holder: driver.Identity{ID: "bench", Incarnation: rand.Text()},
		Epoch: 1, Nonce: 1, Duration: ttl, Since: time.Now(),
	})
	if err != nil {
		return nil, err
	}

	peer, err := openRedsync(ttl)(ctx, srv.addr)
	if err != nil {
		return nil, err
	}

	l.onClose(peer.Close)
	mutex := peer.(*redsyncLock).mutex("renewed")
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}

	client := goredis.NewClient(&goredis.Options{Addr: srv.addr})
	l.onClose(func() { closeQuietly(client) })
	lock, err := redislock.Obtain(ctx, client, "redislock:renewed", ttl, nil)
	if err != nil {
		return nil, err
	}

	c := srv.client
	return []*operation{
		{name: rawSet, server: srv, do: func(ctx context.Context) error {
			return c.Do(ctx, c.B().Set().Key("raw:renewed").Value("holder").PxMilliseconds(30000).Build()).Error()
		}},
		{name: "Regent, one swap", server: srv, inScripts: scripted, do: func(ctx context.Context) error {
			record.Nonce++
			var err error
			record, err = store.Swap(ctx, record)
			return err
		}},
		{name: redsyncPeer, server: srv, inScripts: scripted, do: func(ctx context.Context) error {
			return extend(ctx, mutex)
		}},
		{name: redislockPeer, server: srv, inScripts: scripted, do: func(ctx context.Context) error {
			return lock.Refresh(ctx, ttl, nil)
		}},
	}, nil
}
