package compare

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
)

// obtainLock is bsm/redislock as its documentation shows it: a waiter retries every 100 ms.
type obtainLock struct {
	client *goredis.Client
	locks  *redislock.Client
	ttl    time.Duration
}

func openRedislock(ttl time.Duration) func(context.Context, string) (Contender, error) {
	return func(_ context.Context, addr string) (Contender, error) {
		client := goredis.NewClient(&goredis.Options{Addr: addr})
		return &obtainLock{client, redislock.New(client), ttl}, nil
	}
}

func (o *obtainLock) Hold(ctx context.Context, election string, led func()) error {
	retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	var lock *redislock.Lock
	for lock == nil {
		var err error
		lock, err = o.locks.Obtain(ctx, "redislock:"+election, o.ttl, retry)
		switch {
		case ctx.Err() != nil:
			return nil
		// Obtain returns after one lease, and is called again
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return err
		}
	}

	led()
	err := keep(ctx, o.ttl, func() error { return lock.Refresh(ctx, o.ttl, nil) })
	if err != nil && ctx.Err() == nil {
		return err
	}

	return lock.Release(context.WithoutCancel(ctx))
}

func (o *obtainLock) Once(ctx context.Context, election string) error {
	lock, err := o.locks.Obtain(ctx, "redislock:"+election, o.ttl, nil)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func (o *obtainLock) Close() { closeQuietly(o.client) }
