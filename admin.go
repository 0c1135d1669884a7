package regent

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// HandOff makes the leader of an election, this member or any other, stop its duties and give the seat to the member named. It returns
// when the leader has let go; the successor holds the seat one push and one write later. Others stand back for one heartbeat.
func (m *Member) HandOff(ctx context.Context, election, to string) error {
	if to == "" || to == anyone {
		return fmt.Errorf("hand off %s: name a successor, or use StepDown", election)
	}
	if cfg := m.Config.orDefault(); cfg.registers() {
		if err := m.runsFor(ctx, election, to); err != nil {
			return fmt.Errorf("hand off %s: %w", election, err)
		}
	}
	if err := m.letGo(ctx, election, to, ErrHandedOff); err != nil {
		return fmt.Errorf("hand off %s to %s: %w", election, to, err)
	}
	return nil
}

// StepDown makes the leader of an election, this member or any other, stop its duties and release the seat. It campaigns again after
// everybody else had a chance. Called from inside the duty that it ends, it must not be waited for: it returns when the duty has.
func (m *Member) StepDown(ctx context.Context, election string) error {
	if err := m.letGo(ctx, election, anyone, ErrSteppedDown); err != nil {
		return fmt.Errorf("step down from %s: %w", election, err)
	}
	return nil
}

// Pause keeps everybody from claiming an election. A leader stays; to have none, follow it by StepDown.
func (m *Member) Pause(ctx context.Context, election string) error {
	return m.pause(ctx, election, true)
}

// Resume ends a pause.
func (m *Member) Resume(ctx context.Context, election string) error {
	return m.pause(ctx, election, false)
}

func (m *Member) pause(ctx context.Context, election string, paused bool) error {
	if _, err := m.ask(ctx, election, func(l *Lease) error { l.Paused = paused; return nil }); err != nil {
		return fmt.Errorf("set pause of %s to %t: %w", election, paused, err)
	}
	return nil
}

// letGo ends the current term of an election, wherever it is held.
func (m *Member) letGo(ctx context.Context, election, next string, cause error) error {
	if t, ok := m.Leads(election); ok {
		if next == m.ID {
			return errors.New("it leads already")
		}
		if v, _, _ := m.view(election); v.Paused && next != anyone {
			return errPausedHandOff
		} else if v.Paused {
			cause = ErrPaused
		}
		t.t.e.end(cause, next, t.t)
		select {
		case <-t.t.finished:
			if t.t.kept {
				return errors.New("its duties have stopped, but the store did not take the release: the seat is free when it does, or when it runs out")
			}
			return nil
		case <-ctx.Done():
			return fmt.Errorf("its duties have not stopped yet: %w", context.Cause(ctx))
		}
	}
	asked, err := m.ask(ctx, election, func(l *Lease) error {
		switch {
		case l.Vacant():
			return errors.New("nobody leads")
		case l.Holder.ID == next:
			return errors.New("it leads already")
		case l.Paused && next != anyone:
			return errPausedHandOff
		}
		l.Next = next
		return nil
	})
	if err != nil {
		return err
	}
	for v, err := range m.Watch(ctx, election) {
		if err != nil {
			return err
		}
		if v.Epoch > asked.Epoch || v.Epoch == asked.Epoch && v.Leader == "" {
			return nil
		}
	}
	return fmt.Errorf("%s was asked, and has not let go yet: %w", asked.Holder.ID, context.Cause(ctx))
}

// errPausedHandOff refuses what would leave nobody in charge.
var errPausedHandOff = errors.New("the election is paused, so nobody could take over: resume it first, or use StepDown")

// askAgain is the wait after a request that the store did not take.
const askAgain = 200 * time.Millisecond

// ask edits the record of an election in somebody's name, and then pokes its holder. The nonce stays, so that the holder knows the record
// for its own and gains no time by it.
func (m *Member) ask(ctx context.Context, election string, edit func(*Lease) error) (Lease, error) {
	if err := validElection(election); err != nil {
		return Lease{}, err
	}
	if m.Store == nil {
		return Lease{}, errors.New("member has no Store: set one before its first use")
	}
	for {
		l, err := m.Store.Get(ctx, election)
		switch {
		case errors.Is(err, ErrNotFound):
			l = Lease{Name: election, Nonce: newNonce(), Duration: m.Config.orDefault().LeaseDuration}
		case err != nil:
			return Lease{}, err
		}
		m.Observe(election, l.Epoch)
		next := l
		if err := edit(&next); err != nil {
			return l, err
		}
		if l.Rev != "" && next.Next == l.Next && next.Paused == l.Paused {
			m.lookAgain(election)
			return l, m.poke(ctx, l)
		}
		// Applied or not: the next read tells.
		if _, err = m.Store.Swap(ctx, next); err != nil && !errors.Is(err, ErrConflict) {
			select {
			case <-ctx.Done():
				return l, err
			case <-time.After(askAgain):
			}
		}
	}
}

// lookAgain makes this member read an election that it has changed itself.
func (m *Member) lookAgain(election string) {
	m.mu.Lock()
	e := m.engine
	if e != nil && e.seats[election] != nil {
		e.seats[election].stale = true
	}
	m.mu.Unlock()
	if e != nil {
		e.kick()
	}
}

// poke touches the heartbeat register of a seat's holder, so that its next heartbeat meets a record that has moved, and it looks at its
// seats. No hint is needed for that, and a leader that nobody asks anything need never read.
func (m *Member) poke(ctx context.Context, seat Lease) error {
	if seat.Vacant() || seat.Via == "" {
		return nil // a seat with a lease of its own was poked by the edit
	}
	for {
		l, err := m.Store.Get(ctx, seat.Via)
		if err != nil || l.Holder != seat.Holder {
			return err
		}
		if _, err := m.Store.Swap(ctx, l); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// runsFor returns an error unless a member is there, healthy, and campaigns for the election.
func (m *Member) runsFor(ctx context.Context, election, id string) error {
	if m.Store == nil {
		return errors.New("member has no Store: set one before its first use")
	}
	l, err := m.Store.Get(ctx, MemberRegister(id))
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case err != nil || l.Vacant():
		return fmt.Errorf("no member %q is there", id)
	case !memberInfo(l).runsFor(election):
		return fmt.Errorf("member %q is not a healthy candidate for it", id)
	}
	return nil
}
