package storetest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/regentd/regent/driver"
)

// hub holds the channels of a store's subscriptions, which all its clients share.
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

// ownNotifications makes a store that sends its notifications itself: notify gets each channel at every swap, before
// the swap or after it.
func ownNotifications(after bool, notify func(ctx context.Context, c chan driver.Record, l driver.Record)) Open {
	var h hub
	return breakStore(func(t *brokenStore) {
		t.subscribe = func(context.Context, *driver.Interest) <-chan driver.Record { return h.add(1) }
		t.swap = func(ctx context.Context, l driver.Record) (got driver.Record, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()

			if after {
				if l, err = t.fullStore.Swap(ctx, l); err != nil {
					return l, err
				}
			}
			for _, c := range h.chans {
				notify(ctx, c, l)
			}
			if after {
				return l, nil
			}
			return t.fullStore.Swap(ctx, l)
		}
	})
}

// brokenExtras are stores with faulty optional interfaces, or with leaks.
func brokenExtras(t *testing.T) []mutant {
	const hands, whole = "a_change_of_holder_notifies", "a_record_in_a_notification_is_the_whole_change"
	const named = "a_notification_names_a_written_register_below_its_prefix"
	quit := make(chan struct{})
	t.Cleanup(func() { close(quit) })

	return append(brokenBatches(), []mutant{
		broken("nobody_is_ever_woken", func(t *brokenStore) {
			t.subscribe = func(context.Context, *driver.Interest) <-chan driver.Record {
				return make(chan driver.Record, 1)
			}
		}, hands),
		broken("releases_wake_nobody", func(t *brokenStore) {
			wake := make(chan driver.Record, 1)
			t.subscribe = func(context.Context, *driver.Interest) <-chan driver.Record { return wake }
			t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
				if !l.Vacant() {
					driver.Notify(wake, driver.Record{})
				}
				return t.fullStore.Swap(ctx, l)
			}
		}, hands),
		{"renewals_notify", []string{"renewals_notify_nobody"}, func() Open {
			return ownNotifications(false, func(_ context.Context, c chan driver.Record, _ driver.Record) {
				driver.Notify(c, driver.Record{})
			})
		}},
		{"a_full_channel_of_notices_blocks_the_writer", []string{"notifications_that_nobody_takes_block_nobody"},
			func() Open {
				return ownNotifications(false, func(ctx context.Context, c chan driver.Record, _ driver.Record) {
					select {
					case c <- driver.Record{}:
					case <-ctx.Done():
					}
				})
			}},
		broken("a_record_is_sent_with_another_revision", func(t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				return passedOn(ctx, t.fullStore.Subscribe(ctx, to), func(out chan driver.Record, l driver.Record) {
					l.Rev += "1"
					driver.Notify(out, l)
				})
			}
		}, whole, named),
		reworded("a_hint_names_another_register", func(driver.Record) driver.Record {
			return driver.Record{Name: "other"}
		}, whole, named),
		reworded("a_hint_names_a_register_beside_its_prefix", func(l driver.Record) driver.Record {
			l.Name = strings.TrimSuffix(l.Name, "/1")
			return l
		}, named),
		reworded("a_notification_carries_half_a_record", func(l driver.Record) driver.Record {
			return driver.Record{Name: l.Name, Rev: l.Rev}
		}, whole, named),
		reworded("a_hint_with_a_name_carries_a_holder", func(l driver.Record) driver.Record {
			return driver.Record{Name: l.Name, Holder: l.Holder, Nonce: 1}
		}, named),
		reworded("a_hint_has_a_revision_and_no_name", func(l driver.Record) driver.Record {
			return driver.Record{Rev: l.Rev}
		}, whole, named),
		{"of_two_records_one_is_sent", []string{whole}, func() Open {
			return ownNotifications(true, func(_ context.Context, c chan driver.Record, l driver.Record) {
				select {
				case c <- l:
				default:
				}
			})
		}},
		broken("prefixes_are_folders", func(t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				return t.fullStore.Subscribe(ctx, folders(to))
			}
		}, "a_notification_reaches_every_prefix_of_its_name"),
		broken("the_channel_of_notices_is_closed", func(t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				in, out := t.fullStore.Subscribe(ctx, to), make(chan driver.Record, 1)
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
		}, "a_subscription_ends_with_its_context_only"),
		broken("the_living_are_gone", func(t *brokenStore) { t.gone = true }, "a_live_process_is_not_gone"),
		broken("wakes_never_end", func(t *brokenStore) {
			t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
				go func() { <-quit }()
				return t.fullStore.Subscribe(ctx, to)
			}
		}, "nothing_is_left_running"),
		broken("clients_never_end", func(t *brokenStore) { go func() { <-quit }() }, "nothing_is_left_running"),
	}...)
}

// folders returns an Interest in the folder that a prefix names.
func folders(to *driver.Interest) *driver.Interest {
	return driver.Prefix(strings.TrimRight(strings.TrimSuffix(to.String(), "*"), "/") + "/")
}

// passedOn forwards notifications to another channel with send.
func passedOn(
	ctx context.Context, in <-chan driver.Record, send func(out chan driver.Record, l driver.Record),
) <-chan driver.Record {
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

// reworded makes a store that sends wrong notifications.
func reworded(name string, how func(driver.Record) driver.Record, caught ...string) mutant {
	return broken(name, func(t *brokenStore) {
		t.subscribe = func(ctx context.Context, to *driver.Interest) <-chan driver.Record {
			return passedOn(ctx, t.fullStore.Subscribe(ctx, to), func(out chan driver.Record, l driver.Record) {
				driver.Notify(out, how(l))
			})
		}
	}, caught...)
}
