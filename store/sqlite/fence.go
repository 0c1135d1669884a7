package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"

	"github.com/regentd/regent"
)

const (
	fenceTable  = `CREATE TABLE IF NOT EXISTS regent_fence (election TEXT NOT NULL PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID`
	fenceUpsert = `INSERT INTO regent_fence (election, epoch) VALUES (?, ?)
		ON CONFLICT (election) DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch >= epoch`
)

// Fence lets a transaction on any SQLite database go on only if no newer term has written there: call it first, roll back on an
// error. The transaction then holds the write lock, so that no newer term comes between. The highest epoch is kept beside your
// data, in the table regent_fence. An older epoch is refused with a [regent.StaleError].
func Fence(ctx context.Context, tx *sql.Tx, term regent.Term) error {
	election, epoch := term.Election, term.Epoch
	if epoch == 0 || epoch > math.MaxInt64 {
		return fmt.Errorf("fence %q: epoch %d is none, or too large for SQLite", election, epoch)
	}
	res, err := tx.ExecContext(ctx, fenceUpsert, election, int64(epoch))
	// The table is made on demand, not looked for first: that would be a read, and SQLite fails a transaction that reads, waits
	// for another's write and then wants to write.
	if err != nil && strings.Contains(err.Error(), "no such table") {
		if _, err = tx.ExecContext(ctx, fenceTable); err == nil {
			res, err = tx.ExecContext(ctx, fenceUpsert, election, int64(epoch))
		}
	}
	if err != nil {
		return fmt.Errorf("fence %q at epoch %d: %w", election, epoch, err)
	}
	n, err := res.RowsAffected()
	if err != nil || n == 1 {
		return err
	}
	var newest int64
	if err := tx.QueryRowContext(ctx, `SELECT epoch FROM regent_fence WHERE election = ?`, election).Scan(&newest); err != nil {
		return fmt.Errorf("fence %q at epoch %d: %w", election, epoch, err)
	}
	return fmt.Errorf("fence %q: %w", election, &regent.StaleError{Epoch: epoch, Newest: uint64(newest)})
}
