package doctor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	// notified is how many notifications must arrive in a row. A driver may send one by itself, but not so many.
	notified = 5
	// notifyTimeout is how long one may take.
	notifyTimeout = 2 * time.Second
	// notifyTries is how many changes are made until enough notifications have arrived. The first ones may come before
	// the driver listens.
	notifyTries = 9
)

// errSilent means that changes of registers are not notified.
var errSilent = errors.New("notifications do not arrive")

// Notifications measures how long a change of a register takes to reach a subscriber. It returns the slowest of some,
// and an error if they do not arrive, as behind a pooler that drops LISTEN.
func Notifications(ctx context.Context, store driver.Store, n driver.Notifier) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := n.Subscribe(ctx, driver.Names(scratch))

	record, err := current(ctx, store)
	if err != nil {
		return 0, err
	}

	var took []time.Duration
	for range notifyTries {
		select { // what has come before this change does not count
		case <-changes:
		default:
		}

		began := time.Now()
		record.Epoch++ // a change that counts: a renewal notifies nobody
		record.Nonce++
		if record, err = store.Swap(ctx, record); err != nil {
			return 0, err
		}

		select {
		case <-changes:
			took = append(took, time.Since(began))
		case <-time.After(notifyTimeout):
			took = nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if len(took) == notified {
			return slices.Max(took), nil
		}
	}

	return 0, errSilent
}

// checkNotifications checks that standbys get notifications. It returns how long the slowest took, or [NoPush].
func (r *Report) checkNotifications(ctx context.Context, store driver.Store, c regent.Config) time.Duration {
	n, ok := store.(driver.Notifier)
	if !ok {
		r.Add("notifications", OK, "", "this store sends none: standbys poll, every %v at the longest",
			c.ElectionIntervalMax)
		return NoPush
	}

	slowest, err := Notifications(ctx, store, n)
	switch {
	case errors.Is(err, errSilent):
		r.Add("notifications", Warning,
			"connect to the server directly, or let the pooler (PgBouncer) pool sessions, not transactions",
			"a change of a register does not reach its subscribers: standbys poll, every %v at the longest",
			c.ElectionIntervalMax)
		return NoPush
	case err != nil:
		r.Add("notifications", Skipped, "", "they could not be measured: %v", err)
		return NoPush
	}

	r.Add("notifications", OK, "", "a change reaches a subscriber within %s", ms(slowest))
	return slowest
}

// CheckPermissions checks what Regent does besides reading and writing a register, and removes the scratch register.
func (r *Report) CheckPermissions(ctx context.Context, store driver.Store) {
	found := false
	for l, err := range store.List(ctx, scratch) {
		if err != nil && l.Name == "" {
			r.Add("permissions", Wrong, "let this user list registers: the leader finds members by it",
				"the registers cannot be listed: %v", err)
			return
		}
		found = found || l.Name == scratch
	}
	if !found {
		r.Add("permissions", Wrong, "do not use this store: a leader would not see its members",
			"a list does not show a register that was written before")
		return
	}

	if err := Remove(ctx, store); err != nil {
		r.Add("permissions", Warning, "let this user delete registers, or set retireAfter to 0",
			"the scratch register %s cannot be removed: %v", scratch, err)
		return
	}
	r.Add("permissions", OK, "", "this user may read, write, list and remove registers")
}
