package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// plain is a store that implements nothing beyond driver.Store.
type plain struct{ driver.Store }

// rich is a store that reads many registers with one request, and notifies.
type rich struct {
	driver.Store
	requests      int
	notifications chan driver.Record
}

func (r *rich) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	r.requests++
	out := make([]driver.Outcome, len(known))
	for i, l := range known {
		out[i].Record, out[i].Err = r.Get(ctx, l.Name)
	}
	return out
}

func (r *rich) Subscribe(context.Context, *driver.Interest) <-chan driver.Record {
	return r.notifications
}

// opened returns the store of a node that has opened s.
func opened(t *testing.T, s driver.Store) *node.Store {
	t.Helper()
	store := node.NewStore(func(context.Context) (driver.Store, error) { return s, nil })
	store.Begin()
	store.Run(t.Context(), func(err error) { t.Error(err) })
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// TestCloseEndsRequests closes a store that was never opened: nobody waits for it any longer.
func TestCloseEndsRequests(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		store := node.NewStore(func(context.Context) (driver.Store, error) { return nil, errors.New("away") })
		time.AfterFunc(time.Second, func() { _ = store.Close() })

		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := store.Get(ctx, "x")
		if took := time.Since(began); !errors.Is(err, driver.ErrClosed) || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestStore(t *testing.T) {
	registers := func(t *testing.T) *memstore.Store {
		m := memstore.New()
		for _, name := range []string{"x", "y"} {
			who := driver.Identity{ID: "a", Incarnation: name}
			record := driver.Record{Name: name, Holder: who, Epoch: 1, Nonce: 1, Duration: time.Minute}
			if _, err := m.Swap(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	known := []driver.Record{{Name: "x"}, {Name: "y"}, {Name: "missing"}}
	check := func(t *testing.T, out []driver.Outcome) {
		if len(out) != 3 || out[0].Record.Holder.Incarnation != "x" || out[1].Record.Holder.Incarnation != "y" ||
			!errors.Is(out[2].Err, driver.ErrNotFound) {
			t.Errorf("%+v", out)
		}
	}

	t.Run("many_registers_are_read_with_one_request_where_the_store_can", func(t *testing.T) {
		inner := &rich{Store: registers(t)}
		store := opened(t, inner)
		check(t, store.Refresh(t.Context(), known))
		if inner.requests != 1 {
			t.Errorf("%d requests", inner.requests)
		}
		if _, err := store.Answered(); err != nil {
			t.Errorf("a register that was never written counts as a failure: %v", err)
		}
	})

	t.Run("many_registers_are_read_one_by_one_where_it_cannot", func(t *testing.T) {
		check(t, opened(t, plain{registers(t)}).Refresh(t.Context(), known))
	})

	t.Run("a_read_of_a_store_that_is_not_open_fails_for_each_register", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, o := range node.NewStore(nil).Refresh(ctx, known) {
			if o.Err == nil {
				t.Errorf("%+v", o)
			}
		}
	})

	t.Run("a_notification_is_passed_on_unchanged", func(t *testing.T) {
		inner := &rich{Store: registers(t), notifications: make(chan driver.Record, 1)}
		notifications := opened(t, inner).Subscribe(t.Context(), driver.Prefix(""))
		if l := <-notifications; l.Name != "" {
			t.Errorf("the first notification is about %q, not about all registers", l.Name)
		}
		for _, sent := range []driver.Record{{Name: "x"}, {Name: "y", Rev: "7", Epoch: 3}, {}} {
			inner.notifications <- sent
			if got := <-notifications; got.Name != sent.Name || got.Rev != sent.Rev || got.Epoch != sent.Epoch {
				t.Errorf("%+v became %+v", sent, got)
			}
		}
	})
}

// late is a store that does not answer in time.
type late struct{ *memstore.Store }

func (late) Get(context.Context, string) (driver.Record, error) {
	return driver.Record{}, context.DeadlineExceeded
}

func (late) SwapAll(_ context.Context, ls []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(ls))
	for i := range out {
		out[i].Err = context.DeadlineExceeded
	}
	return out
}

func TestErrorsOfAStoreAreInPlainWords(t *testing.T) {
	const want = "no answer in time"
	s := opened(t, late{memstore.New()})

	_, err := s.Get(t.Context(), "x")
	if err == nil || err.Error() != want || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("get: %v", err)
	}
	for _, o := range s.SwapAll(t.Context(), []driver.Record{{Name: "x"}}) {
		if o.Err == nil || o.Err.Error() != want || !errors.Is(o.Err, context.DeadlineExceeded) {
			t.Errorf("swap: %v", o.Err)
		}
	}

	unopened := node.NewStore(func(context.Context) (driver.Store, error) { return nil, context.DeadlineExceeded })
	unopened.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = unopened.Run(ctx, func(err error) {
		cancel()
		if err.Error() != want {
			t.Errorf("open: %v", err)
		}
	})
}
