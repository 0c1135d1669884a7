package postgres

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// reign is a real term of a real member, and the table of an application beside it.
type reign struct {
	t     *testing.T
	table string
	app   string // the application's table
	store *Store
	term  regent.Term
	stop  func() // ends the member
}

// leases returns a configuration whose leases outlast a test.
func leases() regent.Config {
	cfg := regent.Lock()
	cfg.LeaseDuration = 10 * time.Minute
	return cfg
}

// lead makes a member lead the election "orders".
func lead(t *testing.T) *reign {
	t.Helper()
	r := &reign{t: t, table: newTable(t)}
	r.app = "app_" + r.table
	run(t, "CREATE TABLE "+r.app+" (epoch numeric)")
	t.Cleanup(func() { run(t, "DROP TABLE "+r.app) })

	r.store = open(t, Options{Table: r.table})
	// Nobody notifies the member: it must not end its term before the database has refused it.
	m := &regent.Member{ID: "a", Store: struct{ driver.Store }{r.store}, Config: leases()}
	terms := make(chan regent.Term, 1)
	duty := func(ctx context.Context, term regent.Term) error {
		terms <- term
		<-ctx.Done()
		return ctx.Err()
	}
	r.stop = storetest.RunMember(t, m, regent.Duty{Election: "orders", Run: duty})
	r.term = <-terms
	return r
}

// claim takes the election away, as a member would that has seen the lease expire.
func (r *reign) claim(ctx context.Context) error {
	for {
		l, err := r.store.Get(ctx, "orders")
		if err != nil {
			return err
		}
		l.Holder = driver.Identity{ID: "b", Incarnation: "B1"}
		l.Epoch++
		l.Nonce++
		if _, err = r.store.Swap(ctx, l); !errors.Is(err, driver.ErrConflict) { // the leader has just renewed it
			return err
		}
	}
}

// rows returns how many rows of the application there are.
func (r *reign) rows() (n int) {
	r.t.Helper()
	err := connect(r.t, shared.URL()).QueryRow(r.t.Context(), "SELECT count(*) FROM "+r.app).Scan(&n)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// transaction is one of pgx or of database/sql.
type transaction struct {
	fence  func(context.Context, regent.Term, string) error
	exec   func(string) error
	commit func() error
	end    func()
}

// levels are the isolation levels.
func levels() []pgx.TxIsoLevel {
	return []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}
}

// begin begins a transaction, and reads something in it, so that it has its snapshot.
func (r *reign) begin(level pgx.TxIsoLevel, useSQL bool) transaction {
	r.t.Helper()
	ctx := context.Background()
	var tx transaction
	if useSQL {
		db, err := sql.Open("pgx", shared.URL())
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { db.Close() })
		iso := map[pgx.TxIsoLevel]sql.IsolationLevel{pgx.ReadCommitted: sql.LevelReadCommitted,
			pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable}[level]
		t, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: iso})
		if err != nil {
			r.t.Fatal(err)
		}
		tx.fence = func(ctx context.Context, term regent.Term, table string) error {
			return FenceTableSQL(ctx, t, term, table)
		}
		tx.exec = func(text string) error { _, err := t.ExecContext(ctx, text); return err }
		tx.commit = t.Commit
		tx.end = func() { _ = t.Rollback() }
	} else {
		conn := connect(r.t, shared.URL())
		t, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
		if err != nil {
			r.t.Fatal(err)
		}
		tx.fence = func(ctx context.Context, term regent.Term, table string) error {
			return FenceTable(ctx, t, term, table)
		}
		tx.exec = func(text string) error { _, err := t.Exec(ctx, text); return err }
		tx.commit = func() error { return t.Commit(ctx) }
		tx.end = func() { _ = t.Rollback(ctx) }
	}

	r.t.Cleanup(tx.end)
	if err := tx.exec("SELECT count(*) FROM " + r.app); err != nil {
		r.t.Fatal(err)
	}
	return tx
}

func forEachLevel(t *testing.T, f func(t *testing.T, r *reign, level pgx.TxIsoLevel, useSQL bool)) {
	for _, level := range levels() {
		for _, useSQL := range []bool{false, true} {
			name := strings.ReplaceAll(string(level), " ", "_")
			if useSQL {
				name += "_of_database_sql"
			}
			t.Run(name, func(t *testing.T) { f(t, lead(t), level, useSQL) })
		}
	}
}

// TestFenceRefusesADeposedLeader claims the election after the old leader's transaction has begun.
func TestFenceRefusesADeposedLeader(t *testing.T) {
	forEachLevel(t, func(t *testing.T, r *reign, level pgx.TxIsoLevel, useSQL bool) {
		tx := r.begin(level, useSQL)
		if err := r.claim(t.Context()); err != nil {
			t.Fatal(err)
		}

		err := tx.fence(t.Context(), r.term, r.table)
		var stale *regent.StaleError
		switch {
		case errors.As(err, &stale) && stale.Newest == r.term.Epoch+1 && stale.NewestTerm == "B1":
		case level != pgx.ReadCommitted && code(err) == codeSerialization:
		default:
			t.Errorf("Fence of a deposed leader: %v", err)
		}
	})
}

// TestClaimWaitsForFence claims the election while the old leader's transaction is under way: it must be committed
// before the claim is.
func TestClaimWaitsForFence(t *testing.T) {
	forEachLevel(t, func(t *testing.T, r *reign, level pgx.TxIsoLevel, useSQL bool) {
		tx := r.begin(level, useSQL)
		if err := tx.fence(t.Context(), r.term, r.table); err != nil {
			t.Fatal(err)
		}
		if err := tx.exec("INSERT INTO " + r.app + " VALUES (1)"); err != nil {
			t.Fatal(err)
		}

		// It fails with an unknown outcome, never with success.
		if err := r.claim(t.Context()); code(err) != codeLocked {
			t.Fatalf("a claim during the transaction: %v, want code %s", err, codeLocked)
		}

		// A batch does not get through either, and does not wait.
		l, err := r.store.Get(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		l.Holder = driver.Identity{ID: "b", Incarnation: "B1"}
		l.Epoch++
		l.Nonce++
		if out := r.store.SwapAll(t.Context(), []driver.Record{l}); code(out[0].Err) != codeLocked {
			t.Errorf("a claim in a batch during the transaction: %v", out[0].Err)
		}

		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if err := r.claim(t.Context()); err != nil {
			t.Errorf("a claim after the transaction: %v", err)
		}
		if n := r.rows(); n != 1 {
			t.Errorf("%d rows, want the one of the leader", n)
		}
	})
}

// TestFenceLetsRenewalsPass renews and saves during a long transaction.
func TestFenceLetsRenewalsPass(t *testing.T) {
	r := lead(t)
	tx := r.begin(pgx.ReadCommitted, false)
	other := r.begin(pgx.ReadCommitted, false)
	for _, x := range []transaction{tx, other} { // two at once
		if err := x.fence(t.Context(), r.term, r.table); err != nil {
			t.Fatal(err)
		}
	}

	if err := r.term.Save(t.Context(), []byte("checkpoint")); err != nil {
		t.Errorf("a checkpoint during the transaction: %v", err)
	}
	l, err := r.store.Get(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	l.Nonce++
	if _, err := r.store.Swap(t.Context(), l); err != nil {
		t.Errorf("a renewal during the transaction: %v", err)
	}
	l, err = r.store.Get(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	l.Nonce++
	if out := r.store.SwapAll(t.Context(), []driver.Record{l}); out[0].Err != nil {
		t.Errorf("a renewal in a batch during the transaction: %v", out[0].Err)
	}
}

// TestFenceWaitsForAClaim calls Fence while a claim is not committed yet. A plain SELECT would pass.
func TestFenceWaitsForAClaim(t *testing.T) {
	r := lead(t)
	claimer := connect(t, shared.URL())
	claim, err := claimer.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim.Exec(t.Context(), "UPDATE "+r.table+" SET epoch = epoch + 1, incarnation = 'B1'"); err != nil {
		t.Fatal(err)
	}

	tx := r.begin(pgx.ReadCommitted, false)
	result := make(chan error, 1)
	go func() { result <- tx.fence(context.Background(), r.term, r.table) }()
	eventually(t, "Fence waits for a lock", func() bool {
		var n int
		row := connect(t, shared.URL()).QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity
				WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%KEY SHARE%'`,
			r.table)
		return row.Scan(&n) == nil && n == 1
	})

	if err := claim.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var stale *regent.StaleError
	if err := <-result; !errors.As(err, &stale) {
		t.Errorf("Fence after the claim: %v, want a StaleError", err)
	}
}

// TestFrozenTransaction leaves a transaction under Fence open and silent: the server ends it, so that a claim succeeds.
func TestFrozenTransaction(t *testing.T) {
	r := lead(t)
	tx := r.begin(pgx.ReadCommitted, false)
	if err := tx.fence(t.Context(), r.term, r.table); err != nil {
		t.Fatal(err)
	}

	// The lease of this term outlasts the test, so the test shortens what Fence has set.
	if err := tx.exec("SET LOCAL idle_in_transaction_session_timeout = 100"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a claim after the server has ended the silent transaction", func() bool {
		return r.claim(t.Context()) == nil
	})
	if err := tx.exec("INSERT INTO " + r.app + " VALUES (1)"); err == nil {
		t.Error("the silent transaction goes on")
	}
}

// TestFenceSetsTheTimeout reads what Fence has set in the session.
func TestFenceSetsTheTimeout(t *testing.T) {
	r := lead(t)
	for _, c := range []struct{ before, want string }{
		{"0", "lease"}, {"60000", "1min"}, {"86400000", "lease"},
	} {
		conn := connect(t, shared.URL())
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = "+c.before); err != nil {
			t.Fatal(err)
		}
		if err := FenceTable(t.Context(), tx, r.term, r.table); err != nil {
			t.Fatal(err)
		}

		var text string
		if err := tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&text); err != nil {
			t.Fatal(err)
		}
		if c.want != "lease" {
			if text != c.want {
				t.Errorf("it was %s, and is %s after Fence", c.before, text)
			}
			continue
		}
		got, err := time.ParseDuration(strings.ReplaceAll(text, "min", "m"))
		if err != nil || got <= 0 || got > leases().LeaseDuration {
			t.Errorf("it was %s, and is %s after Fence: want at most the lease", c.before, text)
		}
	}
}

// interrupted is a transaction whose client freezes after the first statement.
type interrupted struct {
	pgx.Tx
	sent int
}

func (i *interrupted) QueryRow(ctx context.Context, text string, args ...any) pgx.Row {
	if i.sent++; i.sent > 1 {
		return frozen{}
	}
	return i.Tx.QueryRow(ctx, text, args...)
}

// frozen is the answer to a statement that is never sent.
type frozen struct{}

func (frozen) Scan(...any) error { return context.DeadlineExceeded }

// TestFenceInterrupted freezes the client in the middle of Fence. The row must not be locked without the timeout that
// ends a silent transaction.
func TestFenceInterrupted(t *testing.T) {
	r := lead(t)
	tx, err := connect(t, shared.URL()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	_ = FenceTable(t.Context(), &interrupted{Tx: tx}, r.term, r.table)

	var text string
	if err := tx.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.claim(t.Context()); err == nil {
		t.Error("the first statement of Fence does not lock the row: the test tests nothing")
	}
	if text == "0" {
		t.Error("the row is locked, and nothing ends the transaction of a client that is silent")
	}
}

// TestFenceAfterTheTerm calls Fence when the term has ended.
func TestFenceAfterTheTerm(t *testing.T) {
	r := lead(t)
	r.stop()
	tx := r.begin(pgx.ReadCommitted, false)
	if err := tx.fence(t.Context(), r.term, r.table); !errors.Is(err, regent.ErrNotLeader) {
		t.Errorf("Fence after the end of the term: %v, want ErrNotLeader", err)
	}
}

// TestFenceOfAnotherStore calls Fence where the term's election is not.
func TestFenceOfAnotherStore(t *testing.T) {
	r := lead(t)
	other := newTable(t)
	open(t, Options{Table: other})
	tx := r.begin(pgx.ReadCommitted, false)
	err := tx.fence(t.Context(), r.term, other)
	if err == nil || !strings.Contains(err.Error(), "is the term of another store?") {
		t.Errorf("Fence in another table: %v", err)
	}
	if err := tx.fence(t.Context(), r.term, "no table"); err == nil {
		t.Error("a bad name of a table was accepted")
	}
}
