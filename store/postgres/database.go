package postgres

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// database runs statements: a pool of pgx, or a *sql.DB of any driver. Arguments are strings, booleans and numbers
// alone, which every driver sends alike.
type database interface {
	exec(ctx context.Context, text string, args ...any) error

	// queryRow returns a function that reads the only row. It returns errNoRow if there is none.
	queryRow(ctx context.Context, text string, args ...any) func(dest ...any) error

	// query calls each for every row, with a function that reads the row.
	query(ctx context.Context, each func(scan func(dest ...any) error) error, text string, args ...any) error

	// listener returns how to connect for notifications; nil if that is not known.
	listener(ctx context.Context) (*pgx.ConnConfig, error)

	// reset closes all connections, because their server accepts no writes any more.
	reset()
	close()
}

// closeLimit bounds the wait for connections that are being closed.
const closeLimit = time.Second

// warmLimit bounds the first statements of a connection, so that a server which accepts connections and then hangs does
// not use up the pool.
const warmLimit = 3 * time.Second

// warm runs the statements of a takeover on a new connection, where they find and change nothing. The first run of a
// statement takes several milliseconds: it is parsed and planned, and the server reads its catalog. A standby may
// claim for the first time after weeks, and a reaper releases once in its life.
//
// Errors mean nothing, for example if there is no table yet. Only a connection that was closed by one is not used.
func (s statements) warm(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, warmLimit)
	defer cancel()

	var a, b, c any
	_ = conn.QueryRow(ctx, s.get, "").Scan(&a, &b, &c)
	err := conn.QueryRow(ctx, s.swap, "", "", "0", "", "", "", false, "{}", "").Scan(&a, &b)
	if conn.IsClosed() {
		return err
	}
	return nil
}

// errNoRow means that a statement has returned no row.
var errNoRow = errors.New("no row")

// poolDatabase is a pool of pgx.
type poolDatabase struct {
	pool  *pgxpool.Pool
	owned bool
}

func (d *poolDatabase) exec(ctx context.Context, text string, args ...any) error {
	_, err := d.pool.Exec(ctx, text, args...)
	return err
}

func (d *poolDatabase) queryRow(ctx context.Context, text string, args ...any) func(...any) error {
	return func(dest ...any) error {
		err := d.pool.QueryRow(ctx, text, args...).Scan(dest...)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoRow
		}
		return err
	}
}

func (d *poolDatabase) query(
	ctx context.Context, each func(func(...any) error) error, text string, args ...any,
) error {
	rows, err := d.pool.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (d *poolDatabase) listener(context.Context) (*pgx.ConnConfig, error) {
	return d.pool.Config().ConnConfig, nil
}

func (d *poolDatabase) reset() { d.pool.Reset() }

// close closes the pool. A connection to a server that hangs is closed only when pgx has given up to cancel what ran
// there, which takes 15 s: nobody waits for that.
func (d *poolDatabase) close() {
	if !d.owned {
		return
	}

	closed := make(chan struct{})
	go func() {
		defer close(closed)
		d.pool.Close()
	}()
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
	}
}

// sqlDatabase is a pool of database/sql. It belongs to the program, which also closes it.
//
// Each statement has a connection of its own, because the pool would send it again if a driver reports a bad
// connection. Some do so (lib/pq) when the connection is lost after the statement was sent. If the first one was
// applied, the second one conflicts with it, and an applied swap would be reported as a conflict.
type sqlDatabase struct{ db *sql.DB }

func (d *sqlDatabase) exec(ctx context.Context, text string, args ...any) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	_, err = conn.ExecContext(ctx, text, args...)
	return err
}

func (d *sqlDatabase) queryRow(ctx context.Context, text string, args ...any) func(...any) error {
	return func(dest ...any) error {
		conn, err := d.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()

		err = conn.QueryRowContext(ctx, text, args...).Scan(dest...)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoRow
		}
		return err
	}
}

func (d *sqlDatabase) query(
	ctx context.Context, each func(func(...any) error) error, text string, args ...any,
) error {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()

	rows, err := conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// listener returns the configuration of a connection of pgx's driver.
func (d *sqlDatabase) listener(ctx context.Context) (cfg *pgx.ConnConfig, err error) {
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()

	err = conn.Raw(func(c any) error {
		if c, ok := c.(*stdlib.Conn); ok {
			cfg = c.Conn().Config()
		}
		return nil
	})
	return cfg, err
}

// reset drops the idle connections.
func (d *sqlDatabase) reset() {
	open := d.db.Stats().MaxOpenConnections
	d.db.SetMaxIdleConns(0)
	idle := 2 // the default of database/sql, which does not say what it was
	if open > 0 {
		idle = min(open, idle)
	}
	d.db.SetMaxIdleConns(idle)
}

func (d *sqlDatabase) close() {}
