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

// Fence returns an error if a newer term has written to this SQLite database, which may be any database of yours. Call
// it first in a transaction, and roll back on an error. The transaction then holds the write lock, so no newer term can
// write before it commits. If the epoch is older than the highest one seen, or equal to that of another term, the error
// is a [regent.StaleError].
//
// The highest epoch and its term are kept in the table regent_fence, which Fence creates if necessary. A table of an
// older version of Regent gets a column for the term.
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
			"if no term had this epoch, set the row to the election's current epoch", err))
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

	// The table is created when the statement fails, not checked first. A check would be a read, and SQLite fails a
	// transaction that reads, waits for another transaction's write and then wants to write.
	if missing := missingPart(err); missing != "" {
		_, err = tx.ExecContext(ctx, missing)
		if err == nil || strings.Contains(err.Error(), "duplicate column name") { // another transaction was faster
			res, err = upsert()
		}
	}

	if err != nil {
		return false, err
	}

	n, err := res.RowsAffected()
	return n == 1, err
}

// missingPart returns the statement that creates what was missing; empty if the error is another one.
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
