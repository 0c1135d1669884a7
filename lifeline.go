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

// Lifeline is what a companion process must know to release the elections of this process if it dies: see [Reap].
type Lifeline struct {
	// Register is the heartbeat register: that of the member, or that of an election with a lease of its own.
	Register string
	// Holder is the holder of the register, as the register shows it.
	Holder driver.Identity
	// Left is the time until the deadline, from the moment of the call. The duties then have the stop timeout to end.
	Left time.Duration
	// Holds reports that a term depends on the register. Only then may a process that is silent past its deadline be
	// killed.
	Holds bool
	// Stopped reports that the duties have stopped and no other duty begins. The register may not be released yet.
	Stopped bool
	// Over reports that the register was released too, as far as possible: there is nothing left to release.
	Over bool
}

// lifeline calls OnLifeline.
func (r *run) lifeline(e core.Lifeline) {
	if r.m.OnLifeline == nil {
		return
	}

	l := Lifeline{Register: e.Register, Holder: e.Holder, Holds: e.Holds, Stopped: e.Stopped, Over: e.Over}
	if e.Deadline != 0 {
		l.Left = max(0, time.Duration(e.Deadline)-r.m.clock.Now())
	}

	r.m.guarded(func() { r.m.OnLifeline(l) }, true)
}

// Reap vacates a heartbeat register that shows an incarnation whose process is dead. All elections that depend on the
// register are free by that. The caller must know of the death from the kernel: silence proves nothing. Reap tries
// until the register no longer shows that incarnation, or until ctx ends. It returns an error that is a
// [driver.ErrRefused] at once: the store has to be opened again, for example because its file was replaced.
func Reap(ctx context.Context, store driver.Store, register string, dead driver.Identity) error {
	return ReapAs(ctx, store, register, dead, ReasonDied)
}

// ReapAs is [Reap] with the reason that the register shows from then on: [ReasonDied], or [ReasonKilled] if the caller
// has killed the process.
func ReapAs(
	ctx context.Context, store driver.Store, register string, dead driver.Identity, reason Reason,
) error {
	const retry = 50 * time.Millisecond
	for {
		err := reapOnce(ctx, store, register, dead, string(reason))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, driver.ErrConflict):
			continue
		case errors.Is(err, driver.ErrRefused):
			return fmt.Errorf("reap %s: %w", register, err)
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("reap %s: %w", register, errors.Join(context.Cause(ctx), err))
		case <-time.After(retry):
		}
	}
}

// reapOnce is one try of Reap.
func reapOnce(
	ctx context.Context, store driver.Store, register string, dead driver.Identity, reason string,
) error {
	l, err := store.Get(ctx, register)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return nil
	case err != nil:
		return err
	case l.Holder != dead:
		return nil
	}

	next := vacated(l, shell.Source{}.Nonce(), time.Now(), reason)
	if strings.HasPrefix(register, driver.MemberPrefix) {
		next = vacatedHeartbeat(l, shell.Source{}.Nonce(), time.Now(), reason)
	}

	_, err = store.Swap(ctx, next)
	return err
}
