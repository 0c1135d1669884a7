package compare

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// trackedLock is rueidislock, whose waiters are woken by client tracking, with the settings that its documentation
// advises for one Redis server of version 7: one key for each lock, and NOLOOP.
type trackedLock struct{ locker rueidislock.Locker }

func openRueidislock(ttl time.Duration) func(context.Context, string) (Contender, error) {
	return func(_ context.Context, addr string) (Contender, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true},
			KeyValidity:    ttl,
			ExtendInterval: ttl / 3, // as the other peers
			KeyMajority:    1,
			NoLoopTracking: true,
			// The default is 20 ms. A waiter whose request takes longer gives it up and waits for the next change of
			// the key, which never comes if the key was free.
			TryNextAfter: ttl,
		})

		return &trackedLock{locker}, err
	}
}

func (l *trackedLock) Hold(ctx context.Context, election string, led func()) error {
	held, release, err := l.locker.WithContext(ctx, election)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil
	case err != nil:
		return err
	}

	led()

	<-held.Done()
	release() // returns when the key is deleted

	if ctx.Err() == nil {
		return errors.New("the lock was lost")
	}
	return nil
}

func (l *trackedLock) Once(ctx context.Context, election string) error {
	_, release, err := l.locker.TryWithContext(ctx, election)
	if err != nil {
		return err
	}

	release()
	return nil
}

func (l *trackedLock) Close() { l.locker.Close() }
