package regent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/regentd/regent/driver"
)

// WatchMembers yields all members that have a register, by ID, and which of them are alive: now, and after each change,
// until ctx ends or the loop is left. A change is that a member has joined, has left, has died, is alive again, or
// publishes something else about itself. The slice is the caller's, the maps in it must not be changed.
//
// The members are listed every heartbeat interval, and soon after a notification of the store. So a member that
// leaves is reported at once where the store notifies. A member that dies is reported at most its lease, two heartbeat
// intervals and two lists after its last heartbeat. See [Roster.List] for when a member is alive.
//
// A list that fails, or takes longer than two lease durations, is yielded as an error that wraps [ErrStore]. What is
// known of the members then is what was yielded last. The next list that succeeds is yielded in any case. If the member
// has no store, or a configuration that is not valid, that error is the only thing yielded. WatchMembers does not start
// the member, and writes nothing to the store.
func (m *Member) WatchMembers(ctx context.Context) iter.Seq2[[]MemberState, error] {
	return func(yield func([]MemberState, error) bool) {
		cfg := m.Config.orDefault()
		if err := cfg.Validate(); err != nil {
			yield(nil, fmt.Errorf("configuration: %w", err))
			return
		}

		if m.Store == nil {
			yield(nil, errNoStore)
			return
		}

		ctx, cancel := context.WithCancel(ctx)
		defer cancel()

		w := &memberWatch{roster: m.NewRoster(), timeout: 2 * cfg.LeaseDuration, interval: cfg.HeartbeatInterval}
		if notifier, ok := m.Store.(driver.Notifier); ok {
			w.notifications = notifier.Subscribe(ctx, driver.Prefix(driver.MemberPrefix))
		}

		w.run(ctx, yield)
	}
}

// memberWatch is one loop over WatchMembers.
type memberWatch struct {
	roster        *Roster
	timeout       time.Duration        // of a list
	interval      time.Duration        // from one list to the next
	notifications <-chan driver.Record // nil if the store does not notify
	listing       chan memberList      // receives the list that has not returned yet; nil if there is none
}

// memberList is what a list has returned.
type memberList struct {
	states  []MemberState
	changed bool
	err     error
}

func (w *memberWatch) run(ctx context.Context, yield func([]MemberState, error) bool) {
	news := true // the next list is yielded in any case
	for ctx.Err() == nil {
		states, changed, err := w.list(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			news = true
			if !yield(nil, err) {
				return
			}
		case changed || news:
			news = false
			if !yield(states, nil) {
				return
			}
		}

		w.rest(ctx)
	}
}

// list lists the members, within the timeout. A driver may go on after its context has ended: the next list waits for
// it, and fails if it still has not returned.
func (w *memberWatch) list(ctx context.Context) ([]MemberState, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()

	if _, ok := w.returned(ctx); !ok {
		return nil, false, w.late(ctx.Err())
	}

	w.listing = make(chan memberList, 1)
	go func(done chan<- memberList) {
		var l memberList
		l.states, l.changed, l.err = w.roster.list(ctx)
		done <- l
	}(w.listing)

	l, ok := w.returned(ctx)
	switch {
	case !ok:
		return nil, false, w.late(ctx.Err())
	case l.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, false, w.late(l.err)
	}
	return l.states, l.changed, l.err
}

// returned waits for the list that is under way, if there is one, and reports whether it has returned.
func (w *memberWatch) returned(ctx context.Context) (memberList, bool) {
	if w.listing == nil {
		return memberList{}, true
	}

	select {
	case l := <-w.listing:
		w.listing = nil
		return l, true
	case <-ctx.Done():
		return memberList{}, false
	}
}

// late is the error of a list that takes too long.
func (w *memberWatch) late(err error) error {
	if !errors.Is(err, ErrStore) {
		err = fmt.Errorf("%w: %w", ErrStore, err)
	}
	return fmt.Errorf("the store has not listed the members within %v: %w", w.timeout, err)
}

// rest waits until the members are to be listed again: after the interval, or earlier if the store notifies.
// Notifications that come shortly after a list are coalesced, since many members may join at once.
func (w *memberWatch) rest(ctx context.Context) {
	least := min(w.interval, time.Second) / 4
	if !w.sleep(ctx, least, nil) {
		return
	}

	w.sleep(ctx, w.interval-least, w.notifications)
}

// sleep waits for d, or for a notification. It reports false if ctx has ended.
func (w *memberWatch) sleep(ctx context.Context, d time.Duration, notifications <-chan driver.Record) bool {
	timer := w.roster.clock.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
	case <-notifications:
	case <-ctx.Done():
		return false
	}

	return true
}
