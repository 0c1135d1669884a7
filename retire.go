package regent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// ErrInUse reports that a register was not removed: it is held, was changed meanwhile, is paused, or has a checkpoint.
var ErrInUse = errors.New("register is in use")

// MinRetireAfter is the shortest time that a register stays in the store after its last use.
const MinRetireAfter = driver.Rest

const (
	retireScans = 6           // how often a [Member.RetirementDuty] lists the registers in its time after
	retireBatch = 100_000     // how many registers it removes at once, at most
	retireRetry = time.Minute // when it lists the registers again after the store has failed
)

// Retire removes the register of an election from the store, if nobody uses the election for the time idle, or for
// [MinRetireAfter] if idle is shorter. It waits for that time. If the election is used again later, its epochs go on
// rising.
//
// The error is an [ErrInUse] if the election is held, changes meanwhile, is paused or has a checkpoint, an [ErrStore]
// if the store does not answer, and an [errors.ErrUnsupported] if the store cannot remove registers.
func (m *Member) Retire(ctx context.Context, election string, idle time.Duration) error {
	if err := validElection(election); err != nil {
		return err
	}
	if err := m.removes(); err != nil {
		return fmt.Errorf("retire %s: %w", election, err)
	}
	if err := m.enter(ctx); err != nil {
		return err
	}

	defer m.exit()

	results := m.retire(ctx, idle, election)
	return results[0]
}

// RetirementDuty returns a duty for the leader of an election. While it runs, it removes the registers of all elections
// of the store, and of all members that have left or died, which nobody has used for the time after. Run it in one
// election of a store. It lists all registers six times in that time, and keeps the names of those that nobody uses in
// memory.
//
// The error reports that after is shorter than [MinRetireAfter], which is 10 minutes, or is an [errors.ErrUnsupported]
// if the store cannot remove registers.
func (m *Member) RetirementDuty(election string, after time.Duration) (Duty, error) {
	if after < MinRetireAfter {
		return Duty{}, fmt.Errorf("retire registers after %v: must be at least %v", after, MinRetireAfter)
	}
	if err := m.removes(); err != nil {
		return Duty{}, fmt.Errorf("retire registers: %w", err)
	}

	run := func(ctx context.Context, _ Term) error { return m.retireUnused(ctx, after) }
	return Duty{Election: election, Name: "retirement", Run: run}, nil
}

// removes returns an error unless the store can remove registers.
func (m *Member) removes() error {
	if m.Store == nil {
		return errNoStore
	}
	if _, ok := m.Store.(driver.Remover); !ok {
		return fmt.Errorf("the store cannot remove registers: %w", errors.ErrUnsupported)
	}
	return nil
}

// retire makes the core remove registers, and returns the error of each; nil for those that were removed.
func (m *Member) retire(ctx context.Context, idle time.Duration, registers ...string) []error {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()

	results := make([]<-chan core.Result, len(registers))
	inputs := make([]core.Input, len(registers))
	for i, register := range registers {
		var id uint64
		id, results[i] = r.request()
		inputs[i] = core.Retire{ID: id, Register: register, Idle: idle}
	}

	r.shell.Do(inputs...)

	errs := make([]error, len(registers))
	for i, result := range results {
		select {
		case got := <-result:
			errs[i] = retired(got)
		case <-r.over:
			errs[i] = fmt.Errorf("%w: the driver has panicked", ErrStore)
		case <-ctx.Done():
			errs[i] = context.Cause(ctx)
		}

		if errs[i] != nil {
			errs[i] = fmt.Errorf("retire %s: %w", registers[i], errs[i])
		}
	}

	return errs
}

// retired returns the error that a result of the core stands for.
func retired(got core.Result) error {
	switch got.Result {
	case core.OK:
		return nil
	case core.InUse:
		return ErrInUse
	}

	return fmt.Errorf("%w: it has not answered in time", ErrStore)
}

// unused is a register that nobody seems to use.
type unused struct {
	rev   string
	since time.Duration // when it was first listed so
	asked bool          // it is to be removed
}

// retireUnused removes registers that nobody uses, until ctx ends. A register that could not be removed is tried
// again when it has changed.
func (m *Member) retireUnused(ctx context.Context, after time.Duration) error {
	known := map[string]unused{}
	for {
		wait := after / retireScans
		now := m.clock.Now()
		listed, err := m.listUnused(ctx, known, now)
		if err != nil {
			wait = min(wait, retireRetry)
		} else {
			known = listed
			m.retireDue(ctx, known, now-(after-MinRetireAfter))
		}

		timer := m.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// retireDue removes registers that have not been used since then. Those for which the store did not answer are tried
// again after the next list.
func (m *Member) retireDue(ctx context.Context, known map[string]unused, since time.Duration) {
	names := due(known, since)
	for i, err := range m.retire(ctx, 0, names...) {
		if err != nil && !errors.Is(err, ErrInUse) {
			u := known[names[i]]
			u.asked = false
			known[names[i]] = u
		}
	}
}

// due returns registers that have not changed since a time, and marks them.
func due(known map[string]unused, since time.Duration) []string {
	var names []string
	for name, u := range known {
		if u.asked || u.since > since {
			continue
		}

		u.asked = true
		known[name] = u
		names = append(names, name)
		if len(names) == retireBatch {
			break
		}
	}

	return names
}

// listUnused lists the registers that may be removed later. Registers that have not changed since the last list keep
// the time at which they were first listed.
func (m *Member) listUnused(
	ctx context.Context, known map[string]unused, now time.Duration,
) (map[string]unused, error) {
	listed := map[string]unused{}
	for l, err := range m.Store.List(ctx, "") {
		switch {
		case err != nil && l.Name == "":
			return nil, fmt.Errorf("list registers: %w", err)
		case err != nil || !retirable(l):
			continue
		}

		u, ok := known[l.Name]
		if !ok || u.rev != l.Rev {
			u = unused{rev: l.Rev, since: now}
		}

		listed[l.Name] = u
	}

	return listed, nil
}

// retirable reports whether a register may be removed if it stays as it is: that of an election which is vacant, or
// that of a member, which may have died. The core decides whether it is.
func retirable(l driver.Record) bool {
	if strings.HasPrefix(l.Name, driver.MemberPrefix) {
		return true
	}
	return l.Vacant() && !l.Paused && len(l.Data) == 0 && !strings.HasPrefix(l.Name, driver.Reserved)
}
