package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/regentd/regent/driver"
)

const (
	// resultVersion changes with the race, so that an older result does not count.
	resultVersion = 1
	// resultAge is how long a result counts, by the server's clock: a server may be replaced by another version.
	resultAge = 7 * 24 * time.Hour
	// raceTime is how long another process may take for the race before this one runs it.
	raceTime = 30 * time.Second
	// maxCheckOver is the longest time over which a race is spread: it must end before another process runs its own.
	maxCheckOver = 20 * time.Second
	// firstTimeout is how long the first request may take, a new connection included.
	firstTimeout = 10 * time.Second
)

// raceResult is what the last race has shown, kept in the bucket for all who open the store.
type raceResult struct {
	Version int    `json:"version"`
	Running bool   `json:"running"`
	Passed  bool   `json:"passed"`
	By      string `json:"by"` // a random number, so that no two are equal

	etag string
	age  time.Duration
}

func (v raceResult) counts() bool { return v.Version == resultVersion && v.Passed && v.age < resultAge }

// probeKey returns a key below the prefix that no register has.
func (s *Store) probeKey(name string) string { return s.addr.prefix + "!probe/" + name + suffix }

// check makes sure that the store can be used: that requests are allowed, and that a race of writers has one winner. Of
// many processes that open the store at once, one runs the race, and the others read its result later.
func (s *Store) check(ctx context.Context, opts Options) error {
	first, cancel := context.WithTimeout(ctx, firstTimeout)
	v, err := s.readResult(first)
	cancel()
	if err != nil {
		return s.advise(err)
	}

	if opts.NoProbe {
		return nil
	}

	if v.counts() {
		return nil
	}

	if v.running(s.raceTime) {
		s.checkLater(v.etag)
		return nil
	}

	claim, err := s.writeResult(ctx, raceResult{Running: true, etag: v.etag})
	switch {
	case errors.Is(err, driver.ErrConflict):
		s.checkLater("")
		return nil
	case err != nil:
		return s.advise(err)
	}

	if s.raceStep > 0 {
		return s.judgeSlowly(ctx, claim)
	}

	return s.judge(ctx, claim, func() {})
}

// running reports whether another process seems to run the race, and has not taken longer than that may take.
func (v raceResult) running(limit time.Duration) bool {
	return v.Version == resultVersion && v.Running && v.age < limit
}

// judge runs the race and writes down what it has shown. It calls passed when the first competition has convicted
// nobody.
func (s *Store) judge(ctx context.Context, claim raceResult, passed func()) error {
	if err := s.race(ctx, passed); err != nil {
		// So that the next who opens the store does not wait for this race.
		_, _ = s.writeResult(ctx, raceResult{etag: claim.etag})
		return err
	}

	_, err := s.writeResult(ctx, raceResult{Passed: true, etag: claim.etag})
	if err != nil && !errors.Is(err, driver.ErrConflict) {
		return s.advise(err)
	}

	return nil
}

// judgeSlowly waits for the first competition of the race. The others go on in the background, since a fleet that
// starts at once must not begin with all requests of the race in one second.
func (s *Store) judgeSlowly(ctx context.Context, claim raceResult) error {
	first := make(chan error, 2)
	s.work.Go(func() {
		err := s.judge(s.ctx, claim, func() { first <- nil })
		first <- err
		switch {
		case errors.Is(err, driver.ErrRefused):
			s.refuse(err)
		case err != nil && s.ctx.Err() == nil:
			s.checkLater("")
		}
	})

	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return s.explain(ctx, ctx.Err())
	}
}

// refuse makes every request of this store fail from now on.
func (s *Store) refuse(err error) {
	err = fmt.Errorf("store %s: %w", s.addr, err)
	s.refused.Store(&err)
}

// checkLater reads the result of another process when that one has had time for its race. If there is none, one of
// those who wait runs the race. Should that fail, every request of this store is refused from then on.
//
// A race that another process began is given up if its note, with the ETag seen, is the same after that time.
func (s *Store) checkLater(seen string) {
	s.work.Go(func() {
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(s.raceTime):
			}

			done, err := s.checkAgain(&seen)
			switch {
			case err == nil && done:
				return
			case errors.Is(err, driver.ErrRefused):
				s.refuse(err)
				return
			}
		}
	})
}

// checkAgain reads the result, and runs the race if nobody else does. It returns false if there is no result yet.
func (s *Store) checkAgain(seen *string) (done bool, err error) {
	v, err := s.readResult(s.ctx)
	switch {
	case err != nil:
		return false, err
	case v.counts():
		return true, nil
	case v.Running && v.Version == resultVersion && v.etag != *seen: // by another process, since the last check
		*seen = v.etag
		return false, nil
	}

	// Of many processes that find no result one runs the race.
	claim, err := s.writeResult(s.ctx, raceResult{Running: true, etag: v.etag})
	switch {
	case errors.Is(err, driver.ErrConflict):
		return false, nil
	case err != nil:
		return false, err
	}

	err = s.judge(s.ctx, claim, func() {})
	return err == nil, err
}

func (s *Store) readResult(ctx context.Context) (raceResult, error) {
	o, err := s.get(ctx, s.probeKey("result"), "")
	if errors.Is(err, driver.ErrNotFound) {
		return raceResult{}, nil
	}

	if err != nil {
		return raceResult{}, s.explain(ctx, err)
	}

	var v raceResult
	if json.Unmarshal(o.body, &v) != nil {
		v = raceResult{} // somebody else's: it is written anew
	}

	v.etag = o.etag
	v.age = o.age
	return v, nil
}

// writeResult replaces the result that was read.
func (s *Store) writeResult(ctx context.Context, v raceResult) (raceResult, error) {
	v.Version = resultVersion
	v.By = fmt.Sprintf("%016x-%d", s.id, s.writes.Add(1))
	body, err := json.Marshal(v)
	if err != nil {
		return raceResult{}, err
	}

	v.etag, err = s.put(ctx, s.probeKey("result"), body, condition{v.etag})
	return v, s.explain(ctx, err)
}

// advise adds to an answer that access is denied what access is needed.
func (s *Store) advise(err error) error {
	if codeOf(err) != "AccessDenied" {
		return err
	}

	return fmt.Errorf("%w; Regent needs s3:GetObject and s3:PutObject on %s/%s* and s3:ListBucket on the bucket, "+
		"without which S3 denies the read of an object that does not exist", err, s.addr.bucket, s.addr.prefix)
}
