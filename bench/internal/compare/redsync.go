package compare

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
)

// redsyncLock is redsync with its default settings: a waiter retries after 50 to 250 ms.
type redsyncLock struct {
	client *goredis.Client
	sync   *redsync.Redsync
	ttl    time.Duration
}

func openRedsync(ttl time.Duration) func(context.Context, string) (Contender, error) {
	return func(_ context.Context, addr string) (Contender, error) {
		client := goredis.NewClient(&goredis.Options{Addr: addr})
		return &redsyncLock{client, redsync.New(pool.NewPool(client)), ttl}, nil
	}
}

var errNotHeld = errors.New("the lock is not held any more")

func (r *redsyncLock) mutex(election string, more ...redsync.Option) *redsync.Mutex {
	return r.sync.NewMutex("redsync:"+election, append(more, redsync.WithExpiry(r.ttl))...)
}

func (r *redsyncLock) Hold(ctx context.Context, election string, led func()) error {
	m := r.mutex(election, redsync.WithTries(math.MaxInt32))
	if err := m.LockContext(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	led()
	err := keep(ctx, r.ttl, func() error { return extend(ctx, m) })
	if err != nil && ctx.Err() == nil {
		return err
	}

	_, err = m.UnlockContext(context.WithoutCancel(ctx))
	return err
}

func extend(ctx context.Context, m *redsync.Mutex) error {
	ok, err := m.ExtendContext(ctx)
	if err == nil && !ok {
		err = errNotHeld
	}
	return err
}

func (r *redsyncLock) Once(ctx context.Context, election string) error {
	m := r.mutex(election)
	if err := m.LockContext(ctx); err != nil {
		return err
	}

	_, err := m.UnlockContext(ctx)
	return err
}

func (r *redsyncLock) Close() { closeQuietly(r.client) }
