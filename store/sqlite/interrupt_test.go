package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"testing"
)

// interrupted returns SQLite's error for rows that are interrupted between two of them: by the end of the context of
// another query over the same connection. As long as these rows are open, SQLite forgets no interrupt.
func interrupted(t *testing.T) (failed error) {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	const numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1000000) SELECT "
	err = conn.Raw(func(c any) error {
		query := c.(sqldriver.QueryerContext).QueryContext
		rows, err := query(context.Background(), numbers+"x FROM n", nil)
		if err != nil {
			return err
		}
		defer rows.Close()

		value := make([]sqldriver.Value, 1)
		for range 10_000 { // until a context ends after its query has begun
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			if other, err := query(ctx, numbers+"max(x) FROM n", nil); err == nil {
				_ = other.Close()
			}
			if failed = rows.Next(value); failed != nil {
				return nil
			}
		}
		return nil
	})
	if err != nil || code(failed) != codeInterrupt {
		t.Fatalf("%v, and the rows ended with %v", err, failed)
	}
	return failed
}

// TestInterruptedRead ends the context of a read while it runs: the error says that it was cancelled.
func TestInterruptedRead(t *testing.T) {
	s := open(t, t.TempDir()+"/regent.db")
	failed := interrupted(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	if err := s.read(ended, func() error { return failed }); !errors.Is(err, context.Canceled) {
		t.Errorf("a read whose context has ended failed with %v", err)
	}
	if err := s.read(t.Context(), func() error { return failed }); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a read whose context has not ended failed with %v", err)
	}
}
