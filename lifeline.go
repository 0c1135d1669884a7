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

// Lifeline is what a companion process must know to free the seats of this one should it die: see [Reap].
type Lifeline struct {
	Register string          // the heartbeat register: the member's, or that of a seat with a lease of its own
	Holder   driver.Identity // as the register shows it
	Left     time.Duration   // until the deadline, from the moment of the call; duties then have the stop timeout to end
	Holds    bool            // a term depends on it: only then is a process that falls silent past its deadline to be killed
	Stopped  bool            // its duties have stopped and no other begins; the register may not be released yet
	Over     bool            // and the register has been released, as far as possible: nothing is left to free
}

// Reap vacates a heartbeat register while it shows an incarnation whose process is known to be dead: proved by the kernel, not by silence. All seats
// that hang on it are free by that. It tries until it is known to show that incarnation no longer, or ctx ends.
func Reap(ctx context.Context, store driver.Store, register string, dead driver.Identity) error {
	const again = 50 * time.Millisecond
	for {
		l, err := store.Get(ctx, register)
		switch {
		case err == nil && l.Holder != dead, errors.Is(err, driver.ErrNotFound):
			return nil
		case err == nil:
			next := vacated(l, shell.Source{}.Nonce(), time.Now(), core.ReasonDied)
			if strings.HasPrefix(register, driver.MemberPrefix) {
				next = vacatedHeartbeat(l, shell.Source{}.Nonce(), time.Now(), core.ReasonDied)
			}
			if _, err = store.Swap(ctx, next); err == nil {
				return nil
			}
			if errors.Is(err, driver.ErrConflict) {
				continue
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("reap %s: %w", register, errors.Join(context.Cause(ctx), err))
		case <-time.After(again):
		}
	}
}
