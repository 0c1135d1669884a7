package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/regentd/regent"
)

const (
	fenceTable = `CREATE TABLE IF NOT EXISTS regent_fence
		(election TEXT NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL, term TEXT NOT NULL DEFAULT '') WITHOUT ROWID`
	fenceColumn = `ALTER TABLE regent_fence ADD COLUMN term TEXT NOT NULL DEFAULT ''`
	fenceUpsert = `INSERT INTO regent_fence (election, epoch, term) VALUES (?, ?, ?)
		ON CONFLICT (election) DO UPDATE SET epoch = excluded.epoch, term = excluded.term
		WHERE excluded.epoch > epoch OR excluded.epoch = epoch AND (term = excluded.term OR term = '')`
)

// Fence lets a transaction on any SQLite database go on only if no newer term has written there:
// call it first, roll back on an error. The transaction then holds the write lock, so that no newer
// term comes between. The highest epoch and its term are kept beside your data, in the table
// regent_fence, which is made on demand; one of the version before gets the column for the term. An
// older epoch, and another term with the same epoch, is refused with a [regent.StaleError].
func Fence(ctx context.Context, tx *sql.Tx, term regent.Term) error {
	token := term.Token()
	fail := func(err error) error { return fmt.Errorf("fence %q at epoch %d: %w", term.Election, token.Epoch, err) }
	if err := token.Validate(); err != nil {
		return fail(err)
	}

	written, err := raise(ctx, tx, term.Election, token)
	if err != nil {
		return fail(err)
	}
	if written {
		return nil
	}

	var epoch int64
	var newest regent.Token
	row := tx.QueryRowContext(ctx, `SELECT epoch, term FROM regent_fence WHERE election = ?`, term.Election)
	if err := row.Scan(&epoch, &newest.Term); err != nil {
		return fail(err)
	}
	newest.Epoch = uint64(epoch)
	if err := newest.Validate(); err != nil {
		return fail(fmt.Errorf("table regent_fence: %w; "+
			"if nobody has led in it, set the row to the election's present epoch", err))
	}
	return fmt.Errorf("fence %q: %w", term.Election,
		&regent.StaleError{Epoch: token.Epoch, Term: token.Term, Newest: newest.Epoch, NewestTerm: newest.Term})
}

// raise writes the token over an older one, and reports whether it did.
func raise(ctx context.Context, tx *sql.Tx, election string, token regent.Token) (bool, error) {
	upsert := func() (sql.Result, error) {
		return tx.ExecContext(ctx, fenceUpsert, election, int64(token.Epoch), token.Term)
	}
	res, err := upsert()

	// The table is made on demand, not looked for first: that would be a read, and SQLite fails a
	// transaction that reads, waits for another's write and then wants to write.
	if missing := missingPart(err); missing != "" {
		_, err = tx.ExecContext(ctx, missing)
		if err == nil || strings.Contains(err.Error(), "duplicate column name") { // another transaction was quicker
			res, err = upsert()
		}
	}
	if err != nil {
		return false, err
	}

	n, err := res.RowsAffected()
	return n == 1, err
}

// missingPart returns the statement that makes what an upsert has missed; empty if that was
// something else.
func missingPart(err error) string {
	switch {
	case err == nil:
		return ""
	case strings.Contains(err.Error(), "no such table"):
		return fenceTable
	case strings.Contains(err.Error(), "no column named term"):
		return fenceColumn
	default:
		return ""
	}
}
