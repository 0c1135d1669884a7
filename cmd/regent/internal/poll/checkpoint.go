package poll

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent"
)

const (
	saveEvery = 2 * time.Second
	// saveIdle is how often a checkpoint is saved though nothing has happened, so that its time is not too far back.
	saveIdle = time.Minute
	// maxOpen and maxDown are the bytes that a checkpoint gives to each list.
	maxOpen = 24 << 10
	maxDown = 24 << 10
)

// checkpoint is what the next leader is told: up to when all slots are settled, but for those that are open. What it does not know, since it is a
// little old, the workers tell.
type checkpoint struct {
	Through int64    `json:"through"`         // Unix milliseconds
	Again   int64    `json:"again,omitempty"` // slots that are due up to here carry it: see markOf
	Open    []string `json:"open,omitempty"`
	Down    []string `json:"down,omitempty"` // polls whose targets are
}

func readCheckpoint(data []byte) (checkpoint, error) {
	var cp checkpoint
	if len(data) == 0 {
		return cp, nil
	}
	err := json.Unmarshal(data, &cp)
	return cp, err
}

// begin is the time from which on there may be slots that are not settled.
func (cp checkpoint) begin() time.Time {
	from := cp.Through
	for _, id := range cp.Open {
		if i, ok := parseID(id); ok {
			from = min(from, i.due)
		}
	}
	return time.UnixMilli(from)
}

// checkpoint tells how it stands. If too many slots are open, it tells of the oldest, and of a time before the others.
func (c *conduct) checkpoint() (checkpoint, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cp := checkpoint{Through: c.through.UnixMilli()}
	if c.mark > cp.Through {
		cp.Again = c.mark
	}
	var open []*slot
	for s := range c.open {
		if !s.manual {
			open = append(open, s)
		}
	}
	// Those that have waited for more than a minute come last: if there is no room for them, they are lost with this leader, and nothing else.
	waits := func(s *slot) bool { return s.worker == "" && c.through.Sub(s.dueTime()) > catchUp }
	slices.SortFunc(open, func(a, b *slot) int {
		if waits(a) != waits(b) {
			if waits(b) {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.due, b.due)
	})
	size := 0
	for _, s := range open {
		id := s.id()
		if size += len(id) + 3; size > maxOpen {
			if !waits(s) {
				cp.Through = min(cp.Through, s.due-1)
			}
			break
		}
		cp.Open = append(cp.Open, id)
	}
	size = 0
	for name, e := range c.entries {
		if e.state == Down && size+len(name)+3 <= maxDown {
			size += len(name) + 3
			cp.Down = append(cp.Down, name)
		}
	}
	slices.Sort(cp.Down)
	return cp, c.moved
}

// keepCheckpoint saves what has happened, every now and then.
func (c *conduct) keepCheckpoint() {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		idle := len(c.entries) == 0 || c.moved == c.told && time.Since(c.savedAt) < saveIdle
		c.mu.Unlock()
		if idle {
			continue
		}
		if err := c.save(c.ctx); err != nil && c.ctx.Err() == nil {
			c.o.opts.Log.Warn("checkpoint cannot be saved", "error", err)
		}
	}
}

// anchor saves a first checkpoint where there has never been one. A leader that has none begins with what is due from then on, so that a slot that was due
// under the last one, and not sent before that died, would be lost.
func (c *conduct) anchor(ctx context.Context) error {
	if len(c.term.Saved()) > 0 {
		return nil
	}
	return c.save(ctx)
}

func (c *conduct) save(ctx context.Context) error {
	c.saving.Lock() // or an older one could overwrite a newer
	defer c.saving.Unlock()
	cp, moved := c.checkpoint()
	b, err := json.Marshal(cp)
	if err != nil {
		return err
	}
	if err := c.term.Save(ctx, b); err != nil {
		return err
	}
	c.mu.Lock()
	c.told, c.savedAt = moved, time.Now()
	c.mu.Unlock()
	return nil
}

func (c *conduct) quiesce(ctx context.Context) error {
	c.mu.Lock()
	c.quiet = true
	idle := make(chan struct{})
	c.idle = idle
	c.rest()
	polls := len(c.entries)
	c.mu.Unlock()
	var waited error
	select {
	case <-idle:
	case <-ctx.Done():
		waited = context.Cause(ctx)
	case <-c.ctx.Done():
	}
	if polls == 0 {
		return nil
	}
	if err := c.save(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, regent.ErrNotLeader) {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return waited
}
