package main

import (
	"context"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// pushLock is the plainest lock on Redis whose waiters are woken: SET NX PX to take it, a script to give it back, and the server's own notice
// that the key has changed (client tracking by prefix) to try again. It has no epoch, no record, no poll behind the push but the lease.
//
// It is a yardstick of our own, through the client that Regent uses. rueidislock wakes its waiters in the same way, but is another program:
// no figure of this lock is one of rueidislock.
type pushLock struct {
	client  rueidis.Client
	ttl     time.Duration
	changed chan struct{}
}

const pushPrefix = "push:"

var (
	pushRenew   = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)
	pushRelease = rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
)

func openPush(ttl time.Duration) func(context.Context, string) (contender, error) {
	return func(_ context.Context, addr string) (contender, error) {
		p := &pushLock{ttl: ttl, changed: make(chan struct{}, 1)}
		var err error
		p.client, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true,
			ClientTrackingOptions: []string{"PREFIX", pushPrefix, "BCAST", "NOLOOP"},
			OnInvalidations: func([]rueidis.RedisMessage) {
				select {
				case p.changed <- struct{}{}:
				default:
				}
			},
		})
		return p, err
	}
}

// try reports whether the lock was free.
func (p *pushLock) try(ctx context.Context, key, token string) (bool, error) {
	err := p.client.Do(ctx, p.client.B().Set().Key(key).Value(token).Nx().PxMilliseconds(p.ttl.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

func (p *pushLock) hold(ctx context.Context, election string, led func()) error {
	key, token := pushPrefix+election, rand.Text()
	for {
		won, err := p.try(ctx, key, token)
		if err != nil {
			return err
		}
		if won {
			break
		}
		poll := time.NewTimer(p.ttl)
		select {
		case <-p.changed:
		case <-poll.C:
		case <-ctx.Done():
			poll.Stop()
			return nil
		}
		poll.Stop()
	}
	led()
	err := keep(ctx, p.ttl, func() error { return p.renew(ctx, key, token) })
	if err != nil && ctx.Err() == nil {
		return err
	}
	return p.release(context.WithoutCancel(ctx), key, token)
}

func (p *pushLock) renew(ctx context.Context, key, token string) error {
	return pushRenew.Exec(ctx, p.client, []string{key}, []string{token, strconv.FormatInt(p.ttl.Milliseconds(), 10)}).Error()
}

func (p *pushLock) release(ctx context.Context, key, token string) error {
	return pushRelease.Exec(ctx, p.client, []string{key}, []string{token}).Error()
}

func (p *pushLock) once(ctx context.Context, election string) error {
	key, token := pushPrefix+election, rand.Text()
	if _, err := p.try(ctx, key, token); err != nil {
		return err
	}
	return p.release(ctx, key, token)
}

func (p *pushLock) close() { p.client.Close() }
