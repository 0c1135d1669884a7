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
	// verdictVersion changes with the race, so that an older verdict does not count.
	verdictVersion = 1
	// verdictAge is how long a verdict counts, by the server's clock: a server may be replaced by another version.
	verdictAge = 7 * 24 * time.Hour
	// raceTime is how long another process may take for the race before this one runs it.
	raceTime = 30 * time.Second
)

// verdict is what the last race has shown, kept in the bucket for all who open the store.
type verdict struct {
	Version int    `json:"version"`
	Running bool   `json:"running"`
	Passed  bool   `json:"passed"`
	By      string `json:"by"` // a random number, so that no two are equal

	etag string
	age  time.Duration
}

func (v verdict) counts() bool { return v.Version == verdictVersion && v.Passed && v.age < verdictAge }

// probeKey returns a key below the prefix that no register has.
func (s *Store) probeKey(name string) string { return s.addr.prefix + "!probe/" + name + suffix }

// check makes sure that the store can be used: that requests are allowed, and that a race of writers has one winner. Of
// many processes that open the store at once, one runs the race, and the others read its verdict later.
func (s *Store) check(ctx context.Context, opts Options) error {
	v, err := s.readVerdict(ctx)
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
		s.checkLater()
		return nil
	}

	claim, err := s.writeVerdict(ctx, verdict{Running: true, etag: v.etag})
	switch {
	case errors.Is(err, driver.ErrConflict):
		s.checkLater()
		return nil
	case err != nil:
		return s.advise(err)
	}

	return s.judge(ctx, claim)
}

// running reports whether another process seems to run the race, and has not taken longer than that may take.
func (v verdict) running(limit time.Duration) bool {
	return v.Version == verdictVersion && v.Running && v.age < limit
}

// judge runs the race and writes down what it has shown.
func (s *Store) judge(ctx context.Context, claim verdict) error {
	if err := s.race(ctx); err != nil {
		// So that the next who opens the store does not wait for this race.
		_, _ = s.writeVerdict(ctx, verdict{etag: claim.etag})
		return err
	}

	_, err := s.writeVerdict(ctx, verdict{Passed: true, etag: claim.etag})
	if err != nil && !errors.Is(err, driver.ErrConflict) {
		return s.advise(err)
	}

	return nil
}

// checkLater reads the verdict of another process when that one has had time for its race. If there is none, it runs
// the race itself. Should that fail, every request of this store is refused from then on.
func (s *Store) checkLater() {
	s.work.Go(func() {
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(s.raceTime):
			}

			v, err := s.readVerdict(s.ctx)
			if err == nil && !v.counts() {
				err = s.judge(s.ctx, v)
			}

			switch {
			case err == nil:
				return
			case errors.Is(err, driver.ErrRefused):
				err = fmt.Errorf("store %s: %w", s.addr, err)
				s.refused.Store(&err)
				return
			}
		}
	})
}

func (s *Store) readVerdict(ctx context.Context) (verdict, error) {
	o, err := s.get(ctx, s.probeKey("verdict"), "")
	if errors.Is(err, driver.ErrNotFound) {
		return verdict{}, nil
	}

	if err != nil {
		return verdict{}, s.explain(ctx, err)
	}

	var v verdict
	if json.Unmarshal(o.body, &v) != nil {
		v = verdict{} // somebody else's: it is written anew
	}

	v.etag = o.etag
	v.age = o.age
	return v, nil
}

// writeVerdict replaces the verdict that was read.
func (s *Store) writeVerdict(ctx context.Context, v verdict) (verdict, error) {
	v.Version = verdictVersion
	v.By = fmt.Sprintf("%016x-%d", s.id, s.writes.Add(1))
	body, err := json.Marshal(v)
	if err != nil {
		return verdict{}, err
	}

	v.etag, err = s.put(ctx, s.probeKey("verdict"), body, condition{v.etag})
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
