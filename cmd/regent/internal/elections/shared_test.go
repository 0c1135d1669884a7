package elections_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/elections"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// countingStore counts lists, and does something at the beginning of each.
type countingStore struct {
	*memstore.Store
	lists atomic.Int64
	first func(ctx context.Context) error
}

func (s *countingStore) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	s.lists.Add(1)
	if s.first != nil {
		if err := s.first(ctx); err != nil {
			return func(yield func(driver.Record, error) bool) { yield(driver.Record{}, err) }
		}
	}
	return s.Store.List(ctx, prefix)
}

func shared(t *testing.T, store driver.Store) *elections.Shared {
	t.Helper()
	stopping := make(chan struct{})
	t.Cleanup(func() { close(stopping) })
	return elections.NewShared(&elections.Lister{Store: store}, stopping)
}

func TestShared(t *testing.T) {
	t.Run("all_who_ask_within_a_second_get_one_list", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := &countingStore{Store: memstore.New()}
			s := shared(t, store)
			var asking sync.WaitGroup
			for range 100 {
				asking.Go(func() {
					for range 4 {
						if _, err := s.List(t.Context()); err != nil {
							t.Error(err)
						}
						time.Sleep(300 * time.Millisecond)
					}
				})
			}
			asking.Wait()
			if n := store.lists.Load(); n != 1 {
				t.Errorf("%d lists in the first second", n)
			}

			time.Sleep(time.Second)
			if _, err := s.List(t.Context()); err != nil || store.lists.Load() != 2 {
				t.Errorf("%d lists, %v", store.lists.Load(), err)
			}
		})
	})

	t.Run("a_store_that_lists_slowly_is_asked_less_often", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := &countingStore{Store: memstore.New(), first: sleep(500 * time.Millisecond)}
			s := shared(t, store)
			for began := time.Now(); time.Since(began) < 9900*time.Millisecond; time.Sleep(100 * time.Millisecond) {
				if _, err := s.List(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if n := store.lists.Load(); n != 2 {
				t.Errorf("%d lists in ten seconds, each of half a second", n)
			}
		})
	})

	t.Run("a_store_that_hangs_is_an_error_and_later_works_again", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := &countingStore{Store: memstore.New(), first: sleep(time.Hour)}
			s := shared(t, store)
			began := time.Now()
			_, err := s.List(t.Context())
			if err == nil || !strings.Contains(err.Error(), "has not listed its registers within 10s") {
				t.Error(err)
			}
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("after %v", took)
			}

			store.first = nil
			time.Sleep(10 * time.Second)
			if _, err := s.List(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("a_failure_is_forgotten_after_a_second_however_long_it_took", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			failed := errors.New("no answer")
			store := &countingStore{Store: memstore.New()}
			store.first = func(ctx context.Context) error { return errors.Join(sleep(2*time.Second)(ctx), failed) }
			s := shared(t, store)
			if _, err := s.List(t.Context()); !errors.Is(err, failed) {
				t.Error(err)
			}

			store.first = nil
			time.Sleep(time.Second)
			if _, err := s.List(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("whoever_does_not_wait_leaves_the_list_to_others", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := &countingStore{Store: memstore.New(), first: sleep(2 * time.Second)}
			s := shared(t, store)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := s.List(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			if _, err := s.List(t.Context()); err != nil || store.lists.Load() != 1 {
				t.Errorf("%d lists, %v", store.lists.Load(), err)
			}
		})
	})

	t.Run("a_driver_that_panics_is_an_error", func(t *testing.T) {
		store := &countingStore{Store: memstore.New(), first: func(context.Context) error { panic("oh") }}
		if _, err := shared(t, store).List(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked: oh") {
			t.Error(err)
		}
	})

	t.Run("a_list_ends_when_the_node_stops", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			stopping := make(chan struct{})
			store := &countingStore{Store: memstore.New(), first: sleep(time.Hour)}
			s := elections.NewShared(&elections.Lister{Store: store}, stopping)
			time.AfterFunc(time.Second, func() { close(stopping) })
			began := time.Now()
			if _, err := s.List(t.Context()); !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
}

// sleep returns a function that sleeps until its context ends.
func sleep(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
