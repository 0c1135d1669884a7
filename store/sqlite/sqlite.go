// Package sqlite stores Regent's registers in one SQLite file, for any number of processes on one host.
//
// What it assumes:
//   - One host and a local file system. WAL needs memory that all processes share, so Open refuses a network file
//     system on Linux; on other systems there is no check.
//   - fsync returns only when the disk has the data. Every commit waits for it (synchronous=FULL).
//   - Nobody opens and closes the database file in this process except through SQLite: POSIX would drop SQLite's locks.
//   - The file's user_version is Regent's. Your own tables may be in the same file, but not a migration tool that uses
//     user_version.
//
// What it does not guarantee:
//   - Progress while a process is stopped (SIGSTOP, a frozen container) in the middle of a commit: it keeps the write
//     lock, and nobody can write until it continues or dies. Its lease expires, but nobody can claim it.
//   - A read that returns when its context ends: a read waits for the disk. A write returns, with an unknown outcome.
//   - Protection from an older copy that is restored into the live file: registers show their old records. No revision
//     is used twice, even then.
//   - Proof of the death of a process of another boot or other namespaces: see [Store.Gone].
//   - Notifications and proof of death on systems other than Linux. There Wake notifies only of changes through the
//     same Store, and everything else is found by polling.
//
// docs/STORES.md explains more.
//
// The shortest program:
//
//	store, err := sqlite.Open(ctx, filepath.Join(dir, "regent.db"), sqlite.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The registers, in the sqlite3 shell:
//
//	SELECT name, record->>'holder', record->>'epoch', writer FROM regent_lease;
//
// Beside the file are SQLite's own side files (-wal, -shm) and an empty one (-wake), which a process opens and closes
// to notify the others.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/regentd/regent/driver"
	modernc "modernc.org/sqlite"
)

// Options configures a [Store]. The zero value is usable.
type Options struct {
	// NoWitness keeps this process's pid out of the records that it writes, so that its death proves nothing to others.
	// Set it if duties are processes of their own, which may outlive this one.
	NoWitness bool
}

// Store is a store in a SQLite file. It implements [driver.Store], [driver.Notifier], [driver.Batcher],
// [driver.Refresher], [driver.Remover] and [driver.Witness].
type Store struct {
	path   string      // absolute, without symbolic links
	file   fs.FileInfo // the file as it was opened
	writer string      // this process in the records that it writes; empty with NoWitness
	self   process     // this process; zero if the host does not support it

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
	spare    []*request // the previous queue, to be used again
	known    map[string]known
	requests sync.Pool   // of *request for one swap
	blocked  atomic.Bool // drain waits for a lock of another process

	w          *writeConn // used by drain, after that by Close
	revs       revisions  // used by drain
	notifier   notifier
	goroutines sync.WaitGroup // drain and listen
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Notifier  = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
	_ driver.Witness   = (*Store)(nil)
)

// schemaVersion is the value of user_version. In version 1 a revision was a counter, which repeated after a restore.
const schemaVersion = 2

// schema is the schema of a new database. rev changes with every write of its row, and never repeats: see revisions.
// moved increases over the whole table with every notable change: it shows a notified process what has changed, and has
// an index because a renewal does not change it. writer is the process that wrote the current nonce, if the record is
// held. record is last, so that a comparison of revisions need not read it.
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

// migrate brings a database of version 1 to the current one. It creates the table again instead of altering it, so that
// there is only one schema.
const migrate = `
CREATE TEMP TABLE regent_former AS SELECT name, rev, moved, writer, record FROM regent_lease;
DROP TABLE regent_lease;` + schema + `
INSERT INTO regent_lease (name, rev, moved, writer, record) SELECT name, rev, moved, writer, record FROM regent_former;
DROP TABLE temp.regent_former;`

// Open opens the database at path, or creates it, readable and writable only by its owner. The directory must exist. If
// existing files can be read by others, see [Store.Warnings].
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
		return nil, fmt.Errorf("open store %q: %w", path, explain(real, err))
	}

	if err := retry(ctx, func() error { return prepareFile(ctx, real) }); err != nil {
		return nil, fmt.Errorf("open store %q: %w", path, explain(real, err))
	}

	if err := s.connect(ctx); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("open store %q: %w", path, explain(real, err))
	}

	s.warnings = exposedFiles(real)
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
		if s.get, err = s.readers.PrepareContext(ctx,
			`SELECT rev, writer, record FROM regent_lease WHERE name = ?`); err != nil {
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

	err = retry(ctx, func() error {
		s.w, err = openWriter(s.path)
		return err
	})
	if err != nil {
		return err
	}

	if s.file, err = os.Stat(s.path); err != nil {
		return err
	}
	return createWakeFile(s.path+wakeSuffix, s.file)
}

// checkFile returns an error if the store is closed, or if the file was removed or replaced: SQLite would go on in the
// old file, while other processes use the new one.
func (s *Store) checkFile() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()

	if closed {
		return driver.ErrClosed
	}

	if same, err := isFile(s.path, s.file); !same {
		if err == nil {
			err = fs.ErrNotExist
		}
		return driver.Refused(fmt.Errorf("%s was removed or replaced while open: restart the processes that use it: %w",
			s.path, err))
	}
	return nil
}

// Close implements [driver.Store]. It waits for a commit that is under way.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}

	s.closed = true
	s.mu.Unlock()

	s.notifier.stop()
	s.goroutines.Wait()
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
