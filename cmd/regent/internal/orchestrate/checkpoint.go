package orchestrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
)

const (
	// saveInterval is the least time between two checkpoints.
	saveInterval = 2 * time.Second
	// saveIdle is the time after which a checkpoint is saved although nothing has changed, so that its time is recent.
	saveIdle = time.Minute
	// maxOpen and maxDown are the most bytes of the two lists in a checkpoint.
	maxOpen = 24 << 10
	maxDown = 24 << 10
)

// checkpoint is what a leader leaves to the next one: all slots up to a time are settled, except for the open ones. It
// may be a little old; the workers know the rest.
type checkpoint struct {
	Through int64    `json:"through"`         // Unix milliseconds
	Again   int64    `json:"again,omitempty"` // the IDs of slots that are due up to here have this Repeat
	Open    []string `json:"open,omitempty"`
	Down    []string `json:"down,omitempty"` // polls whose targets are down
}

func readCheckpoint(data []byte) (checkpoint, error) {
	var cp checkpoint
	if len(data) == 0 {
		return cp, nil
	}

	err := json.Unmarshal(data, &cp)
	return cp, err
}

// begin returns the time of the oldest slot that may not be settled.
func (cp checkpoint) begin() time.Time {
	from := cp.Through
	for _, text := range cp.Open {
		if id, ok := schedule.ParseSlot(text); ok {
			from = min(from, id.Due)
		}
	}

	return time.UnixMilli(from)
}

// checkpoint returns the checkpoint of the present state, and the number of changes in it.
func (t *term) checkpoint() (checkpoint, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	cp := checkpoint{Through: t.through.UnixMilli()}
	if t.repeatMark > cp.Through {
		cp.Again = t.repeatMark
	}

	t.listOpenLocked(&cp)
	size := 0
	for name, e := range t.entries {
		if e.state == Down && size+len(name)+3 <= maxDown {
			size += len(name) + 3
			cp.Down = append(cp.Down, name)
		}
	}
	slices.Sort(cp.Down)

	return cp, t.changes
}

// listOpenLocked adds the open slots to a checkpoint. If there are too many, it lists the oldest ones, and sets a time
// before the others.
func (t *term) listOpenLocked(cp *checkpoint) {
	var open []*slot
	for s := range t.open {
		if !s.Manual {
			open = append(open, s)
		}
	}

	// Slots that have waited for longer than catchUp come last. If there is no room for them, they alone are lost with
	// this leader.
	late := func(s *slot) bool { return s.worker == "" && t.through.Sub(s.DueTime()) > catchUp }
	slices.SortFunc(open, func(a, b *slot) int {
		if late(a) != late(b) {
			if late(b) {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Due, b.Due)
	})

	size := 0
	for _, s := range open {
		id := s.String()
		if size += len(id) + 3; size > maxOpen {
			if !late(s) {
				cp.Through = min(cp.Through, s.Due-1)
			}
			return
		}
		cp.Open = append(cp.Open, id)
	}
}

// keepCheckpoint saves checkpoints until the term ends.
func (t *term) keepCheckpoint() {
	tick := time.NewTicker(saveInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.ctx.Done():
			return
		}

		if !t.saveDue() {
			continue
		}
		if err := t.save(t.ctx); err != nil && t.ctx.Err() == nil {
			t.o.opts.Log.Warn("the checkpoint of the polls cannot be saved", "election", t.Election, "error", err)
		}
	}
}

// saveDue reports whether there is something to save.
func (t *term) saveDue() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries) > 0 && (t.changes != t.saved || time.Since(t.savedAt) >= saveIdle)
}

// saveFirst saves a checkpoint if there has never been one. A leader without a checkpoint begins with the slots that
// are due from then on: a slot that was due under the last leader, which died before it sent the slot, would be lost.
func (t *term) saveFirst(ctx context.Context) error {
	if len(t.Saved()) > 0 {
		return nil
	}

	return t.save(ctx)
}

// save saves a checkpoint.
func (t *term) save(ctx context.Context) error {
	t.saving.Lock() // otherwise an older one could overwrite a newer one
	defer t.saving.Unlock()

	cp, changes := t.checkpoint()
	b, err := json.Marshal(cp)
	if err != nil {
		return err
	}
	if err := t.Save(ctx, b); err != nil {
		return err
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved = changes
	t.savedAt = time.Now()
	return nil
}

// quiesce implements [Orchestrator.Quiesce].
func (t *term) quiesce(ctx context.Context) error {
	idle := make(chan struct{})
	t.mu.Lock()
	t.quiescing = true
	t.idle = idle
	t.checkIdleLocked()
	polls := len(t.entries)
	t.mu.Unlock()

	var waited error
	select {
	case <-idle:
	case <-ctx.Done():
		waited = context.Cause(ctx)
	case <-t.ctx.Done():
	}

	if polls == 0 {
		return nil
	}
	if err := t.save(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, regent.ErrNotLeader) {
		return fmt.Errorf("save the checkpoint of the polls: %w", err)
	}
	return waited
}
