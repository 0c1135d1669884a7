package regent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/shell"
)

// This file is about edits: a record is changed by somebody who need not hold it. An edit keeps the nonce of the record
// and adds to its number of edits. So the holder knows the record as its own, and gains no time by the edit (rule 2).

// Pause keeps all candidates from claiming an election. The current leader stays: call StepDown after Pause to end its
// term.
func (m *Member) Pause(ctx context.Context, election string, conditions ...Condition) error {
	return m.setPaused(ctx, election, true, conditions)
}

// Resume ends a pause.
func (m *Member) Resume(ctx context.Context, election string, conditions ...Condition) error {
	return m.setPaused(ctx, election, false, conditions)
}

func (m *Member) setPaused(ctx context.Context, election string, paused bool, conditions []Condition) error {
	_, err := m.edit(ctx, election, func(l *driver.Record) error {
		l.Paused = paused
		return checkConditions(conditions, l.Epoch)
	})

	switch {
	case err != nil && paused:
		return fmt.Errorf("pause %s: %w", election, err)
	case err != nil:
		return fmt.Errorf("resume %s: %w", election, err)
	}

	return nil
}

// editRetry is the wait after an edit that the store did not take.
const editRetry = 200 * time.Millisecond

// edit changes the record of an election, and then makes its holder read it.
func (m *Member) edit(ctx context.Context, election string, change func(*driver.Record) error) (driver.Record, error) {
	if err := validElection(election); err != nil {
		return driver.Record{}, err
	}
	if m.Store == nil {
		return driver.Record{}, errNoStore
	}

	for {
		next, err := m.tryEdit(ctx, election, change)
		switch {
		case err == nil:
			m.readAgain(election)
			return next, m.notifyHolder(ctx, next)
		case errors.Is(err, driver.ErrConflict):
			continue
		case !errors.Is(err, errEditUnknown):
			return next, err
		}

		select {
		case <-ctx.Done():
			return next, err
		case <-time.After(editRetry): // the next read shows whether it was applied
		}
	}
}

// errEditUnknown says that the outcome of an edit is not known.
var errEditUnknown = errors.New("the store did not take the change")

// tryEdit reads the record of an election and changes it once. If nothing has changed, it writes nothing.
func (m *Member) tryEdit(
	ctx context.Context, election string, change func(*driver.Record) error,
) (driver.Record, error) {
	l, err := m.get(ctx, election)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		l = driver.Record{
			Name: election, Nonce: shell.Source{}.Nonce(), Duration: m.Config.orDefault().LeaseDuration,
		}
	case err != nil:
		return driver.Record{}, err
	}

	next := l
	if err := change(&next); err != nil {
		return l, err
	}
	if l.Rev != "" && next.Next == l.Next && next.Paused == l.Paused {
		return next, nil
	}

	next.Edits++
	next, err = m.swap(ctx, next)
	switch {
	case errors.Is(err, driver.ErrConflict):
		return l, err
	case err != nil:
		return l, fmt.Errorf("%w: %w", errEditUnknown, err)
	}

	return next, nil
}

// notifyHolder edits the heartbeat register of a record's holder. The next heartbeat of the holder then meets a
// record that has moved, and the holder reads its elections. That needs no notification by the store, and a leader
// whose record nobody edits need never read it.
func (m *Member) notifyHolder(ctx context.Context, record driver.Record) error {
	if record.Vacant() || record.Via == "" {
		return nil // a record with a lease of its own is its holder's heartbeat register
	}

	for {
		l, err := m.get(ctx, record.Via)
		if err != nil || l.Holder != record.Holder {
			return err
		}

		l.Edits++
		if _, err := m.swap(ctx, l); !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
}

// request sends one request on behalf of a caller. A store that does not answer within the lease duration has failed. A
// panic of the driver is an error.
func (m *Member) request(ctx context.Context, send func(context.Context) error) error {
	timeout := m.Config.orDefault().LeaseDuration
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	err := protect(func() error { return send(limited) })
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: it has not answered within %v: %w", ErrStore, timeout, err)
	}
	return err
}

// get reads a register on behalf of a caller. The member's core takes in what the store has shown.
func (m *Member) get(ctx context.Context, name string) (driver.Record, error) {
	var l driver.Record
	err := m.request(ctx, func(ctx context.Context) (err error) {
		l, err = m.Store.Get(ctx, name)
		return err
	})
	switch {
	case err == nil:
		m.shown(l)
	case errors.Is(err, driver.ErrNotFound):
		m.shown(driver.Record{Name: name})
	}

	return l, err
}

// swap is get for a write.
func (m *Member) swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	var got driver.Record
	err := m.request(ctx, func(ctx context.Context) (err error) {
		got, err = m.Store.Swap(ctx, l)
		return err
	})
	if err == nil {
		m.shown(got)
	}
	return got, err
}

// shown passes a record on to the core that the store has shown.
func (m *Member) shown(l driver.Record) {
	m.mu.Lock()
	r := m.run
	if r == nil && !strings.HasPrefix(l.Name, driver.Reserved) {
		m.learnLocked(l.Name, l.Epoch)
	}

	m.mu.Unlock()

	if r != nil {
		r.shell.Do(core.Shown{Record: l})
	}
}

// readAgain makes this member read an election that it has edited.
func (m *Member) readAgain(election string) {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()

	if r != nil {
		r.shell.Do(core.Notice{Record: driver.Record{Name: election}})
	}
}
