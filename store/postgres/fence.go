package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/regentd/regent"
)

// Fence returns nil if the term still holds its election, and keeps it so until the transaction ends: nothing that
// the transaction writes can be committed after another term has begun. Call it anywhere in the transaction, and roll
// back on an error. Do not call it after a savepoint (a nested transaction of pgx): a rollback to the savepoint gives
// up what Fence has locked, and the rest of the transaction is not fenced. The registers must be in the same database,
// in the table [DefaultTable]; see [FenceTable] for another.
//
// If another term has begun, the error is a [regent.StaleError]. If the term's lease has expired, or the election was
// released, the error is [regent.ErrNotLeader]. At the isolation levels repeatable read and serializable PostgreSQL may
// instead refuse the statement with code 40001, if the election has changed hands since the transaction began: the
// transaction must be rolled back then too.
//
// # Why it is sound
//
// Fence reads the election's row with the term's epoch and incarnation and locks it FOR KEY SHARE. A claim is an
// UPDATE that changes the epoch. Epoch and name have a unique index, so that UPDATE needs a lock that conflicts with
// FOR KEY SHARE:
//
//   - Fence comes first: the claim waits until the transaction has ended. So the transaction is committed before the
//     other term begins, or never.
//   - The claim comes first: Fence waits until it is committed, and then reads the row again. It finds another
//     epoch. That is what a plain SELECT or EXISTS does not do: it reads the row as it was, and the claim is
//     committed while the transaction goes on.
//
// Renewals and checkpoints of the leader itself do not change the epoch. They take a lock that does not conflict, so
// a long transaction does not cost the lease. Several transactions of the leader can be under way at once.
//
// # What it costs
//
// A claim waits for the transaction, also when its client is frozen or cut off. So Fence sets
// idle_in_transaction_session_timeout, for this transaction, to what is left of the lease: PostgreSQL then ends a
// transaction whose client is silent for longer. It does not bound a statement that runs: set statement_timeout or,
// from version 17 on, transaction_timeout.
func Fence(ctx context.Context, tx pgx.Tx, term regent.Term) error {
	return FenceTable(ctx, tx, term, DefaultTable)
}

// FenceTable is [Fence] for a store with another table.
func FenceTable(ctx context.Context, tx pgx.Tx, term regent.Term, table string) error {
	return fence(term, table, func(text string, args []any, dest ...any) error {
		err := tx.QueryRow(ctx, text, args...).Scan(dest...)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoRow
		}
		return err
	})
}

// FenceSQL is [Fence] for a transaction of database/sql.
func FenceSQL(ctx context.Context, tx *sql.Tx, term regent.Term) error {
	return FenceTableSQL(ctx, tx, term, DefaultTable)
}

// FenceTableSQL is [FenceSQL] for a store with another table.
func FenceTableSQL(ctx context.Context, tx *sql.Tx, term regent.Term, table string) error {
	return fence(term, table, func(text string, args []any, dest ...any) error {
		err := tx.QueryRowContext(ctx, text, args...).Scan(dest...)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoRow
		}
		return err
	})
}

// fence runs the statements of Fence. query reads one row.
func fence(term regent.Term, table string, query func(text string, args []any, dest ...any) error) error {
	token := term.Token()
	fail := func(err error) error {
		return fmt.Errorf("fence %q at epoch %d: %w", term.Election, token.Epoch, err)
	}
	if err := token.Validate(); err != nil {
		return fail(err)
	}
	if err := validateTable(table); err != nil {
		return fail(err)
	}

	left := term.Remaining()
	if left <= 0 {
		return fail(regent.ErrNotLeader)
	}

	// One statement locks the row and sets the timeout: a client that freezes between two would hold the lock for ever.
	// A timeout that is shorter, and not 0, stays.
	var ignored string
	err := query(`SELECT set_config('idle_in_transaction_session_timeout', least($4::text::int,
		coalesce(nullif((SELECT setting::int FROM pg_settings
			WHERE name = 'idle_in_transaction_session_timeout'), 0), $4::text::int))::text, true)
		FROM (SELECT FROM `+quoteTable(table)+`
			WHERE name = $1 AND epoch = $2::text::numeric AND incarnation = $3 FOR KEY SHARE) AS locked`,
		[]any{term.Election, strconv.FormatUint(token.Epoch, 10), token.Term,
			strconv.FormatInt(min(max(left.Milliseconds(), 1), math.MaxInt32), 10)}, &ignored)
	if errors.Is(err, errNoRow) {
		return fail(stale(term, token, table, query))
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// stale returns why the election's row is not the term's.
func stale(
	term regent.Term, token regent.Token, table string, query func(text string, args []any, dest ...any) error,
) error {
	var text, incarnation string
	err := query(`SELECT epoch::text, incarnation FROM `+quoteTable(table)+` WHERE name = $1`,
		[]any{term.Election}, &text, &incarnation)
	if errors.Is(err, errNoRow) {
		return fmt.Errorf("table %s has no row of it: is the term of another store?", table)
	}
	if err != nil {
		return err
	}

	epoch, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("table %s: epoch %q: %w", table, text, err)
	}

	switch {
	case epoch < token.Epoch:
		return fmt.Errorf("table %s shows epoch %d: the database has lost the claim of this term", table, epoch)
	case epoch == token.Epoch && incarnation == "":
		return fmt.Errorf("the election was released: %w", regent.ErrNotLeader)
	}
	return &regent.StaleError{Epoch: token.Epoch, Term: token.Term, Newest: epoch, NewestTerm: incarnation}
}
