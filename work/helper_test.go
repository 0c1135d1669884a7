package work_test

import (
	"context"
	"sync"
	"testing"

	"github.com/regentd/regent"
)

// held is a term that a real member leads.
type held struct {
	regent.Term
	ctx  context.Context
	m    *regent.Member
	stop func()
}

// lead has a member win the seat, and keeps it until the test ends or stop is called.
func lead(t testing.TB, store regent.Store, id string, change ...func(*regent.Member)) *held {
	t.Helper()
	h := &held{m: &regent.Member{Store: store, ID: id}}
	for _, f := range change {
		f(h.m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	won, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = h.m.Lead(ctx, "seat", func(ctx context.Context, term regent.Term) error {
			h.Term, h.ctx = term, ctx
			close(won)
			<-ctx.Done()
			return nil
		})
	}()
	h.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(h.stop)
	<-won
	return h
}
