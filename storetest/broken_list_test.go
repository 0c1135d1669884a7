package storetest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// relist replaces the sequence of List.
func relist(
	name string, how func(all iter.Seq2[driver.Record, error], prefix string) iter.Seq2[driver.Record, error],
	caught ...string,
) mutant {
	return broken(name, func(t *brokenStore) {
		t.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
			return how(t.fullStore.List(ctx, ""), prefix)
		}
	}, caught...)
}

// only yields the registers whose names match.
func only(all iter.Seq2[driver.Record, error], match func(name string) bool) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range all {
			if (err != nil || match(l.Name)) && !yield(l, err) {
				return
			}
		}
	}
}

// brokenLists are stores with a faulty List.
func brokenLists(t *testing.T) []mutant {
	const prefixes, once = "list_yields_what_begins_with_the_prefix", "list_yields_every_register_once"
	const ends = "an_error_without_a_name_ends_a_list"
	type leases = iter.Seq2[driver.Record, error]

	return []mutant{
		relist("list_swallows_the_prefix", func(all leases, _ string) leases { return all }, prefixes, once),
		relist("list_folds_case", func(all leases, prefix string) leases {
			return only(all, func(name string) bool {
				return strings.HasPrefix(strings.ToLower(name),
					strings.ToLower(prefix))
			})
		}, prefixes),
		relist("list_takes_patterns", func(all leases, prefix string) leases {
			return only(all, func(name string) bool {
				ok, _ := path.Match(strings.ReplaceAll(prefix, "/", "|"), strings.ReplaceAll(name, "/", "|"))
				return ok || strings.HasPrefix(name, prefix)
			})
		}, prefixes),
		relist("list_stops_at_folders", func(all leases, prefix string) leases {
			return only(all, func(name string) bool {
				return strings.HasPrefix(name, prefix) && !strings.Contains(strings.TrimPrefix(name, prefix), "/")
			})
		}, prefixes),
		broken("list_has_one_page", func(t *brokenStore) {
			t.list = func(ctx context.Context, prefix string) leases {
				n := 0
				return only(t.fullStore.List(ctx, prefix), func(string) bool { n++; return n <= 100 })
			}
		}, once),
		broken("list_repeats_the_end_of_a_page", func(t *brokenStore) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					n := 0
					for l, err := range t.fullStore.List(ctx, prefix) {
						if n++; !yield(l, err) || n%100 == 0 && !yield(l, err) {
							return
						}
					}
				}
			}
		}, once),
		broken("list_counts_its_way_through_changes", func(t *brokenStore) { t.list = byOffset(t.fullStore) },
			"list_under_change_yields_once_what_stays"),
		broken("list_loses_the_neighbour_of_a_change", func(t *brokenStore) { t.list = beside(t.fullStore) },
			"list_under_change_yields_once_what_stays"),
		broken("list_holds_the_store", func(t *brokenStore) {
			// A cursor that keeps the only connection until it is read to its end.
			conn := make(chan struct{}, 1)
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					select {
					case conn <- struct{}{}:
					case <-ctx.Done():
						yield(driver.Record{}, ctx.Err())
						return
					}

					for l, err := range t.fullStore.List(ctx, prefix) {
						if !yield(l, err) {
							return
						}
					}

					<-conn
				}
			}
		}, "a_list_may_be_broken_off"),
		broken("list_fails_twice", func(t *brokenStore) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					for l, err := range t.fullStore.List(ctx, prefix) {
						if !yield(l, err) || err != nil && !yield(l, err) {
							return
						}
					}
				}
			}
		}, ends),
		broken("list_blames_a_register_for_its_end", func(t *brokenStore) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					for l, err := range t.fullStore.List(ctx, prefix) {
						if err != nil {
							l.Name = prefix + "1"
						}
						if !yield(l, err) {
							return
						}
					}
				}
			}
		}, ends),
		broken("list_of_a_closed_store_is_empty", func(t *brokenStore) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					for l, err := range t.fullStore.List(ctx, prefix) {
						if errors.Is(err, driver.ErrClosed) || !yield(l, err) {
							return
						}
					}
				}
			}
		}, ends),
		broken("list_is_behind", func(t *brokenStore) {
			var last []driver.Record
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					stale := last
					last = nil
					for l := range t.fullStore.List(ctx, prefix) {
						last = append(last, l)
					}

					for _, l := range stale {
						if !yield(l, nil) {
							return
						}
					}
				}
			}
		}, "list_shows_what_was_answered_before"),
	}
}

// byOffset lists page by page, latest change first, by offset: a change moves the other registers.
func byOffset(s fullStore) func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			for offset, more := 0, true; more; offset += 20 {
				var all []driver.Record
				for l := range s.List(ctx, prefix) {
					all = append(all, l)
				}

				slices.SortFunc(all, func(a, b driver.Record) int {
					x, _ := strconv.Atoi(a.Rev)
					y, _ := strconv.Atoi(b.Rev)
					return cmp.Compare(y, x)
				})

				more = len(all) > offset+20
				for _, l := range all[min(offset, len(all)):min(offset+20, len(all))] {
					if !yield(l, nil) {
						return
					}
				}

				<-time.After(time.Millisecond)
			}
		}
	}
}

// beside lists by name, and skips the register before one that changes meanwhile.
func beside(s fullStore) func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
		return func(yield func(driver.Record, error) bool) {
			before := map[string]string{}
			for l := range s.List(ctx, prefix) {
				before[l.Name] = l.Rev
			}

			<-time.After(time.Millisecond)
			var last *driver.Record
			for l := range s.List(ctx, prefix) {
				if last != nil && l.Rev == before[l.Name] && !yield(*last, nil) {
					return
				}
				last = &l
			}

			if last != nil {
				yield(*last, nil)
			}
		}
	}
}
