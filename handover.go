package regent

import (
	"context"
	"errors"
	"fmt"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// anyone stands for every other candidate, where a successor is named.
const anyone = "*"

// Condition is what must hold of an election for [Member.HandOff], [Member.StepDown], [Member.Pause] and
// [Member.Resume] to change it. It is checked on the revision that they change, so that nothing can happen in
// between. If it does not hold, nothing is changed, and the error is a [MovedError].
type Condition struct{ epoch uint64 }

// AtEpoch returns the condition that the election is still in an epoch: the one that the caller has seen. Of several
// callers who name different successors in one epoch, one succeeds.
func AtEpoch(epoch uint64) Condition { return Condition{epoch} }

// MovedError reports that an election has changed since the caller has seen it.
type MovedError struct {
	Seen  uint64 // the epoch of the [Condition]
	Epoch uint64 // the current epoch
	Next  string // if the two are equal: the successor for which the term ends already
}

func (e *MovedError) Error() string {
	switch {
	case e.Seen != e.Epoch:
		return fmt.Sprintf("epoch %d has passed: it is %d now", e.Seen, e.Epoch)
	case e.Next == "":
		return fmt.Sprintf("the term of epoch %d has ended by itself", e.Seen)
	case e.Next == anyone:
		return fmt.Sprintf("the term of epoch %d already ends, for any successor", e.Seen)
	}

	return fmt.Sprintf("the term of epoch %d already ends, for the successor %s", e.Seen, e.Next)
}

// checkConditions returns an error unless an election in this epoch meets the conditions.
func checkConditions(conditions []Condition, epoch uint64) error {
	for _, c := range conditions {
		if c.epoch != epoch {
			return &MovedError{Seen: c.epoch, Epoch: epoch}
		}
	}

	return nil
}

// HandOff makes the leader of an election, this member or another one, stop its duties and release the election for the
// member named. It returns when the leader has released it. The successor then leads after one notification and one
// write; other candidates wait for one heartbeat interval.
//
// The error is a [MovedError] if the leader has released the election for another member. If HandOff is called with the
// context of the duty that it ends, it returns at once, as [Member.StepDown] does.
func (m *Member) HandOff(ctx context.Context, election, to string, conditions ...Condition) error {
	if to == "" || to == anyone {
		return fmt.Errorf("hand off %s: name a successor, or step down", election)
	}
	if cfg := m.Config.orDefault(); cfg.registers() {
		if err := m.checkSuccessor(ctx, election, to); err != nil {
			return fmt.Errorf("hand off %s: %w", election, err)
		}
	}

	if err := m.endTerm(ctx, election, to, conditions); err != nil {
		return fmt.Errorf("hand off %s to %s: %w", election, to, err)
	}
	return nil
}

// StepDown makes the leader of an election, this member or another one, stop its duties and release the election. The
// former leader campaigns again after the other candidates had their chance. StepDown returns when the leader has
// released the election. If this member leads and its duties take longer than the stop timeout, StepDown returns an
// error then.
//
// A duty may end its own term by StepDown. Called with the duty's context, or one that descends from it, StepDown
// returns once that context has ended, and the election is released when the duty has returned. With another context
// the duty would wait for itself until the stop timeout.
func (m *Member) StepDown(ctx context.Context, election string, conditions ...Condition) error {
	if err := m.endTerm(ctx, election, anyone, conditions); err != nil {
		return fmt.Errorf("step down from %s: %w", election, err)
	}
	return nil
}

var (
	errNobodyLeads   = errors.New("nobody leads")
	errLeadsAlready  = errors.New("the successor leads already")
	errPausedHandOff = errors.New("the election is paused, so that nobody could take over: " +
		"resume it first, or step down")
	errNotReleased = errors.New("the duties have stopped, but the store did not take the release: " +
		"the election is free when the store takes it, or when the lease expires")
)

// endTerm ends the current term of an election, whoever holds it.
func (m *Member) endTerm(ctx context.Context, election, next string, conditions []Condition) error {
	if t, ok := m.Leads(election); ok {
		return m.endOwnTerm(ctx, t, next, conditions)
	}

	asked, err := m.edit(ctx, election, func(l *driver.Record) error {
		switch err := checkConditions(conditions, l.Epoch); {
		case err != nil:
			return err
		case len(conditions) > 0 && l.Next != "" && l.Next != next:
			return &MovedError{l.Epoch, l.Epoch, l.Next}
		case l.Vacant():
			return errNobodyLeads
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
	return m.awaitRelease(ctx, asked, next, conditions)
}

// awaitRelease returns when another member has released an election, as it was asked to by the record.
func (m *Member) awaitRelease(ctx context.Context, asked driver.Record, next string, conditions []Condition) error {
	for v, err := range m.Watch(ctx, asked.Name) {
		switch {
		case err != nil:
			return err
		case v.Epoch == asked.Epoch && v.Leader == "":
			return checkSuccession(v.Epoch, v.Next, next, conditions)
		case v.Epoch > asked.Epoch && next != anyone && v.Leader != next:
			return &MovedError{Seen: asked.Epoch, Epoch: v.Epoch}
		case v.Epoch > asked.Epoch:
			return nil
		}
	}

	return fmt.Errorf("%s was asked to release the election and has not done so yet: %w",
		asked.Holder.ID, context.Cause(ctx))
}

// endOwnTerm ends a term of this member.
func (m *Member) endOwnTerm(ctx context.Context, t Term, next string, conditions []Condition) error {
	v, _, _ := m.view(t.Election)
	switch err := checkConditions(conditions, t.Epoch); {
	case err != nil:
		return err
	case next == m.ID:
		return errLeadsAlready
	case v.Paused && next != anyone:
		return errPausedHandOff
	}

	return t.t.end(ctx, next, conditions)
}

// end ends the term, and waits until its election is released. It does not wait for a duty that it is called from.
func (t *term) end(ctx context.Context, next string, conditions []Condition) error {
	in := core.Input(core.HandOff{Election: t.public.Election, To: next, AtEpoch: t.public.Epoch})
	if next == anyone {
		in = core.StepDown{Election: t.public.Election, AtEpoch: t.public.Epoch}
	}

	t.r.shell.Do(in)

	timeout := t.r.cfg.StopTimeout
	limit := t.r.m.clock.NewTimer(timeout)
	defer limit.Stop()
	if ctx.Value(insideTerm{t.r, t.public.Election, t.public.Epoch}) != nil {
		select {
		case <-t.core.Context().Done():
			return nil
		case <-limit.C:
			return fmt.Errorf("the term has not ended within %v", timeout)
		}
	}

	select {
	case <-t.stopped.done():
	case <-limit.C:
		return fmt.Errorf("the duties have not stopped within the stopTimeout of %v "+
			"(a duty that ends its own term must pass its own context)", timeout)
	case <-ctx.Done():
		return fmt.Errorf("the duties have not stopped yet: %w", context.Cause(ctx))
	}

	select {
	case <-t.finished.done():
	case <-t.r.over: // the driver has panicked
		return errNotReleased
	case <-ctx.Done():
		return fmt.Errorf("the duties have stopped, but the election is not released yet: %w", context.Cause(ctx))
	}

	if t.kept {
		return errNotReleased
	}
	return checkSuccession(t.public.Epoch, t.next, next, conditions)
}

// checkSuccession returns an error unless a term ended for the successor that was asked for. A caller without
// conditions who asked for no particular successor has got what it asked for in any case.
func checkSuccession(epoch uint64, got, asked string, conditions []Condition) error {
	if got == asked || asked == anyone && len(conditions) == 0 {
		return nil
	}
	return &MovedError{epoch, epoch, got}
}

// checkSuccessor returns an error unless a member has joined, is healthy, and campaigns for the election.
func (m *Member) checkSuccessor(ctx context.Context, election, id string) error {
	if m.Store == nil {
		return errNoStore
	}

	l, err := m.get(ctx, driver.MemberRegister(id))
	switch {
	case err != nil && !errors.Is(err, driver.ErrNotFound):
		return err
	case err != nil || l.Vacant():
		return fmt.Errorf("there is no member %q", id)
	case !memberInfo(l).runsFor(election):
		return fmt.Errorf("member %q is not a healthy candidate for it", id)
	}

	return nil
}
