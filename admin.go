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

// anyone stands for every other candidate, where a successor is named.
const anyone = "*"

// Condition is what must hold of an election for [Member.HandOff], [Member.StepDown], [Member.Pause] and
// [Member.Resume] to change it. It is checked on the very revision that they change, so nothing comes in between. Where
// it does not hold nothing is done, and the error is a [MovedError].
type Condition struct{ epoch uint64 }

// AtEpoch is the condition that the election is still in this epoch: the one that whoever asks has looked at. Of
// several who ask for different successors in one epoch, only one is heard.
func AtEpoch(epoch uint64) Condition { return Condition{epoch} }

// MovedError says that an election has moved on since somebody looked at it.
type MovedError struct {
	Seen  uint64 // the epoch that was asked about
	Epoch uint64 // the one that it is in
	Next  string // if that is the same: whom it makes way for already
}

func (e *MovedError) Error() string {
	switch {
	case e.Seen != e.Epoch:
		return fmt.Sprintf("epoch %d has passed: it is %d now", e.Seen, e.Epoch)
	case e.Next == "":
		return fmt.Sprintf("epoch %d has ended by itself", e.Seen)
	case e.Next == anyone:
		return fmt.Sprintf("epoch %d was told to end already, for anyone", e.Seen)
	}
	return fmt.Sprintf("epoch %d was told to end already, for %s", e.Seen, e.Next)
}

// holds returns an error unless an election in this epoch meets the conditions.
func holds(only []Condition, epoch uint64) error {
	for _, c := range only {
		if c.epoch != epoch {
			return &MovedError{Seen: c.epoch, Epoch: epoch}
		}
	}
	return nil
}

// HandOff makes the leader of an election, this member or any other, stop its duties and give the seat to the member
// named. It returns when the leader has let go; the successor holds the seat one push and one write later. Others stand
// back for one heartbeat. If the leader has let go for somebody else meanwhile, that is a [MovedError]. Called with the
// context of the duty that it ends, it returns at once, as [Member.StepDown] does.
func (m *Member) HandOff(ctx context.Context, election, to string, only ...Condition) error {
	if to == "" || to == anyone {
		return fmt.Errorf("hand off %s: name a successor, or use StepDown", election)
	}
	if cfg := m.Config.orDefault(); cfg.registers() {
		if err := m.runsFor(ctx, election, to); err != nil {
			return fmt.Errorf("hand off %s: %w", election, err)
		}
	}
	if err := m.letGo(ctx, election, to, only); err != nil {
		return fmt.Errorf("hand off %s to %s: %w", election, to, err)
	}
	return nil
}

// StepDown makes the leader of an election, this member or any other, stop its duties and release the seat. It
// campaigns again after everybody else had a chance. It returns when the leader has let go; if that is this member, and
// its duties take longer than the stop timeout, with an error then.
//
// A duty may end its own term so. Called with the duty's context, or one that descends from it, it returns once the
// term has been told to end; that context ends then, and the seat is released when the duty has returned. With any
// other context the duty would wait for itself, until the stop timeout.
func (m *Member) StepDown(ctx context.Context, election string, only ...Condition) error {
	if err := m.letGo(ctx, election, anyone, only); err != nil {
		return fmt.Errorf("step down from %s: %w", election, err)
	}
	return nil
}

// Pause keeps everybody from claiming an election. A leader stays; to have none, follow it by StepDown.
func (m *Member) Pause(ctx context.Context, election string, only ...Condition) error {
	return m.pause(ctx, election, true, only)
}

// Resume ends a pause.
func (m *Member) Resume(ctx context.Context, election string, only ...Condition) error {
	return m.pause(ctx, election, false, only)
}

func (m *Member) pause(ctx context.Context, election string, paused bool, only []Condition) error {
	_, err := m.ask(ctx, election, func(l *driver.Record) error { l.Paused = paused; return holds(only, l.Epoch) })
	if err != nil {
		return fmt.Errorf("set pause of %s to %t: %w", election, paused, err)
	}
	return nil
}

// letGo ends the current term of an election, wherever it is held.
func (m *Member) letGo(ctx context.Context, election, next string, only []Condition) error {
	if t, ok := m.Leads(election); ok {
		v, _, _ := m.view(election)
		switch err := holds(only, t.Epoch); {
		case err != nil:
			return err
		case next == m.ID:
			return errLeadsAlready
		case v.Paused && next != anyone:
			return errPausedHandOff
		}
		return t.t.letGo(ctx, next, only)
	}
	asked, err := m.ask(ctx, election, func(l *driver.Record) error {
		switch err := holds(only, l.Epoch); {
		case err != nil:
			return err
		case len(only) > 0 && l.Next != "" && l.Next != next:
			return &MovedError{l.Epoch, l.Epoch, l.Next}
		case l.Vacant():
			return errors.New("nobody leads")
		case l.Holder.ID == next:
			return errLeadsAlready
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
		switch {
		case err != nil:
			return err
		case v.Epoch == asked.Epoch && v.Leader == "":
			return letGoFor(v.Epoch, v.Next, next, only)
		case v.Epoch > asked.Epoch && next != anyone && v.Leader != next:
			return &MovedError{Seen: asked.Epoch, Epoch: v.Epoch}
		case v.Epoch > asked.Epoch:
			return nil
		}
	}
	return fmt.Errorf("%s was asked, and has not let go yet: %w", asked.Holder.ID, context.Cause(ctx))
}

// letGo ends a term of this member's own, and waits until its seat is released: but not for a duty that this very call
// comes from.
func (t *term) letGo(ctx context.Context, next string, only []Condition) error {
	in := core.Input(core.HandOff{Election: t.public.Election, To: next, AtEpoch: t.public.Epoch})
	if next == anyone {
		in = core.StepDown{Election: t.public.Election, AtEpoch: t.public.Epoch}
	}
	t.r.shell.Do(in)
	timeout := t.r.cfg.StopTimeout
	limit := t.r.m.clock.NewTimer(timeout)
	defer limit.Stop()
	if ctx.Value(inside{t.r, t.public.Election, t.public.Epoch}) != nil {
		select {
		case <-t.core.Context().Done():
			return nil
		case <-limit.C:
			return fmt.Errorf("it was not told to stop within %v", timeout)
		}
	}

	select {
	case <-t.stopped:
	case <-limit.C:
		return fmt.Errorf("its duties were told to stop, and have not within %v (if this is one of them, it must pass its own context)", timeout)
	case <-ctx.Done():
		return fmt.Errorf("its duties have not stopped yet: %w", context.Cause(ctx))
	}

	select {
	case <-t.finished:
	case <-t.r.over: // its driver has panicked
		return errKept
	case <-ctx.Done():
		return fmt.Errorf("its duties have stopped, but it is not released yet: %w", context.Cause(ctx))
	}
	if t.kept {
		return errKept
	}
	return letGoFor(t.public.Epoch, t.next, next, only)
}

var errKept = errors.New("its duties have stopped, but the store did not take the release: the election is free when the store does, " +
	"or when the lease expires")

// letGoFor returns an error unless a term that has ended did so for the successor that was asked for. Whoever asked
// without conditions for no more than its end has got it in any case.
func letGoFor(epoch uint64, made, asked string, only []Condition) error {
	if made == asked || asked == anyone && len(only) == 0 {
		return nil
	}
	return &MovedError{epoch, epoch, made}
}

var errLeadsAlready = errors.New("it leads already")

// errPausedHandOff refuses what would leave nobody in charge.
var errPausedHandOff = errors.New("the election is paused, so nobody could take over: resume it first, or use StepDown")

// askAgain is the wait after a request that the store did not take.
const askAgain = 200 * time.Millisecond

// ask edits the record of an election in somebody's name, and then pokes its holder. The nonce stays, so that the
// holder knows the record for its own and gains no time by it.
func (m *Member) ask(ctx context.Context, election string, edit func(*driver.Record) error) (driver.Record, error) {
	if err := validElection(election); err != nil {
		return driver.Record{}, err
	}
	if m.Store == nil {
		return driver.Record{}, errNoStore
	}
	for {
		l, err := m.get(ctx, election)
		switch {
		case errors.Is(err, driver.ErrNotFound):
			l = driver.Record{Name: election, Nonce: shell.Source{}.Nonce(), Duration: m.Config.orDefault().LeaseDuration}
		case err != nil:
			return driver.Record{}, err
		}
		next := l
		if err := edit(&next); err != nil {
			return l, err
		}
		if l.Rev == "" || next.Next != l.Next || next.Paused != l.Paused {
			next.Edits++
			if next, err = m.swap(ctx, next); errors.Is(err, driver.ErrConflict) {
				continue
			} else if err != nil { // applied or not: the next read tells
				select {
				case <-ctx.Done():
					return l, err
				case <-time.After(askAgain):
				}
				continue
			}
		}
		m.lookAgain(election)
		return next, m.poke(ctx, next)
	}
}

// get reads a register for somebody who asks through this member, whose core takes in what it shows.
func (m *Member) get(ctx context.Context, name string) (driver.Record, error) {
	l, err := m.Store.Get(ctx, name)
	switch {
	case err == nil:
		m.shown(l)
	case errors.Is(err, driver.ErrNotFound):
		m.shown(driver.Record{Name: name})
	}
	return l, err
}

// swap is get for an edit.
func (m *Member) swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	got, err := m.Store.Swap(ctx, l)
	if err == nil {
		m.shown(got)
	}
	return got, err
}

// shown passes on a record that the store has shown.
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

// lookAgain makes this member read an election that it has changed itself.
func (m *Member) lookAgain(election string) {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()
	if r != nil {
		r.shell.Do(core.Notice{Record: driver.Record{Name: election}})
	}
}

// poke touches the heartbeat register of a seat's holder, so that its next heartbeat meets a record that has moved, and
// it looks at its seats. No hint is needed for that, and a leader that nobody asks anything need never read.
func (m *Member) poke(ctx context.Context, seat driver.Record) error {
	if seat.Vacant() || seat.Via == "" {
		return nil // a seat with a lease of its own was poked by the edit
	}
	for {
		l, err := m.get(ctx, seat.Via)
		if err != nil || l.Holder != seat.Holder {
			return err
		}
		l.Edits++
		if _, err := m.swap(ctx, l); !errors.Is(err, driver.ErrConflict) {
			return err
		}
	}
}

// runsFor returns an error unless a member is there, healthy, and campaigns for the election.
func (m *Member) runsFor(ctx context.Context, election, id string) error {
	if m.Store == nil {
		return errNoStore
	}
	l, err := m.get(ctx, driver.MemberRegister(id))
	switch {
	case err != nil && !errors.Is(err, driver.ErrNotFound):
		return err
	case err != nil || l.Vacant():
		return fmt.Errorf("no member %q is there", id)
	case !memberInfo(l).runsFor(election):
		return fmt.Errorf("member %q is not a healthy candidate for it", id)
	}
	return nil
}
