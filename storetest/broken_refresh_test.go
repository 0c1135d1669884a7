package storetest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/regentd/regent/driver"
)

// brokenRefreshes are stores with a faulty Refresh.
func brokenRefreshes() []mutant {
	type outcomes = []driver.Outcome
	type leases = []driver.Record
	type refreshes = func(ctx context.Context, s fullStore, known leases) outcomes
	refresh := func(name string, how refreshes, caught ...string) mutant {
		return broken(name, func(t *brokenStore) {
			t.refresh = func(ctx context.Context, known leases) outcomes { return how(ctx, t.fullStore, known) }
		}, caught...)
	}

	const (
		now   = "a_refresh_shows_each_register_as_it_is_now"
		order = "a_refresh_keeps_the_order_of_its_names"
		twice = "a_refresh_may_name_a_register_twice"
		many  = "a_refresh_may_name_2500_registers"
		ended = "a_refresh_ends_with_its_context"

		expired = "a_refresh_shows_an_expired_record_as_vacant"
	)

	return []mutant{
		refresh("a_refresh_fails_as_one", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs := s.Refresh(ctx, known)
			for _, o := range outs {
				if o.Err != nil {
					return slices.Repeat(outcomes{{Err: o.Err}}, len(known))
				}
			}
			return outs
		}, now),
		refresh("a_refresh_reads_what_was_never_written_as_empty",
			func(ctx context.Context, s fullStore, known leases) outcomes {
				outs := s.Refresh(ctx, known)
				for i, o := range outs {
					if errors.Is(o.Err, driver.ErrNotFound) {
						outs[i] = driver.Outcome{Record: driver.Record{Name: known[i].Name}}
					}
				}
				return outs
			}, now, twice),
		refresh("a_refresh_believes_a_nonce", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs := s.Refresh(ctx, known)
			for i, o := range outs {
				if o.Err == nil && o.Record.Nonce == known[i].Nonce {
					outs[i].Record = known[i]
				}
			}
			return outs
		}, now),
		refresh("an_empty_revision_is_taken_for_no_change",
			func(ctx context.Context, s fullStore, known leases) outcomes {
				outs := s.Refresh(ctx, known)
				for i, o := range outs {
					if o.Err == nil && known[i].Rev == "" {
						outs[i].Record = known[i]
					}
				}
				return outs
			}, now, twice, "a_refresh_finds_odd_names"),
		refresh("a_refresh_answers_by_name", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs := s.Refresh(ctx, known)
			slices.SortStableFunc(outs, func(a, b driver.Outcome) int {
				return cmp.Compare(a.Record.Name,
					b.Record.Name)
			})
			return outs
		}, order),
		refresh("a_refresh_puts_the_changed_first", func(ctx context.Context, s fullStore, known leases) outcomes {
			var changed, same outcomes
			for i, o := range s.Refresh(ctx, known) {
				if o.Record.Rev == known[i].Rev {
					same = append(same, o)
				} else {
					changed = append(changed, o)
				}
			}
			return append(changed, same...)
		}, order, many),
		refresh("a_refresh_always_answers", func(ctx context.Context, s fullStore, known leases) outcomes {
			if len(known) == 0 {
				return make(outcomes, 1)
			}
			return s.Refresh(ctx, known)
		}, "a_refresh_of_nothing_is_nothing"),
		refresh("a_refresh_is_cut_at_999", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs := s.Refresh(ctx, known[:min(len(known), 999)])
			for _, l := range known[len(outs):] {
				outs = append(outs, driver.Outcome{Record: l})
			}
			return outs
		}, many),
		refresh("a_refresh_folds_case", func(ctx context.Context, s fullStore, known leases) outcomes {
			folded := slices.Clone(known)
			for i := range folded {
				folded[i].Name = strings.ToLower(folded[i].Name)
			}
			return s.Refresh(ctx, folded)
		}, "a_refresh_finds_odd_names"),
		refresh("a_refresh_answers_a_name_once", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs, seen := s.Refresh(ctx, known), map[string]bool{}
			return slices.DeleteFunc(outs, func(o driver.Outcome) bool {
				again := o.Err == nil && seen[o.Record.Name]
				seen[o.Record.Name] = true
				return again
			})
		}, twice),
		broken("a_refresh_is_behind", func(t *brokenStore) {
			var mu sync.Mutex
			var last outcomes
			t.refresh = func(ctx context.Context, known leases) outcomes {
				mu.Lock()
				defer mu.Unlock()

				stale := last
				last = t.fullStore.Refresh(ctx, known)
				if len(stale) != len(last) {
					return last
				}
				return stale
			}
		}, "a_refresh_shows_what_was_answered_before", "a_history_of_refreshes_is_linearizable"),
		refresh("a_refresh_ignores_its_context", func(ctx context.Context, s fullStore, known leases) outcomes {
			return s.Refresh(context.WithoutCancel(ctx), known)
		}, ended),
		refresh("a_cancelled_refresh_does_not_say_so", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs := s.Refresh(ctx, known)
			for i := range outs {
				if ctx.Err() != nil {
					outs[i] = driver.Outcome{Err: errBroken}
				}
			}
			return outs
		}, ended),
		refresh("a_closed_store_refreshes_from_memory", func(ctx context.Context, s fullStore, known leases) outcomes {
			outs := s.Refresh(ctx, known)
			for i := range outs {
				if errors.Is(outs[i].Err, driver.ErrClosed) {
					outs[i] = driver.Outcome{Record: known[i]}
				}
			}
			return outs
		}, "a_closed_store_refreshes_nothing"),
		{"a_refresh_compares_revisions_alone", []string{expired}, (&expiry{unseen: true}).open},
	}
}
