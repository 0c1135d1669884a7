package redis

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// Swap implements [driver.Store].
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return s.swapOne(ctx, l, true)
}

func (s *Store) swapOne(ctx context.Context, l driver.Record, publish bool) (driver.Record, error) {
	if err := s.addToIndex(ctx, l); err != nil {
		return s.swapped(ctx, l, "", err)
	}

	r := s.swapRequest(l, publish)
	if publish && l.Vacant() {
		s.notifier.expectMessage(l, r.rev)
	}

	if s.addr.replicas == 0 {
		if err, ok := s.direct.eval(ctx, s.swap, r); ok && !noScript(err) {
			s.count(s.swap)
			l, err = s.swapped(ctx, l, r.rev, err)
			s.recycle(r)
			return l, err
		}

		s.direct.open()
	}

	var res rueidis.RedisResult
	if s.addr.replicas > 0 {
		res = s.evalAndWait(ctx, s.swap, l.Name, r)
	} else {
		res = s.eval(ctx, s.swap, r)
	}

	l, err := s.swapped(ctx, l, r.rev, res.Error())
	s.recycleSent(r, res)
	return l, err
}

// SwapAll implements [driver.Batcher] in one round trip. It publishes no records: thousands of them would cost more
// than they save.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, len(ls))
	if s.addr.replicas > 0 { // each waits for its replicas
		var wg sync.WaitGroup
		permits := make(chan struct{}, maxWaits)
		for i := range ls {
			permits <- struct{}{}
			wg.Go(func() {
				out[i].Record, out[i].Err = s.swapOne(ctx, ls[i], false)
				<-permits
			})
		}

		wg.Wait()
		return out
	}

	if err := s.addToIndex(ctx, ls...); err != nil {
		for i, l := range ls {
			out[i].Record, out[i].Err = s.swapped(ctx, l, "", err)
		}
		return out
	}

	rs := make([]*request, len(ls))
	for i, l := range ls {
		rs[i] = s.swapRequest(l, false)
	}

	if len(ls) > 0 {
		for i, res := range s.evalAll(ctx, s.swap, rs) {
			out[i].Record, out[i].Err = s.swapped(ctx, ls[i], rs[i].rev, res.Error())
			s.recycleSent(rs[i], res)
		}
	}

	return out
}

// swapped returns the outcome of a swap.
func (s *Store) swapped(ctx context.Context, l driver.Record, rev string, err error) (driver.Record, error) {
	switch {
	case err == nil:
		l.Rev = rev
		s.notifier.noteWrite(l)
		return l, nil
	case rueidis.IsRedisNil(err):
		return driver.Record{}, fmt.Errorf("swap %q at revision %q: %w", l.Name, l.Rev, driver.ErrConflict)
	default:
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, s.explain(ctx, err))
	}
}
