package postgres

import "testing"

// TestWarmConnections looks at a new connection before the store has used it: the statements of a takeover are
// prepared, and their first run has left no register behind.
func TestWarmConnections(t *testing.T) {
	table := newTable(t)
	open(t, Options{Table: table}) // creates the table
	s := open(t, Options{Table: table})

	pool := s.db.(*poolDatabase).pool
	pool.Reset()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()

	for name, text := range map[string]string{"get": s.sql.get, "swap": s.sql.swap} {
		var n int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE statement = $1",
			text).Scan(&n); err != nil || n != 1 {
			t.Errorf("%s is prepared %d times, %v", name, n, err)
		}
	}

	var registers int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&registers); err != nil || registers != 0 {
		t.Errorf("%d registers, %v", registers, err)
	}
}
