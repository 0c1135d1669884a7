package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/regentd/regent/driver"
	modernc "modernc.org/sqlite"
)

// withPath adds the path to an error of SQLite.
func (s *Store) withPath(err error) error {
	if code(err) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", s.path, explain(s.path, err))
}

const (
	codeBusy, codeReadOnly, codeInterrupt, codeFull, codeCantOpen, codeProtocol, codeNotADB = 5, 8, 9, 13, 14, 15, 26

	minPause, maxPause = 100 * time.Microsecond, 4 * time.Millisecond
)

// code returns SQLite's primary result code, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// busy reports whether nothing was done because another connection holds a lock. In WAL mode that happens before the
// first change, never at a commit.
func busy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeProtocol
}

// pause returns how long to wait before attempt n. It is shorter than SQLite's own millisecond, because a lock is held
// for one fsync.
func pause(n int) time.Duration {
	d := min(minPause<<min(n, 10), maxPause)
	return d/2 + rand.N(d/2)
}

func retry(ctx context.Context, f func() error) error {
	for n := 0; ; n++ {
		err := f()
		if !busy(err) {
			return err
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while another process held the lock: %w", ctx.Err(), err)
		case <-time.After(pause(n)):
		}
	}
}

// explain adds what to do to an error of SQLite, and marks the errors for which a retry does not help.
func explain(path string, err error) error {
	switch c := code(err); {
	case c == codeNotADB:
		err = fmt.Errorf("it is not a SQLite database and was not changed: use another file: %w", err)
		return driver.Refused(driver.WithProblem(driver.ProblemForeign, err))
	case c == codeReadOnly, c == codeCantOpen, errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("this user must be able to write %s and its directory: %w", path, err)
		return driver.Refused(driver.WithProblem(driver.ProblemFile, err))
	case c == codeFull:
		return driver.WithProblem(driver.ProblemFull, err)
	}
	return err
}
