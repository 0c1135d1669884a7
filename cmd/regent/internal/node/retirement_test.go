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

func TestRetirement(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"the_leader_removes_registers_that_nobody_uses": time.Hour,
		"0s_keeps_all_of_them":                          0,
	} {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) {
				store := memstore.New()
				unused := driver.Record{Name: "unused", Epoch: 7, Nonce: 1, Duration: time.Second}
				if _, err := store.Swap(t.Context(), unused); err != nil {
					t.Fatal(err)
				}

				_, stop := start(t, "a", opens(store), func(o *node.Options) { o.Coordination.RetireAfter = after })
				time.Sleep(3 * time.Hour)
				_, err := store.Get(t.Context(), "unused")
				if removed := errors.Is(err, driver.ErrNotFound); removed != (after > 0) {
					t.Errorf("removed: %v (%v)", removed, err)
				}
				stop()
			})
		})
	}
}

// A store that is wrapped says what the store below it can do.
func TestRemoveOfAWrappedStore(t *testing.T) {
	open := func(context.Context) (driver.Store, error) { return struct{ driver.Store }{memstore.New()}, nil }
	s := node.NewStore(open)
	s.Begin()
	if err := s.Run(t.Context(), func(error) {}); err != nil {
		t.Fatal(err)
	}
	err := s.Remove(t.Context(), driver.Record{Name: "x", Rev: "1"})
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, driver.ErrConflict) {
		t.Error(err)
	}
}
