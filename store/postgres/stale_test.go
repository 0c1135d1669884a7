package postgres

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// staleConn is a connection in which the timeout of an earlier call may be left.
type staleConn struct {
	net.Conn
	stale *atomic.Bool
}

func (c staleConn) Read(b []byte) (int, error) {
	if c.stale.Swap(false) {
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	}
	return c.Conn.Read(b)
}

// TestStaleTimeout leaves a timeout in a connection, as pgx does if the context of a call ends while its write is slow.
// The next read is made again over another connection. A swap may have been applied, and is not.
func TestStaleTimeout(t *testing.T) {
	var stale atomic.Bool
	cfg, err := pgxpool.ParseConfig(shared.URL())
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return staleConn{c, &stale}, err
	}

	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db := sql.OpenDB(stdlib.GetConnector(*cfg.ConnConfig))
	t.Cleanup(func() { db.Close() })

	for name, s := range map[string]*Store{
		"a pool":    storetest.Opened[*Store](t)(New(t.Context(), pool, Options{Table: newTable(t)})),
		"a *sql.DB": storetest.Opened[*Store](t)(NewSQL(t.Context(), db, Options{Table: newTable(t)})),
	} {
		l, err := s.Swap(t.Context(), driver.Record{Name: "a", Epoch: 1, Nonce: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		reads := map[string]func() (int, error){
			"Get": func() (int, error) {
				_, err := s.Get(t.Context(), "a")
				return 1, err
			},
			"List": func() (n int, err error) {
				for _, err = range s.List(t.Context(), "") {
					n++
				}
				return n, err
			},
			"Refresh": func() (int, error) {
				out := s.Refresh(t.Context(), []driver.Record{{Name: "a", Rev: "before"}})
				return len(out), out[0].Err
			},
		}
		leave := func() { // in a connection that is open and idle
			if _, err := s.Get(t.Context(), "a"); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			stale.Store(true)
		}

		for read, run := range reads {
			leave()
			if n, err := run(); err != nil || n != 1 || stale.Load() {
				t.Errorf("%s of %s: %d registers, %v; the timeout was left: %v", read, name, n, err, stale.Load())
			}
		}

		leave()
		if _, err := s.Swap(t.Context(), l); err == nil || errors.Is(err, driver.ErrConflict) || stale.Load() {
			t.Errorf("a swap of %s: %v; the timeout was left: %v", name, err, stale.Load())
		}
	}
}

// TestReadsOverASlowConnect counts the attempts of a read that cannot connect in time: there is one.
func TestReadsOverASlowConnect(t *testing.T) {
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()

	_, late := pgconn.Connect(ended, shared.URL())
	var connect *pgconn.ConnectError
	if !errors.As(late, &connect) || !pgconn.Timeout(late) {
		t.Fatalf("no timeout of a connection: %v", late)
	}

	for name, c := range map[string]struct {
		err      error
		attempts int
	}{
		"a connection that was not made in time":  {late, 1},
		"a timeout that the caller did not set":   {connect.Unwrap(), 2},
		"an error that has nothing to do with it": {errors.New("other"), 1},
		"no error": {nil, 1},
	} {
		n := 0
		err := twice(t.Context(), func() error { n++; return c.err })
		if n != c.attempts || !errors.Is(err, c.err) {
			t.Errorf("%s: %d attempts, want %d; %v", name, n, c.attempts, err)
		}
	}
}
