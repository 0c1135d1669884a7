package postgres

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// losing makes connections that lose the answer to a statement, and report a bad connection, as lib/pq does when the
// server closes a connection. A pool of database/sql then sends the statement again.
type losing struct {
	sqldriver.Connector
	next *atomic.Bool // the next answer is lost
}

func (l losing) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := l.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return losingConn{c.(*stdlib.Conn), l.next}, nil
}

type losingConn struct {
	*stdlib.Conn
	next *atomic.Bool
}

func (c losingConn) QueryContext(
	ctx context.Context, query string, args []sqldriver.NamedValue,
) (sqldriver.Rows, error) {
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err == nil && c.next.Swap(false) {
		return nil, errors.Join(rows.Close(), c.Conn.Close(), sqldriver.ErrBadConn)
	}
	return rows, err
}

// TestAnswerLostByADriver loses the answer to swaps that are applied: their outcome is unknown, and no conflict.
func TestAnswerLostByADriver(t *testing.T) {
	cfg, err := pgx.ParseConfig(shared.URL())
	if err != nil {
		t.Fatal(err)
	}
	var next atomic.Bool
	db := sql.OpenDB(losing{stdlib.GetConnector(*cfg), &next})
	defer db.Close()
	s := storetest.Opened[*Store](t)(NewSQL(t.Context(), db, Options{Table: newTable(t)}))

	lost := func(what string, l driver.Record, swap func(driver.Record) error) driver.Record {
		t.Helper()
		next.Store(true)
		if err := swap(l); err == nil || errors.Is(err, driver.ErrConflict) {
			t.Errorf("%s whose answer was lost: %v, want an unknown outcome", what, err)
		}
		got, err := s.Get(t.Context(), l.Name)
		if err != nil || got.Nonce != l.Nonce {
			t.Errorf("%s was not applied: %+v, %v", what, got, err)
		}
		return got
	}
	one := func(l driver.Record) error { _, err := s.Swap(t.Context(), l); return err }
	all := func(l driver.Record) error { return s.SwapAll(t.Context(), []driver.Record{l})[0].Err }

	l := lost("a creation", held("a", "x", 1), one)
	l.Nonce++
	l = lost("a swap", l, one)
	l.Nonce++
	lost("a swap of a batch", l, all)
}
