// Package postgres stores Regent's registers in one table of a PostgreSQL database, 13 or later.
//
// What it assumes:
//   - One primary, which keeps what it has committed. A failover to a replica that has not received the last commits
//     loses them: docs/STORES.md says what that does, and how synchronous_standby_names prevents it.
//   - The failover manager stops or cuts off a former primary when it promotes another one. Two servers that both
//     accept writes are two stores.
//   - Nobody changes rows of the table by hand. A register that was deleted begins again with epoch 1.
//
// What it does not guarantee:
//   - Notifications through a pooler in transaction mode (PgBouncer), which drops LISTEN. The store notices that and
//     warns ([Options].OnWarning); changes are then found by polling.
//   - Progress while a transaction that called [Fence] stays open: a claim waits for it. PostgreSQL ends such a
//     transaction if its client is silent for longer than the term's lease.
//
// The shortest program:
//
//	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//
// The registers, in psql:
//
//	SELECT name, holder, epoch, written FROM regent_register;
package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/regentd/regent/driver"
)

// Options configures a [Store]. The zero value is usable.
type Options struct {
	// Table is the name of the table, with or without its schema: DefaultTable if empty. Stores with different tables
	// have nothing in common.
	Table string

	// NoCreate leaves the table to a migration of yours: see [Schema]. Otherwise it is created if it is missing, also
	// when it was dropped later.
	NoCreate bool

	// AllowMissing is for a process that reads a store which others may not have used yet: it creates no table. A store
	// without a table has no registers, until another process creates the table. Writes fail until then.
	AllowMissing bool

	// OnWarning gets what makes the store slower or less safe, one line each: commits that do not wait for the disk,
	// notifications that do not arrive. It may be called at any time, from any goroutine.
	OnWarning func(string)
}

// Store is a table of a PostgreSQL database. It implements [driver.Store], [driver.Notifier], [driver.Batcher],
// [driver.Refresher], [driver.Remover] and [driver.Counter].
type Store struct {
	db       database
	opts     Options
	table    string // quoted
	sql      statements
	location string // the server, for errors

	id   uint64        // of this Store; never reused
	revs atomic.Uint64 // how many revisions it has made
	sent driver.RequestCount

	ctx        context.Context // cancelled by Close
	cancel     context.CancelFunc
	opened     atomic.Bool
	closed     atomic.Bool
	dropped    atomic.Bool // by DropEmpty
	creating   sync.Mutex  // held while the table is created again
	goroutines sync.WaitGroup
	notifier   notifier
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Notifier  = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
	_ driver.Counter   = (*Store)(nil)
)

// Open connects to a database. The address is a URL or the key=value form of libpq, with every parameter that pgx
// knows:
//
//	postgres://[user[:password]@]host[:port][,host[:port]…]/database[?key=value&…]
//
// With several hosts the one that accepts writes is used, also after a failover. The key table is [Options].Table.
func Open(ctx context.Context, addr string, opts Options) (*Store, error) {
	cfg, opts, err := parseAddress(addr, opts)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(addr), driver.Refused(err))
	}

	if validateTable(cmp.Or(opts.Table, DefaultTable)) == nil {
		cfg.AfterConnect = newStatements(cmp.Or(opts.Table, DefaultTable)).warm
	}

	params := cfg.ConnConfig.RuntimeParams
	added := setSession(params)
	s, err := openPool(ctx, cfg, opts)
	if unsupported(err) && len(added) > 0 { // there is a pooler in between (PgBouncer)
		for _, key := range added {
			delete(params, key)
		}
		if s, err = openPool(ctx, cfg, opts); err == nil {
			s.opts.OnWarning(fmt.Sprintf("%s: a pooler does not take %s, so that a claim may wait for a transaction "+
				"under postgres.Fence for as long as its request takes; set it for the user: ALTER ROLE … SET "+
				"lock_timeout = '%s'", s.location, strings.Join(added, " and "), lockWait))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(addr), err)
	}
	return s, nil
}

// openPool opens a store with a pool of its own.
func openPool(ctx context.Context, cfg *pgxpool.Config, opts Options) (*Store, error) {
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg.Copy())
	if err != nil {
		return nil, err
	}

	db := &poolDatabase{pool: pool, owned: true}
	s, err := newStore(ctx, db, opts, describe(cfg.ConnConfig))
	if err != nil {
		db.close()
		return nil, err
	}
	return s, nil
}

// New uses a pool that the program already has. Close leaves it open. The store needs one more connection, for
// notifications, and as many of the pool as there are requests at once, so that heartbeats do not wait for the
// program's own queries: a pool of its own ([Open]) is safer.
func New(ctx context.Context, pool *pgxpool.Pool, opts Options) (*Store, error) {
	where := describe(pool.Config().ConnConfig)
	s, err := newStore(ctx, &poolDatabase{pool: pool}, opts, where)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", where, err)
	}
	return s, nil
}

// NewSQL uses a database/sql pool that the program already has, with any driver for PostgreSQL. Close leaves it open.
// Notifications need pgx's driver; with another one changes are found by polling. What [New] says of pools holds here
// too.
func NewSQL(ctx context.Context, db *sql.DB, opts Options) (*Store, error) {
	s, err := newStore(ctx, &sqlDatabase{db: db}, opts, "of a *sql.DB")
	if err != nil {
		return nil, fmt.Errorf("open store of a *sql.DB: %w", err)
	}
	return s, nil
}

func newStore(ctx context.Context, db database, opts Options, where string) (*Store, error) {
	if opts.Table == "" {
		opts.Table = DefaultTable
	}
	if err := validateTable(opts.Table); err != nil {
		return nil, driver.Refused(err)
	}
	if opts.OnWarning == nil {
		opts.OnWarning = func(string) {}
	}

	var id [8]byte
	_, _ = rand.Read(id[:]) // it never fails
	s := &Store{
		db: db, opts: opts, location: where, id: binary.LittleEndian.Uint64(id[:]),
		table: quoteTable(opts.Table), sql: newStatements(opts.Table),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.notifier.s = s

	if err := s.prepare(ctx); err != nil {
		s.cancel()
		return nil, err
	}
	s.opened.Store(true)
	return s, nil
}

// String returns the server and the database, without a password.
func (s *Store) String() string { return s.location }

// Close implements [driver.Store].
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.notifier.stop()
	s.cancel()
	s.goroutines.Wait()
	s.db.close()
	return nil
}

// Requests implements [driver.Counter]: statements by what they ask for. Many registers may share one.
func (s *Store) Requests() map[string]uint64 { return s.sent.Requests() }

// begin returns a context that also ends with Close, or an error if the store is closed.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return nil, nil, driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}

	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return both, func() { stop(); cancel() }, nil
}

// explain adds the server to an error, says what to do, and marks an error for which a retry does not help.
func (s *Store) explain(ctx context.Context, err error) error {
	switch {
	case s.closed.Load() && !errors.Is(err, driver.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrClosed, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	default:
		err = s.recreate(ctx, err)
	}
	return fmt.Errorf("%s%w", s.where(), s.advise(err))
}

// where returns the server as the beginning of an error. It is empty until the store is open: Open names the address.
func (s *Store) where() string {
	if !s.opened.Load() {
		return ""
	}
	return s.location + ": "
}

// describe returns where a connection leads to.
func describe(cfg *pgx.ConnConfig) string {
	where := fmt.Sprintf("postgres://%s:%d/%s", cfg.Host, cfg.Port, cfg.Database)
	for _, f := range cfg.Fallbacks {
		if f.Host != cfg.Host || f.Port != cfg.Port {
			where = fmt.Sprintf("postgres://%s:%d,%s:%d/%s", cfg.Host, cfg.Port, f.Host, f.Port, cfg.Database)
			break
		}
	}
	return where
}
