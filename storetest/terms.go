package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// TwoTerms makes two members win one election in one epoch, as can happen if a store loses writes, and returns both
// terms. It is for tests of fences.
//
// The first member claims the election and loses its connection to the store. The store then loses the claim, and
// nothing else. The second member, which never saw the claim, makes the same one. save is called right before the first
// claim is sent to the store, and restore when it has been applied.
func TwoTerms(
	t testing.TB, store driver.Store, election string, save func() (restore func()),
) (first, second regent.Term) {
	t.Helper()
	lossy := &lossyStore{Store: store, election: election, save: save}

	first = win(t, lossy, "first", election)
	lossy.restore()
	second = win(t, store, "second", election)

	if first.Epoch != second.Epoch || first.Incarnation == second.Incarnation {
		t.Fatalf("the terms are %v and %v: want one epoch, and two incarnations", first.Token(), second.Token())
	}
	return first, second
}

// win makes a member win the election, and lead until the test or the lease ends.
func win(t testing.TB, store driver.Store, id, election string) regent.Term {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	won := make(chan regent.Term, 1)
	done := make(chan struct{})
	m := &regent.Member{Store: store, ID: id}
	go func() {
		defer close(done)

		_ = m.Lead(ctx, election, func(ctx context.Context, term regent.Term) error {
			select {
			case won <- term:
			default: // a later one
			}
			<-ctx.Done()
			return nil
		})
	}()

	t.Cleanup(func() {
		cancel()
		<-done
	})

	select {
	case term := <-won:
		return term
	case <-time.After(30 * time.Second):
		t.Fatalf("member %s did not win %q", id, election)
		return regent.Term{}
	}
}

// lossyStore passes requests on until one has written to the election's register, and fails all later ones.
type lossyStore struct {
	driver.Store
	election string
	save     func() (restore func())
	restore  func()
	cut      atomic.Bool
}

var errCut = errors.New("the connection was cut")

func (s *lossyStore) Get(ctx context.Context, name string) (driver.Record, error) {
	if s.cut.Load() {
		return driver.Record{}, errCut
	}
	return s.Store.Get(ctx, name)
}

func (s *lossyStore) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if s.cut.Load() {
		return driver.Record{}, errCut
	}

	if l.Name != s.election {
		return s.Store.Swap(ctx, l)
	}

	s.restore = s.save()
	got, err := s.Store.Swap(ctx, l)
	s.cut.Store(err == nil)
	return got, err
}
