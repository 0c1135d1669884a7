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
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// relist replaces what List yields.
func relist(name string, how func(all iter.Seq2[driver.Record, error], prefix string) iter.Seq2[driver.Record, error], caught ...string) mutant {
	return broken(name, func(t *twisted) {
		t.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
			return how(t.whole.List(ctx, ""), prefix)
		}
	}, caught...)
}

// only yields what matches.
func only(all iter.Seq2[driver.Record, error], match func(name string) bool) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		for l, err := range all {
			if (err != nil || match(l.Name)) && !yield(l, err) {
				return
			}
		}
	}
}

// brokenLists get List wrong.
func brokenLists(t *testing.T) []mutant {
	const prefixes, once = "list_yields_what_begins_with_the_prefix", "list_yields_every_register_once"
	const ends = "an_error_without_a_name_ends_a_list"
	type leases = iter.Seq2[driver.Record, error]
	return []mutant{
		relist("list_swallows_the_prefix", func(all leases, _ string) leases { return all }, prefixes, once),
		relist("list_folds_case", func(all leases, prefix string) leases {
			return only(all, func(name string) bool { return strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) })
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
		broken("list_has_one_page", func(t *twisted) {
			t.list = func(ctx context.Context, prefix string) leases {
				n := 0
				return only(t.whole.List(ctx, prefix), func(string) bool { n++; return n <= 100 })
			}
		}, once),
		broken("list_repeats_the_end_of_a_page", func(t *twisted) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					n := 0
					for l, err := range t.whole.List(ctx, prefix) {
						if n++; !yield(l, err) || n%100 == 0 && !yield(l, err) {
							return
						}
					}
				}
			}
		}, once),
		broken("list_counts_its_way_through_changes", func(t *twisted) { t.list = byOffset(t.whole) }, "list_under_change_yields_once_what_stays"),
		broken("list_loses_the_neighbour_of_a_change", func(t *twisted) { t.list = beside(t.whole) }, "list_under_change_yields_once_what_stays"),
		broken("list_holds_the_store", func(t *twisted) {
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
					for l, err := range t.whole.List(ctx, prefix) {
						if !yield(l, err) {
							return
						}
					}
					<-conn
				}
			}
		}, "a_list_may_be_broken_off"),
		broken("list_fails_twice", func(t *twisted) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					for l, err := range t.whole.List(ctx, prefix) {
						if !yield(l, err) || err != nil && !yield(l, err) {
							return
						}
					}
				}
			}
		}, ends),
		broken("list_blames_a_register_for_its_end", func(t *twisted) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					for l, err := range t.whole.List(ctx, prefix) {
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
		broken("list_of_a_closed_store_is_empty", func(t *twisted) {
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					for l, err := range t.whole.List(ctx, prefix) {
						if errors.Is(err, driver.ErrClosed) || !yield(l, err) {
							return
						}
					}
				}
			}
		}, ends),
		broken("list_is_behind", func(t *twisted) {
			var last []driver.Record
			t.list = func(ctx context.Context, prefix string) leases {
				return func(yield func(driver.Record, error) bool) {
					stale := last
					last = nil
					for l := range t.whole.List(ctx, prefix) {
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

// byOffset lists page by page, latest change first, and counts what it has had: a change moves the rest down.
func byOffset(s whole) func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
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

// beside lists by name, and misses what comes just before a register that changes meanwhile.
func beside(s whole) func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
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

// hub is a push of its own making, shared by the clients of a store.
type hub struct {
	mu    sync.Mutex
	chans []chan driver.Record
}

func (h *hub) add(n int) chan driver.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan driver.Record, n)
	h.chans = append(h.chans, c)
	return c
}

// brokenExtras get the optional interfaces wrong, or leave something behind.
func brokenExtras(t *testing.T) []mutant {
	const hands, told = "a_change_of_hands_wakes", "a_record_that_a_hint_brings_is_the_change_and_all_of_it"
	const named = "a_hint_names_what_is_below_its_prefix_and_was_written"
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })
	return append(brokenBatches(), []mutant{
		broken("nobody_is_ever_woken", func(t *twisted) {
			t.wake = func(context.Context, string) <-chan driver.Record { return make(chan driver.Record, 1) }
		}, hands),
		broken("releases_wake_nobody", func(t *twisted) {
			wake := make(chan driver.Record, 1)
			t.wake = func(context.Context, string) <-chan driver.Record { return wake }
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				if !l.Vacant() {
					driver.Hint(wake, driver.Record{})
				}
				return t.whole.Swap(ctx, l)
			}
		}, hands),
		{"renewals_wake", []string{"renewals_wake_nobody"}, func() Open {
			var h hub
			return twist(func(t *twisted) {
				t.wake = func(context.Context, string) <-chan driver.Record { return h.add(1) }
				t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
					h.mu.Lock()
					defer h.mu.Unlock()
					for _, c := range h.chans {
						driver.Hint(c, driver.Record{})
					}
					return t.whole.Swap(ctx, l)
				}
			})
		}},
		{"a_full_channel_of_hints_blocks_the_writer", []string{"hints_that_nobody_takes_hold_up_nobody"}, func() Open {
			var h hub
			return twist(func(t *twisted) {
				t.wake = func(context.Context, string) <-chan driver.Record { return h.add(1) }
				t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
					h.mu.Lock()
					defer h.mu.Unlock()
					for _, c := range h.chans {
						select {
						case c <- driver.Record{}:
						case <-ctx.Done():
						}
					}
					return t.whole.Swap(ctx, l)
				}
			})
		}},
		broken("a_record_is_told_at_another_revision", func(t *twisted) {
			t.wake = func(ctx context.Context, prefix string) <-chan driver.Record {
				return passedOn(ctx, t.whole.Wake(ctx, prefix), func(out chan driver.Record, l driver.Record) {
					l.Rev += "1"
					driver.Hint(out, l)
				})
			}
		}, told, named),
		reworded("a_hint_names_another_register", func(driver.Record) driver.Record {
			return driver.Record{Name: "other"}
		}, told, named),
		reworded("a_hint_names_a_register_beside_its_prefix", func(l driver.Record) driver.Record {
			l.Name = strings.TrimSuffix(l.Name, "/1")
			return l
		}, named),
		reworded("a_hint_brings_half_a_record", func(l driver.Record) driver.Record {
			return driver.Record{Name: l.Name, Rev: l.Rev}
		}, told, named),
		reworded("a_hint_with_a_name_carries_a_holder", func(l driver.Record) driver.Record {
			return driver.Record{Name: l.Name, Holder: l.Holder, Nonce: 1}
		}, named),
		reworded("a_hint_has_a_revision_and_no_name", func(l driver.Record) driver.Record {
			return driver.Record{Rev: l.Rev}
		}, told, named),
		{"of_two_records_one_is_told", []string{told}, func() Open {
			var h hub
			return twist(func(t *twisted) {
				t.wake = func(context.Context, string) <-chan driver.Record { return h.add(1) }
				t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
					h.mu.Lock()
					defer h.mu.Unlock()
					l, err := t.whole.Swap(ctx, l)
					for _, c := range h.chans {
						select {
						case c <- l:
						default:
						}
					}
					return l, err
				}
			})
		}},
		broken("prefixes_are_folders", func(t *twisted) {
			t.wake = func(ctx context.Context, prefix string) <-chan driver.Record {
				return t.whole.Wake(ctx, strings.TrimRight(prefix, "/")+"/")
			}
		}, "a_hint_reaches_every_prefix_that_covers_it"),
		broken("the_channel_of_hints_is_closed", func(t *twisted) {
			t.wake = func(ctx context.Context, prefix string) <-chan driver.Record {
				in, out := t.whole.Wake(ctx, prefix), make(chan driver.Record, 1)
				go func() {
					defer close(out)
					for {
						select {
						case l := <-in:
							out <- l
						case <-ctx.Done():
							return
						}
					}
				}()
				return out
			}
		}, "a_wake_ends_with_its_context_alone"),
		broken("the_living_are_gone", func(t *twisted) { t.gone = true }, "a_live_process_is_not_gone"),
		broken("wakes_never_end", func(t *twisted) {
			t.wake = func(ctx context.Context, prefix string) <-chan driver.Record {
				go func() { <-quit }()
				return t.whole.Wake(ctx, prefix)
			}
		}, "nothing_is_left_running"),
		broken("clients_never_end", func(t *twisted) { go func() { <-quit }() }, "nothing_is_left_running"),
	}...)
}

// passedOn sends hints on to another channel, each by send.
func passedOn(ctx context.Context, in <-chan driver.Record, send func(out chan driver.Record, l driver.Record)) <-chan driver.Record {
	out := make(chan driver.Record, 1)
	go func() {
		for {
			select {
			case l := <-in:
				send(out, l)
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// reworded makes a store that sends other hints than it should.
func reworded(name string, how func(driver.Record) driver.Record, caught ...string) mutant {
	return broken(name, func(t *twisted) {
		t.wake = func(ctx context.Context, prefix string) <-chan driver.Record {
			return passedOn(ctx, t.whole.Wake(ctx, prefix), func(out chan driver.Record, l driver.Record) {
				driver.Hint(out, how(l))
			})
		}
	}, caught...)
}

// brokenBatches get SwapAll wrong.
func brokenBatches() []mutant {
	type outcomes = []driver.Outcome
	batch := func(name string, how func(ctx context.Context, s whole, ls []driver.Record) outcomes, caught ...string) mutant {
		return broken(name, func(t *twisted) {
			t.swapAll = func(ctx context.Context, ls []driver.Record) outcomes { return how(ctx, t.whole, ls) }
		}, caught...)
	}
	return []mutant{
		batch("a_batch_fails_as_one", func(ctx context.Context, s whole, ls []driver.Record) outcomes {
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
		batch("a_batch_is_cut_at_500", func(ctx context.Context, s whole, ls []driver.Record) outcomes {
			return append(s.SwapAll(ctx, ls[:min(len(ls), 500)]), make(outcomes, max(len(ls)-500, 0))...)
		}, "a_batch_may_hold_1000_swaps"),
		batch("the_last_of_a_batch_wins", func(ctx context.Context, s whole, ls []driver.Record) outcomes {
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
		batch("a_batch_compares_first_and_writes_then", func(ctx context.Context, s whole, ls []driver.Record) outcomes {
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
