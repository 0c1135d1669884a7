package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/regentd/regent/driver"
)

// access is what became of the requests of one kind: of the reads, or of the writes. A store may take the ones and refuse the
// others.
type access struct {
	answered time.Time // when one last succeeded; zero for never
	failed   error     // the last failure since then
	since    time.Time // the first failure since then
	logged   time.Time // when a failure was last logged
	text     string    // what was logged of it
	loud     bool      // the present failure was logged
}

// quietFor is how long the same failure is not logged again, if successes come in between.
const quietFor = 10 * time.Second

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

// down returns why requests of this kind do not work, or nil if they do. A failure counts once it has lasted for the time given,
// and at once if the store says that it will not go away by itself.
func (a *access) down(now time.Time, lasting time.Duration) error {
	if a.failed != nil && (errors.Is(a.failed, driver.ErrRefused) || now.Sub(a.since) > lasting) {
		return a.failed
	}
	return nil
}

// Access is how a store takes requests of one kind.
type Access struct {
	Answered time.Time // when one last succeeded; zero for never
	Err      error     // the last failure since then
	Down     error     // the same, once it counts
}

// Seen returns what became of reads and writes. A failure counts as soon as it has lasted for the time given.
func (s *Store) Seen(lasting time.Duration) (reads, writes Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	show := func(a *access) Access { return Access{a.answered, a.failed, a.down(now, lasting)} }
	return show(&s.reads), show(&s.writes)
}

// Answered returns when the store last answered anything, and why reads fail since, if they do; a zero time if it never did.
func (s *Store) Answered() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes.answered.After(s.reads.answered) {
		return s.writes.answered, s.reads.failed
	}
	return s.reads.answered, s.reads.failed
}

// noteRead takes in the outcome of a read. A register that is not there is an answer.
func (s *Store) noteRead(err error) error {
	if errors.Is(err, driver.ErrNotFound) {
		s.note(&s.reads, "reads", nil)
	} else {
		s.note(&s.reads, "reads", err)
	}
	return err
}

// noteWrite takes in the outcome of a write. A conflict is an answer, but proves no write: a store finds it by reading.
func (s *Store) noteWrite(err error) error {
	if errors.Is(err, driver.ErrConflict) {
		s.note(&s.reads, "reads", nil)
	} else {
		s.note(&s.writes, "writes", err)
	}
	return err
}

// note takes in an outcome, and logs the first failure and the first success after it.
func (s *Store) note(a *access, kind string, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrClosed) {
		return // that was the caller
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	before := a.failed
	if err == nil {
		a.succeed(now)
	} else {
		a.fail(now, err)
	}
	if s.Log == nil {
		return
	}

	switch {
	case err == nil && before != nil && a.loud:
		a.loud = false
		s.Log.Info("store works again", "requests", kind, "after", now.Sub(a.since).Round(time.Millisecond))
	case err != nil && !a.loud && (err.Error() != a.text || now.Sub(a.logged) >= quietFor):
		a.loud, a.logged, a.text = true, now, err.Error()
		s.Log.Log(context.Background(), level(err), "store fails", "requests", kind, "error", err) // of no request in particular
	}
}

// level is how loud a failure is: one that does not go away by itself is an error.
func level(err error) slog.Level {
	if errors.Is(err, driver.ErrRefused) {
		return slog.LevelError
	}
	return slog.LevelWarn
}
