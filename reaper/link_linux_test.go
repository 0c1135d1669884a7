package reaper

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

func TestLink(t *testing.T) {
	dead := held("1", 0)

	t.Run("a_store_that_cannot_be_opened_or_does_not_answer_is_opened_again", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			store := memstore.New()
			record := driver.Record{Name: "r", Holder: dead.holder(), Epoch: 1, Nonce: 1, Duration: time.Minute}
			if _, err := store.Swap(t.Context(), record); err != nil {
				t.Fatal(err)
			}

			var opened atomic.Int64
			open := func(context.Context, string) (driver.Store, error) {
				switch opened.Add(1) {
				case 1:
					return nil, errors.New("not yet")
				case 2:
					return nil, nil // a mistake of its author
				case 3:
					return store.Client("broken", memstore.Faults{Outage: true}), nil
				}
				return store.Client("works", memstore.Faults{}), nil
			}

			l := newLink(t.Context(), open, "", slog.New(slog.DiscardHandler))
			if err := l.release(t.Context(), dead); err != nil || opened.Load() != 4 {
				t.Errorf("%v after %d", err, opened.Load())
			}

			if got, err := store.Get(t.Context(), "r"); err != nil || !got.Vacant() {
				t.Errorf("%+v, %v", got, err)
			}

			l.close()
		})
	})

	t.Run("a_release_is_given_up_when_it_makes_no_sense_any_more", func(t *testing.T) {
		virtual.Test(t, func(t *testing.T) {
			broken := errors.New("broken")
			opening, stop := context.WithCancel(t.Context())
			open := func(ctx context.Context, _ string) (driver.Store, error) {
				if ctx.Err() != nil {
					return memstore.New(), nil // so that the goroutine ends
				}
				return nil, broken
			}

			l := newLink(opening, open, "", slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()

			if err := l.release(ctx, dead); !errors.Is(err, broken) || !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}

			stop()
			<-l.ready
		})
	})
}
