package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
)

// brokenRegisters are stores with faults in single calls.
func brokenRegisters() []mutant {
	return append(brokenRecords(), []mutant{
		broken("absent_reads_as_empty", func(t *brokenStore) {
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				l, err := t.fullStore.Get(ctx, name)
				if errors.Is(err, driver.ErrNotFound) {
					return driver.Record{Name: name}, nil
				}
				return l, err
			}
		}, "an_unwritten_register_is_not_found"),
		broken("a_swap_answers_the_old_revision", func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				_, err := t.fullStore.Swap(ctx, l)
				return l, err
			}
		}, "a_swap_answers_with_its_record_and_a_new_revision"),
		broken("gets_are_cached", func(t *brokenStore) {
			cache, n := sync.Map{}, atomic.Int64{}
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				if l, ok := cache.Load(name); ok && n.Add(1)%2 == 0 {
					return l.(driver.Record), nil
				}
				l, err := t.fullStore.Get(ctx, name)
				if err == nil {
					cache.Store(name, l)
				}
				return l, err
			}
		}, "a_swap_is_seen_by_every_client", "a_concurrent_history_is_linearizable"),
		force("revisions_are_ignored", func(l, old driver.Record) bool { return l.Rev != "" && old.Rev != "" },
			"a_stale_revision_is_refused"),
		force("an_empty_revision_overwrites", func(l, _ driver.Record) bool { return l.Rev == "" },
			"an_empty_revision_is_refused_on_a_written_register", "one_of_64_racing_creations_wins"),
		force("any_revision_creates", func(_, old driver.Record) bool { return old.Rev == "" },
			"a_revision_does_not_fit_an_unwritten_register"),
		broken("a_repeated_nonce_is_taken_for_a_retry", func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				if old, err := t.fullStore.Get(ctx, l.Name); err == nil && old.Rev == l.Rev && old.Nonce == l.Nonce {
					return old, nil
				}
				return t.fullStore.Swap(ctx, l)
			}
		}, "an_edit_may_keep_the_nonce", "no_revision_is_used_twice"),
		renamed("names_fold_case", strings.ToLower),
		renamed("names_are_trimmed", strings.TrimSpace),
		renamed("names_are_paths", path.Clean),
		renamed("names_are_cut_short", func(s string) string { return s[:min(len(s), 249)] }),
		{"revisions_are_content_hashes", []string{"no_revision_is_used_twice"}, func() Open {
			return openPlain(func() func(driver.Record) string {
				return func(l driver.Record) string {
					h := fnv.New64()
					h.Write(l.AppendJSON(nil))
					return fmt.Sprint(h.Sum64())
				}
			})
		}},
		{"revisions_begin_again_with_the_process", []string{"a_restart_keeps_registers_and_revisions"},
			func() Open { return openPlain(counter) }},
		{"registers_do_not_outlive_the_process",
			[]string{"a_restart_keeps_registers_and_revisions", "a_swap_is_seen_by_every_client"}, func() Open {
				return func() (driver.Store, error) { return openPlain(counter)() }
			}},
		{"expired_records_are_deleted", []string{"a_record_that_runs_out_is_kept_or_vacant"},
			(&expiry{delete: true}).open},
		{"expired_records_lose_their_epoch", []string{"a_record_that_runs_out_is_kept_or_vacant"},
			(&expiry{epoch: true}).open},
		{"edits_keep_records_alive", []string{"an_edit_does_not_keep_a_record_alive"}, (&expiry{edits: true}).open},
		{"records_expire_although_another_keeps_them", []string{"a_record_kept_alive_by_another_does_not_run_out"},
			(&expiry{via: true}).open},
	}...)
}

// brokenRecords are stores that do not return what was written.
func brokenRecords() []mutant {
	lossy := func(name string, lose func(*driver.Record), caught ...string) mutant {
		return broken(name, func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				lose(&l)
				return t.fullStore.Swap(ctx, l)
			}
		}, caught...)
	}

	const fields = "every_field_comes_back_as_it_was"
	return []mutant{
		lossy("via_is_lost", func(l *driver.Record) { l.Via = "" }, fields),
		lossy("pauses_are_lost", func(l *driver.Record) { l.Paused = false }, fields),
		lossy("times_are_in_milliseconds", func(l *driver.Record) { l.Since = l.Since.Truncate(time.Millisecond) },
			fields),
		lossy("durations_are_in_seconds", func(l *driver.Record) { l.Duration = l.Duration.Truncate(time.Second) },
			fields),
		lossy("terms_have_ended_in_seconds", func(l *driver.Record) {
			l.Past = slices.Clone(l.Past)
			for i := range l.Past {
				l.Past[i].Ended = l.Past[i].Ended.Truncate(time.Second)
			}
		}, fields),
		lossy("the_past_is_short", func(l *driver.Record) { l.Past = l.Past[max(len(l.Past)-31, 0):] }, fields),
		lossy("epochs_are_signed", func(l *driver.Record) { l.Epoch &= 1<<63 - 1 }, fields,
			"a_nonce_comes_back_to_the_last_bit"),
		lossy("nonces_are_floating", func(l *driver.Record) { l.Nonce = l.Nonce >> 11 << 11 },
			"a_nonce_comes_back_to_the_last_bit"),
		lossy("data_is_text", func(l *driver.Record) { l.Data = bytes.ToValidUTF8(l.Data, nil) },
			"a_checkpoint_of_64_KiB_comes_back"),
		lossy("data_is_cut", func(l *driver.Record) { l.Data = l.Data[:min(len(l.Data), driver.MaxData-1)] },
			"a_checkpoint_of_64_KiB_comes_back"),
	}
}

// force makes a store that, in some cases, swaps without comparing the revision.
func force(name string, when func(l, old driver.Record) bool, caught ...string) mutant {
	return broken(name, func(t *brokenStore) {
		t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
			for {
				old, err := t.fullStore.Get(ctx, l.Name)
				if err != nil && !errors.Is(err, driver.ErrNotFound) {
					return l, err
				}

				forced := when(l, old)
				next := l
				if forced {
					next.Rev = old.Rev
				}

				got, err := t.fullStore.Swap(ctx, next)
				if !forced || !errors.Is(err, driver.ErrConflict) {
					return got, err
				}
			}
		}
	}, caught...)
}

// renamed makes a store that keeps registers under other names.
func renamed(name string, key func(string) string) mutant {
	return broken(name, func(t *brokenStore) {
		t.get = func(ctx context.Context, name string) (driver.Record, error) {
			l, err := t.fullStore.Get(ctx, key(name))
			l.Name = name
			return l, err
		}

		t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
			name := l.Name
			l.Name = key(name)
			l, err := t.fullStore.Swap(ctx, l)
			l.Name = name
			return l, err
		}
	}, "odd_names_are_registers_of_their_own")
}

// brokenRaces are stores that work for one caller at a time.
func brokenRaces() []mutant {
	return []mutant{
		broken("a_swap_compares_then_writes", func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				old, err := t.fullStore.Get(ctx, l.Name)
				if err != nil && !errors.Is(err, driver.ErrNotFound) {
					return l, err
				}

				if old.Rev != l.Rev {
					return l, driver.ErrConflict
				}

				for {
					runtime.Gosched()
					got, err := t.fullStore.Swap(ctx, l)
					if !errors.Is(err, driver.ErrConflict) {
						return got, err
					}
					if old, err = t.fullStore.Get(ctx, l.Name); err == nil {
						l.Rev = old.Rev
					}
				}
			}
		}, "one_of_64_racing_swaps_wins", "one_of_64_racing_creations_wins", "a_concurrent_history_is_linearizable"),
		broken("an_applied_swap_is_called_a_conflict", func(t *brokenStore) {
			var n atomic.Int64
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				got, err := t.fullStore.Swap(ctx, l)
				if err == nil && n.Add(1)%3 == 0 {
					return got, driver.ErrConflict
				}
				return got, err
			}
		}, "a_concurrent_history_is_linearizable", "one_of_64_racing_swaps_wins"),
		broken("the_store_has_one_revision", func(t *brokenStore) {
			t.swap = oneRevision(t.fullStore)
		}, "registers_do_not_disturb_one_another"),
	}
}

// oneRevision refuses a swap if any register has changed meanwhile.
func oneRevision(s fullStore) func(ctx context.Context, l driver.Record) (driver.Record, error) {
	var changes atomic.Int64
	return func(ctx context.Context, l driver.Record) (driver.Record, error) {
		before := changes.Load()
		for range 10 {
			runtime.Gosched()
		}

		if changes.Load() != before {
			return l, driver.ErrConflict
		}

		changes.Add(1)
		return s.Swap(ctx, l)
	}
}

// brokenCalls are stores with faults in contexts and Close.
func brokenCalls() []mutant {
	const ended, cancelled = "an_ended_context_sends_nothing", "a_cancelled_swap_is_applied_or_not"
	return []mutant{
		broken("gets_ignore_their_context", func(t *brokenStore) {
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				return t.fullStore.Get(context.WithoutCancel(ctx), name)
			}
		}, ended),
		broken("swaps_ignore_their_context", func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				got, err := t.fullStore.Swap(context.WithoutCancel(ctx), l)
				return got, cmp.Or(ctx.Err(), err)
			}
		}, ended),
		broken("a_retry_after_a_cancelled_swap_meets_itself", func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				got, err := t.fullStore.Swap(ctx, l)
				select {
				case <-ctx.Done():
					return l, driver.ErrConflict
				case <-time.After(500 * time.Microsecond):
					return got, err
				}
			}
		}, cancelled),
		broken("a_cancelled_swap_writes_half", func(t *brokenStore) {
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				select {
				case <-ctx.Done():
					l.Addr = ""
					t.fullStore.Swap(context.WithoutCancel(ctx), l)
					return l, ctx.Err()
				case <-time.After(500 * time.Microsecond):
					return t.fullStore.Swap(ctx, l)
				}
			}
		}, cancelled),
		broken("a_cancelled_get_does_not_say_so", func(t *brokenStore) {
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				select {
				case <-ctx.Done():
					return driver.Record{}, errBroken
				case <-time.After(100 * time.Microsecond):
					return t.fullStore.Get(ctx, name)
				}
			}
		}, "a_cancelled_call_returns", ended),
		broken("closed_is_an_error_like_any", func(t *brokenStore) {
			t.get = func(ctx context.Context, name string) (driver.Record, error) {
				l, err := t.fullStore.Get(ctx, name)
				if errors.Is(err, driver.ErrClosed) {
					err = errBroken
				}
				return l, err
			}
		}, "a_closed_store_says_so", "closing_under_load_is_safe"),
		broken("close_fails_the_second_time", func(t *brokenStore) {
			var closed atomic.Bool
			t.close = func() error {
				if closed.Swap(true) {
					return errBroken
				}
				return t.fullStore.Close()
			}
		}, "a_closed_store_says_so", "closing_under_load_is_safe"),
	}
}
