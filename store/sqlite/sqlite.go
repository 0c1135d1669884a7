// Package sqlite keeps Regent's registers in one SQLite file, for any number of processes on one host.
//
// What it assumes:
//   - One host and a local file system. WAL needs memory that all processes share, so a network file system is refused, as
//     far as Linux can tell; elsewhere nobody looks.
//   - A disk that has written what fsync says it has written. Every commit waits for it (synchronous=FULL).
//   - Nobody opens and closes the database file in this process except through SQLite: POSIX would drop SQLite's locks.
//   - The file's user_version is Regent's. Tables of your own may be in the same file, but not a migration tool that counts there.
//
// What it does not guarantee:
//   - A process that is stopped (SIGSTOP, a frozen container) in the middle of a commit keeps the write lock: nobody can write
//     until it goes on or dies. Its lease runs out, but nobody can take it.
//   - A read waits for the disk, and no context interrupts that. A write does not: its caller goes, and the outcome is unknown.
//   - An older copy that is restored into the live file is a rollback: registers show what they
//     showed then. No revision comes twice, all the same.
//   - The witness proves the death of a process of the same boot and the same namespaces, and of
//     no other.
//   - Push and witness are Linux only. Elsewhere Wake tells of changes made through the same Store; everything else is polled.
//
// docs/STORES.md has more of this.
//
// The shortest program:
//
//	store, err := sqlite.Open(ctx, filepath.Join(dir, "regent.db"), sqlite.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// What is in it, told by the sqlite3 shell:
//
//	SELECT name, record->>'holder', record->>'epoch', writer FROM regent_lease;
//
// Beside the file are SQLite's own (-wal, -shm) and an empty one (-wake), which a process opens and closes to tell the others.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	modernc "modernc.org/sqlite"
)

// Options is how a Store is opened. The zero value is what most want.
type Options struct {
	// NoWitness keeps this process's pid out of the records that it writes, so that nobody takes its death for the end of what
	// it leads. Set it where duties are processes of their own, which may outlive this one.
	NoWitness bool
}

// Store is a SQLite file. It implements [driver.Store], [driver.Waker], [driver.Batcher],
// [driver.Refresher], [driver.Remover] and [driver.Witness].
type Store struct {
	path   string      // absolute, without links
	file   fs.FileInfo // the file as it was opened
	writer string      // this process, as its records name it; empty for nobody
	self   process     // this process; zero where the host cannot tell

	warnings []string // what Open found
	sent     driver.RequestCount

	readers *sql.DB
	get     *sql.Stmt
	list    *sql.Stmt
	refresh *sql.Stmt

	mu       sync.Mutex
	closed   bool
	draining bool
	queue    []*request
	spare    []*request // the queue before, to be used again
	known    map[string]known
	requests sync.Pool   // of *request for one swap
	blocked  atomic.Bool // drain waits for another process

	w    *writeConn // belongs to drain, after it to Close
	revs revisions  // belongs to drain
	push push
	work sync.WaitGroup // drain and listen
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Waker     = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
	_ driver.Witness   = (*Store)(nil)
)

// schemaVersion is in user_version. Version 1 had a number that grew by one for a revision, which
// came again after a restore.
const schemaVersion = 2

// schema: rev is another one with every write of its row, for ever: see revisions. moved grows over
// the whole table with every change of hands: it tells a woken process what has changed. It has an
// index because a renewal does not touch it. writer is the process that wrote the current nonce, if
// the record is held. record is last, since whoever compares revisions need not read it.
const schema = `
CREATE TABLE regent_lease (
	name   TEXT    NOT NULL PRIMARY KEY,
	rev    TEXT    NOT NULL,
	moved  INTEGER NOT NULL,
	writer TEXT    NOT NULL,
	record TEXT    NOT NULL
);
CREATE INDEX regent_lease_moved ON regent_lease (moved);` + staysTrigger + `
CREATE TRIGGER regent_lease_changes BEFORE UPDATE ON regent_lease WHEN new.rev = old.rev BEGIN
	SELECT raise(ABORT, 'regent: a change must be seen: set rev = hex(randomblob(16)) as well');
END;
PRAGMA user_version = 2;`

// migrate brings a database of version 1 to the present one. The table is made anew, and not
// altered, so that there is one schema and not two.
const migrate = `
CREATE TEMP TABLE regent_former AS SELECT name, rev, moved, writer, record FROM regent_lease;
DROP TABLE regent_lease;` + schema + `
INSERT INTO regent_lease (name, rev, moved, writer, record) SELECT name, rev, moved, writer, record FROM regent_former;
DROP TABLE temp.regent_former;`

// Open opens the database at path, or creates it, readable and writable by its owner alone. The directory must be there.
// See [Store.Warnings] for files that were there and that others can read.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	real, err := locate(path)
	if err != nil {
		return nil, fmt.Errorf("open store %q: %w", path, err)
	}
	s := &Store{path: real, known: map[string]known{}, revs: newRevisions()}
	if s.self, err = self(); err == nil && !opts.NoWitness {
		s.writer = s.self.String()
	}
	if err := createFile(real); err != nil {
		return nil, fmt.Errorf("open store %q: this user must be able to write %s and its directory: %w", path, real, err)
	}
	if err := retry(ctx, func() error { return prepareFile(ctx, real) }); err != nil {
		return nil, fmt.Errorf("open store %q: %w", path, explain(real, err))
	}
	if err := s.connect(ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %q: %w", path, explain(real, err))
	}
	s.warnings = exposed(real)
	return s, nil
}

func (s *Store) connect(ctx context.Context) error {
	connector, err := modernc.NewConnector(dsn(s.path, "mode=rw&_query_only=1"))
	if err != nil {
		return err
	}
	s.readers = sql.OpenDB(connector)
	s.readers.SetMaxOpenConns(readConns)
	s.readers.SetMaxIdleConns(readConns)
	err = retry(ctx, func() error {
		if s.get, err = s.readers.PrepareContext(ctx, `SELECT rev, writer, record FROM regent_lease WHERE name = ?`); err != nil {
			return err
		}
		s.list, err = s.readers.PrepareContext(ctx,
			`SELECT name, rev, writer, record FROM regent_lease WHERE name >= ? AND name < ? ORDER BY name LIMIT ?`)
		if err != nil {
			return err
		}
		s.refresh, err = s.readers.PrepareContext(ctx, refreshQuery)
		return err
	})
	if err != nil {
		return err
	}
	if err := retry(ctx, func() error { s.w, err = openWriter(s.path); return err }); err != nil {
		return err
	}
	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	return createWakeFile(s.path+wakeSuffix, s.file)
}

// usable finds out that the file was removed or replaced. SQLite would go on in the old one, alone, while others use the new.
func (s *Store) usable() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return driver.ErrClosed
	}
	if same, err := isFile(s.path, s.file); !same {
		return driver.Refused(fmt.Errorf("%s was removed or replaced while open: restart this process: %w",
			s.path, errors.Join(err, fs.ErrNotExist)))
	}
	return nil
}

// located adds the path to an error of SQLite.
func (s *Store) located(err error) error {
	if code(err) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", s.path, explain(s.path, err))
}

// Close implements [driver.Store]. It waits for a commit under way.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.push.stop()
	s.work.Wait()
	var errs []error
	for _, stmt := range []*sql.Stmt{s.get, s.list, s.refresh} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	if s.readers != nil {
		errs = append(errs, s.readers.Close())
	}
	errs = append(errs, s.w.close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close store %s: %w", s.path, err)
	}
	return nil
}

const (
	codeBusy, codeReadOnly, codeCantOpen, codeProtocol, codeNotADB = 5, 8, 14, 15, 26

	minPause, maxPause = 100 * time.Microsecond, 4 * time.Millisecond
)

// code returns SQLite's primary result code, or 0.
func code(err error) int {
	if e, ok := errors.AsType[*modernc.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// busy says that nothing was done because of somebody's lock. In WAL mode that comes before the first change, never at a commit.
func busy(err error) bool { c := code(err); return c == codeBusy || c == codeProtocol }

// pause returns how long to wait before attempt n, shorter than SQLite's own millisecond: a lock is held for one fsync.
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

// explain says what to do about an error of SQLite, and marks those that only somebody's help ends.
func explain(path string, err error) error {
	switch c := code(err); {
	case c == codeNotADB:
		return driver.Refused(fmt.Errorf("it is no SQLite database, and was left as it is: name another file: %w", err))
	case c == codeReadOnly, c == codeCantOpen, errors.Is(err, fs.ErrPermission):
		return driver.Refused(fmt.Errorf("this user must be able to write %s and its directory: %w", path, err))
	}
	return err
}
