package memstore

import (
	"context"
	"fmt"

	"github.com/regentd/regent/driver"
)

var (
	_ driver.Remover = (*Client)(nil)
	_ driver.Remover = (*Store)(nil)
)

// Remove removes the register if its revision is still l.Rev and nobody holds it.
func (s *Store) Remove(ctx context.Context, l driver.Record) error { return s.self.Remove(ctx, l) }

// Remove removes the register if its revision is still l.Rev and nobody holds it. It has the faults of a Swap.
func (c *Client) Remove(ctx context.Context, l driver.Record) error {
	err := c.send(ctx, Remove, l.Name)
	switch {
	case err != nil:
	case c.perfect():
		err = c.store.remove(l, c.name)
	default:
		err = c.removeFaulty(ctx, l)
	}

	if err != nil {
		return fmt.Errorf("remove %q at revision %q: %w", l.Name, l.Rev, err)
	}
	return nil
}

func (c *Client) removeFaulty(ctx context.Context, l driver.Record) error {
	outcome, err := transmit(ctx, c, Remove, l.Name, func(f Faults, d draws) error {
		if d.clash < f.Conflict {
			return driver.ErrConflict
		}
		return c.store.remove(l, c.name)
	})
	if err != nil {
		return err
	}
	return outcome
}

// remove removes a register for client, or returns why not. Revisions increase over the whole store, so none repeats if
// the register is written again.
func (s *Store) remove(l driver.Record, client string) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed.Load() {
		return driver.ErrClosed
	}

	if s.unreadable[l.Name] {
		return ErrUnreadable
	}

	reg := s.regs[l.Name]
	if reg == nil || reg.Rev != l.Rev || !reg.Vacant() {
		return driver.ErrConflict
	}

	old := *reg
	delete(s.regs, l.Name)
	s.logLocked(old)
	if s.OnRemove != nil {
		s.OnRemove(old, client)
	}

	return nil
}
