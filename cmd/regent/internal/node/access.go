package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

// access is the outcome of the reads or of the writes. A store may take the ones and refuse the others. The mutex of
// the Store guards it.
type access struct {
	store    string     // the address, for the log
	requests string     // reads or writes
	answered time.Time  // when one last succeeded; zero for never
	failed   error      // the last failure since then
	since    time.Time  // the first failure since then
	logged   time.Time  // when a failure was last logged
	text     string     // of that failure
	loud     bool       // the present failure was logged
	level    slog.Level // at which it was logged: one that is worse is logged too
}

// logInterval is how long the same failure is not logged again, if requests succeed in between.
const logInterval = 10 * time.Second

func (a *access) succeed(now time.Time) {
	a.answered = now
	a.failed = nil
}

func (a *access) fail(now time.Time, err error) {
	if a.failed == nil {
		a.since = now
	}
	a.failed = err
}

// down returns the failure of the requests, or nil if they work. A failure counts after it has lasted for some time, or
// at once if the store says that it is permanent.
func (a *access) down(now time.Time, lasting time.Duration) error {
	if a.failed != nil && (errors.Is(a.failed, driver.ErrRefused) || now.Sub(a.since) > lasting) {
		return a.failed
	}

	return nil
}

// record records an outcome, and logs the first failure and the first success after it.
func (a *access) record(now time.Time, err error, log *slog.Logger) {
	failed := a.failed != nil
	if err == nil {
		a.succeed(now)
	} else {
		a.fail(now, err)
	}
	if log == nil {
		return
	}

	switch {
	case err == nil && failed && a.loud:
		a.loud = false
		log.Info("store works again", "requests", a.requests, "after", now.Sub(a.since).Round(time.Millisecond),
			"store", a.store)
	case err != nil && a.news(now, err):
		a.loud = true
		a.level = level(err)
		a.logged = now
		a.text = err.Error()
		log.Log(context.Background(), level(err), "store fails", "requests", a.requests, "error", err, "store", a.store)
	}
}

// news reports whether a failure is to be logged: it is the first one, or worse than the one that was logged.
func (a *access) news(now time.Time, err error) bool {
	if a.loud {
		return level(err) > a.level
	}
	return err.Error() != a.text || now.Sub(a.logged) >= logInterval
}

// level returns the log level of a failure: a permanent one is an error.
func level(err error) slog.Level {
	if errors.Is(err, driver.ErrRefused) {
		return slog.LevelError
	}

	return slog.LevelWarn
}

// Access is the outcome of the reads or of the writes of a store.
type Access struct {
	Answered time.Time // when one last succeeded; zero for never
	Err      error     // the last failure since then
	Down     error     // the same, if it counts
}

// Accesses returns the outcomes of reads and writes. A failure counts after it has lasted for the given time, or at
// once if it is permanent.
func (s *Store) Accesses(lasting time.Duration) (reads, writes Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	outcome := func(a *access) Access { return Access{a.answered, a.failed, a.down(now, lasting)} }
	return outcome(&s.reads), outcome(&s.writes)
}

// Answered returns when the store last answered anything, or a zero time for never, and why reads have failed since, if
// they have.
func (s *Store) Answered() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes.answered.After(s.reads.answered) {
		return s.writes.answered, s.reads.failed
	}

	return s.reads.answered, s.reads.failed
}

// recordRead records the outcome of a read, and returns it. A register that does not exist is an answer.
func (s *Store) recordRead(err error) error {
	err = plain.Error(err)
	if errors.Is(err, driver.ErrNotFound) {
		s.record(&s.reads, nil)
	} else {
		s.record(&s.reads, err)
	}

	return err
}

// recordWrite records the outcome of a write, and returns it. A conflict is an answer, but proves no write: a store
// finds it by reading.
func (s *Store) recordWrite(err error) error {
	err = plain.Error(err)
	if errors.Is(err, driver.ErrConflict) {
		s.record(&s.reads, nil)
	} else {
		s.record(&s.writes, err)
	}

	return err
}

// record records an outcome, unless the caller has ended the request.
func (s *Store) record(a *access, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrClosed) {
		return
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	a.store = s.Address
	a.record(s.now(), err, s.Log)
}
