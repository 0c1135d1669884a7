package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/regentd/regent/driver"
)

// brokenBatches are stores with a faulty SwapAll.
func brokenBatches() []mutant {
	type outcomes = []driver.Outcome
	type swapAll = func(ctx context.Context, s fullStore, ls []driver.Record) outcomes
	batch := func(name string, how swapAll, caught ...string) mutant {
		return broken(name, func(t *brokenStore) {
			t.swapAll = func(ctx context.Context, ls []driver.Record) outcomes { return how(ctx, t.fullStore, ls) }
		}, caught...)
	}

	return []mutant{
		batch("a_batch_fails_as_one", func(ctx context.Context, s fullStore, ls []driver.Record) outcomes {
			outs := s.SwapAll(ctx, ls)
			for _, o := range outs {
				if o.Err != nil {
					for i := range outs {
						outs[i].Err = o.Err
					}
				}
			}
			return outs
		}, "each_swap_of_a_batch_has_its_own_outcome"),
		batch("a_batch_is_cut_at_500", func(ctx context.Context, s fullStore, ls []driver.Record) outcomes {
			return append(s.SwapAll(ctx, ls[:min(len(ls), 500)]), make(outcomes, max(len(ls)-500, 0))...)
		}, "a_batch_may_hold_1000_swaps"),
		batch("the_last_of_a_batch_wins", func(ctx context.Context, s fullStore, ls []driver.Record) outcomes {
			seen, outs := map[string]string{}, make(outcomes, len(ls))
			for i, l := range ls {
				if rev, again := seen[l.Name]; again {
					l.Rev = rev
				}
				outs[i].Record, outs[i].Err = s.Swap(ctx, l)
				seen[l.Name] = outs[i].Record.Rev
			}
			return outs
		}, "one_of_two_swaps_of_a_register_in_a_batch_wins"),
		batch("a_batch_compares_first_and_writes_then",
			func(ctx context.Context, s fullStore, ls []driver.Record) outcomes {
				outs := make(outcomes, len(ls))
				for i, l := range ls {
					if old, _ := s.Get(ctx, l.Name); old.Rev != l.Rev {
						outs[i].Err = driver.ErrConflict
					}
				}

				<-time.After(time.Millisecond)
				for i, l := range ls {
					for outs[i].Err == nil {
						got, err := s.Swap(ctx, l)
						if !errors.Is(err, driver.ErrConflict) {
							outs[i] = driver.Outcome{Record: got, Err: err}
							break
						}
						old, _ := s.Get(ctx, l.Name)
						l.Rev = old.Rev
					}
				}

				return outs
			}, "racing_batches_have_one_winner_of_each_register"),
	}
}
