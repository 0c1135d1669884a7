package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
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

// race lets writers race for objects of its own, under both conditions. It returns a [driver.ErrRefused] if several
// won. That nobody was caught proves nothing: a server may fail only under another load. It calls passed when the first
// competition has convicted nobody.
func (s *Store) race(ctx context.Context, passed func()) error {
	if err := s.probeMissing(ctx); err != nil {
		return err
	}

	var created, replaced tally
	for round := range raceRounds {
		if round > 0 {
			if err := s.pause(ctx, s.raceStep); err != nil {
				return err
			}
		}

		key := s.probeKey(fmt.Sprintf("%016x-%d", s.id, s.writes.Add(1)))
		defer s.discard(ctx, key)

		etag, err := s.compete(ctx, key, absent, &created)
		if err != nil {
			return err
		}

		if round == 0 {
			passed()
		}

		if etag == "" {
			continue
		}

		if err := s.pause(ctx, max(s.raceStep, s.addr.writeInterval)); err != nil {
			return err
		}

		if _, err := s.compete(ctx, key, condition{etag}, &replaced); err != nil {
			return err
		}
	}

	return errors.Join(created.inconclusive("If-None-Match: *"), replaced.inconclusive("If-Match"))
}

// probeMissing makes sure that a write on the condition of an ETag creates no object: a register that somebody has
// deleted would begin anew.
func (s *Store) probeMissing(ctx context.Context) error {
	key := s.probeKey(fmt.Sprintf("%016x-%d", s.id, s.writes.Add(1)))
	_, err := s.put(ctx, key, []byte("{}"), condition{fmt.Sprintf("%032x", s.id)})
	switch {
	case err == nil:
		s.discard(ctx, key)
		return unsafef("a write with If-Match has created an object that did not exist")
	case errors.Is(err, driver.ErrRefused):
		return s.advise(err)
	case !errors.Is(err, driver.ErrConflict):
		return s.explain(ctx, err)
	}

	return nil
}

// tally counts how the writers of all rounds ended.
type tally struct {
	won, lost int
	err       error // of one whose outcome is not known
}

// inconclusive returns an error if nobody has won or nobody has lost.
func (t tally) inconclusive(condition string) error {
	if t.won > 0 && t.lost > 0 {
		return nil
	}

	return fmt.Errorf("the race of %d writers with %s showed nothing: %d won, %d lost, the others failed: %v",
		racers, condition, t.won, t.lost, t.err)
}

// compete lets writers race for one object under one condition. It returns the object's ETag afterwards, which is empty
// if there is none.
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

	won := 0
	lost := 0
	winner := ""
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

// pause waits between two competitions: as long as the server wants between two writes of one object, or so that the
// race is spread over time.
func (s *Store) pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}

	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	}
}

// discard deletes an object of the race, if this user may delete it.
func (s *Store) discard(ctx context.Context, key string) {
	s.requests.Add("delete")
	_, _ = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.addr.bucket, Key: &key})
}
