package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the probe of a server: writers race for one object, and at most one may win. Servers exist that check a
// condition and write afterwards, in two steps. They pass any sequence of requests, and fail this.

const (
	racers     = 32
	raceRounds = 3
)

// errUnsafe says that the server does not honour conditions, or not atomically.
var errUnsafe = errors.New("this server cannot keep elections: its conditional writes are not atomic")

func unsafef(format string, args ...any) error {
	return driver.Refused(fmt.Errorf("%w: %s", errUnsafe, fmt.Sprintf(format, args...)))
}

// race lets writers race for objects of its own, under both conditions. It returns a [driver.ErrRefused] if several won. That
// nobody was caught proves nothing: a server may fail only under another load. It also reports whether the condition of a
// DELETE is honoured.
func (s *Store) race(ctx context.Context) (removes bool, err error) {
	var created, replaced tally
	for round := range raceRounds {
		key := s.probeKey(fmt.Sprintf("%016x-%d", s.id, s.writes.Add(1)))
		defer s.discard(ctx, key)

		etag, err := s.compete(ctx, key, absent, &created)
		if err != nil {
			return false, err
		}
		if etag == "" {
			continue
		}
		if err := s.pause(ctx); err != nil {
			return false, err
		}
		if etag, err = s.compete(ctx, key, condition{etag}, &replaced); err != nil {
			return false, err
		}
		if round == 0 {
			if removes, err = s.probeRemoval(ctx, key, etag); err != nil {
				return false, err
			}
		}
	}

	for what, t := range map[string]tally{"If-None-Match: *": created, "If-Match": replaced} {
		if t.won == 0 || t.lost == 0 {
			return false, fmt.Errorf("the race of %d writers with %s was inconclusive: %d won, %d lost, the others failed: %w",
				racers, what, t.won, t.lost, t.err)
		}
	}
	return removes, nil
}

// tally counts how the writers of all rounds ended.
type tally struct {
	won, lost int
	err       error // of one whose outcome is not known
}

// compete lets writers race for one object under one condition. It returns the object's ETag afterwards, which is empty if
// there is none.
func (s *Store) compete(ctx context.Context, key string, if_ condition, t *tally) (string, error) {
	etags := make([]string, racers)
	errs := make([]error, racers)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range racers {
		body := fmt.Appendf(nil, `{"probe":"%016x-%d"}`, s.id, s.writes.Add(1))
		wg.Go(func() {
			<-start
			etags[i], errs[i] = s.put(ctx, key, body, if_)
		})
	}
	close(start)
	wg.Wait()
	if err := s.explain(ctx, ctx.Err()); err != nil {
		return "", err
	}

	won, lost, winner := 0, 0, ""
	for i, err := range errs {
		switch {
		case err == nil:
			won++
			winner = etags[i]
		case errors.Is(err, driver.ErrConflict):
			lost++
		case errors.Is(err, driver.ErrRefused):
			return "", s.advise(err)
		default:
			t.err = err
		}
	}
	t.won += won
	t.lost += lost

	o, err := s.get(ctx, key, "")
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		return "", s.explain(ctx, err)
	}
	switch {
	case won > 1:
		return "", unsafef("%d of %d writers won a race for one object", won, racers)
	case won == 1 && o.etag != winner:
		return "", unsafef("one of %d writers won a race for one object, but the object shows another's write", racers)
	case won == 0 && lost == racers:
		return "", unsafef("none of %d writers won a race for one object", racers)
	}
	return o.etag, nil
}

// probeRemoval reports whether the server honours the condition of a DELETE. A user who may not delete is no error.
func (s *Store) probeRemoval(ctx context.Context, key, etag string) (bool, error) {
	wrong := fmt.Sprintf("%032x", s.id) // no object has it
	err := s.remove(ctx, key, wrong)
	switch {
	case errors.Is(err, driver.ErrConflict):
	case err == nil || errors.Is(err, driver.ErrRefused):
		return false, nil
	default:
		return false, s.explain(ctx, err)
	}

	o, err := s.get(ctx, key, "")
	if err != nil || o.etag != etag {
		return false, nil // it says that it refused, and has deleted
	}
	return s.remove(ctx, key, etag) == nil, nil
}

// pause waits as long as the server wants between two writes of one object.
func (s *Store) pause(ctx context.Context) error {
	if s.addr.writeInterval == 0 {
		return nil
	}
	select {
	case <-time.After(s.addr.writeInterval):
		return nil
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	}
}

// discard deletes an object of the probe, as far as that is allowed.
func (s *Store) discard(ctx context.Context, key string) {
	if o, err := s.get(ctx, key, ""); err == nil {
		_ = s.remove(ctx, key, o.etag)
	}
}
