package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/regentd/regent/driver"
)

// brokenRemovals are stores with a faulty Remove.
func brokenRemovals() []mutant {
	type removes = func(ctx context.Context, s fullStore, l driver.Record) error
	remove := func(name string, how removes, caught ...string) mutant {
		return broken(name, func(t *brokenStore) {
			t.remove = func(ctx context.Context, l driver.Record) error { return how(ctx, t.fullStore, l) }
		}, caught...)
	}

	const (
		gone     = "a_removed_register_is_not_found"
		refused  = "a_removal_on_another_revision_is_refused"
		held     = "only_a_register_that_nobody_holds_is_removed"
		revision = "a_removed_register_never_gets_a_revision_again"
		race     = "of_removals_and_a_claim_at_once_one_is_applied"
		wakes    = "a_removal_wakes_nobody_and_a_creation_after_it_does"
		ends     = "a_removal_ends_with_its_context_and_its_client"
	)

	var turn sync.Mutex
	return []mutant{
		remove("a_removal_does_nothing", func(context.Context, fullStore, driver.Record) error { return nil }, gone,
			race, ends),
		remove("a_removal_takes_any_revision", func(ctx context.Context, s fullStore, l driver.Record) error {
			if now, err := s.Get(ctx, l.Name); err == nil {
				l.Rev = now.Rev
			}
			return s.Remove(ctx, l)
		}, refused),
		remove("what_is_gone_was_removed", func(ctx context.Context, s fullStore, l driver.Record) error {
			err := s.Remove(ctx, l)
			if _, missing := s.Get(ctx, l.Name); errors.Is(missing, driver.ErrNotFound) && ctx.Err() == nil {
				return nil
			}
			return err
		}, refused, race),
		remove("a_removal_takes_what_is_held", func(ctx context.Context, s fullStore, l driver.Record) error {
			now, err := s.Get(ctx, l.Name)
			if err == nil && now.Rev == l.Rev && !now.Vacant() {
				now, err = s.Swap(ctx, released(now))
				l = now
			}
			if err != nil && !errors.Is(err, driver.ErrNotFound) {
				return err
			}
			return s.Remove(ctx, l)
		}, held),
		remove("a_removal_makes_the_register_empty", func(ctx context.Context, s fullStore, l driver.Record) error {
			turn.Lock()
			defer turn.Unlock()
			_, err := s.Swap(ctx, driver.Record{Name: l.Name, Rev: l.Rev})
			return err
		}, gone, held),
		remove("a_removal_wakes_everybody", func(ctx context.Context, s fullStore, l driver.Record) error {
			now, err := s.Get(ctx, l.Name)
			if err != nil || now.Rev != l.Rev || !now.Vacant() {
				return s.Remove(ctx, l)
			}

			now.Epoch++
			now, err = s.Swap(ctx, now)
			if err != nil {
				return err
			}
			return s.Remove(ctx, now)
		}, wakes),
		{"revisions_begin_again_with_the_register", []string{revision}, func() Open { return restarting() }},
	}
}

// restarting opens clients of a store that counts the revisions of each register, and forgets the count with the
// register.
func restarting() Open {
	p := &plainStore{regs: map[string]driver.Record{}}
	return func() (driver.Store, error) {
		c := &plainClient{plainStore: p}
		c.rev = func(l driver.Record) string {
			var n int
			_, _ = fmt.Sscan(l.Rev, &n)
			return fmt.Sprint(n + 1)
		}
		return &removingClient{c}, nil
	}
}

type removingClient struct{ *plainClient }

func (c *removingClient) Remove(ctx context.Context, l driver.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.ended(ctx); err != nil {
		return err
	}

	now, ok := c.regs[l.Name]
	if !ok || now.Rev != l.Rev || !now.Vacant() {
		return driver.ErrConflict
	}

	delete(c.regs, l.Name)
	return nil
}
