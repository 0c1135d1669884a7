package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/regentd/regent/driver"
)

// Swap implements [driver.Store]: one conditional PUT, which is never sent again. The server's own answer that the condition
// has failed is a conflict; any other answer than success, and none, leaves the outcome unknown.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	inner, done, err := s.begin(ctx)
	if err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, err)
	}
	defer done()

	etag, err := s.put(inner, s.addr.key(l.Name), s.encode(l), condition{l.Rev})
	if err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, s.explain(ctx, err))
	}
	l.Rev = etag
	s.cache.put(l)
	return l, nil
}

// Remove implements [driver.Remover]: one read, and one DELETE with a condition. A server that ignores that condition, as the
// probe of Open finds, keeps every register: each removal is a conflict.
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	if err := s.removeVacant(ctx, l); err != nil {
		return fmt.Errorf("remove %q: %w", l.Name, err)
	}
	return nil
}

func (s *Store) removeVacant(ctx context.Context, l driver.Record) error {
	now, err := s.read(ctx, driver.Record{Name: l.Name})
	switch {
	case errors.Is(err, driver.ErrNotFound):
		return fmt.Errorf("it was never written: %w", driver.ErrConflict)
	case err != nil:
		return err
	case now.Rev != l.Rev || !now.Vacant():
		return driver.ErrConflict
	case !s.removes.Load():
		return fmt.Errorf("the server is not known to honour the condition of a DELETE: %w", driver.ErrConflict)
	}

	inner, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.remove(inner, s.addr.key(l.Name), l.Rev); err != nil {
		return s.explain(ctx, err)
	}
	s.cache.drop(l.Name)
	return nil
}
