package driver

import (
	"context"
	"iter"
	"time"
)

// Store is a set of named compare-and-swap registers. It is all that the protocol needs: who may write what, and when, is
// decided in package regent, never in a driver.
//
// What a driver owes:
//   - Every call is safe for concurrent use, returns soon after its context ends, and never panics on any valid name.
//   - Each register is linearizable: a Get that begins after a Swap was answered shows that Swap or a later one.
//   - A revision is never used twice for one name, neither after a restart nor for an equal record.
//   - A record is only ever replaced, unless the store is a [Remover] and is asked to remove it. A store that expires records by itself expires only those that keep themselves alive
//     (Via is empty). It reports an expired one as vacant (no Holder; Epoch, Data, Past and Paused kept; a revision of its own) and
//     refuses a Swap that would renew it.
//   - Times keep microseconds at least, all else is kept exactly.
//
// What a driver may rely on: the slices and strings in a Record are never changed in place, by either side, so that a record
// may be kept without a copy; names satisfy [ValidName]; Data is no longer than [MaxData]; a Swap that keeps the Nonce of the
// record that it replaces is an edit (it adds to Edits), and must not extend the life of the record.
type Store interface {
	// Get returns the record, or ErrNotFound if it was never written.
	Get(ctx context.Context, name string) (Record, error)

	// Swap writes l if the register's revision is still l.Rev, where an empty Rev stands for a register that was never
	// written, and returns l with its new revision. It has three outcomes: nil, the swap was applied; ErrConflict, the register has
	// moved, so that it was not and never will be; any other error, unknown: it may have been applied, or may still be.
	Swap(ctx context.Context, l Record) (Record, error)

	// List yields every register whose name begins with prefix, each at most once, in any order. It shows every swap that was
	// answered before it began; a register that changes meanwhile is shown as it was before or after. The store may be called
	// while the sequence is read. An error that comes with a Name concerns that register alone; any other error ends the
	// sequence.
	List(ctx context.Context, prefix string) iter.Seq2[Record, error]

	// Close frees what the store holds. Calls after it fail with ErrClosed; it may be called again.
	Close() error
}

// Batcher is a Store that swaps many registers at the price of one. Each swap has an outcome of its own, as if sent alone.
type Batcher interface {
	SwapAll(ctx context.Context, ls []Record) []Outcome
}

// Refresher is a Store that reads many registers at the price of one request. A leader sweeps the elections that it holds
// with it, so that a store which lost a claim is noticed: see docs/GUARANTEES.md.
type Refresher interface {
	// Refresh returns the current record of each register that known names, in the same order. If a register still has the
	// revision of the known record, that record may be returned as it is, so that an unchanged register costs no transfer
	// of its record. A register that was never written has the error ErrNotFound. One that cannot be read has an error of
	// its own, which says nothing about the others. Each read is linearizable by itself, as Get is.
	Refresh(ctx context.Context, known []Record) []Outcome
}

// Outcome is what became of one swap of a batch, or of one read of a Refresh.
type Outcome struct {
	Record Record
	Err    error
}

// Remover is a Store that can remove a register. When a register may be removed is decided in package regent (rule 13 of
// docs/ARCHITECTURE.md), never in a driver. A store without it keeps every register that was ever written.
type Remover interface {
	// Remove removes the register that l names if its revision is still l.Rev and nobody holds it. From then on the register
	// is one that was never written. It has three outcomes, as Swap has: nil, it was removed; ErrConflict, the register has moved,
	// is held or was never written, so that it was not removed and never will be by this call; any other error, unknown.
	//
	// Should the register be written again, it never gets a revision that it had before. Nobody waits for a register that
	// nobody holds, so that a removal notifies nobody.
	Remove(ctx context.Context, l Record) error
}

// Witness is a Store that can tell when the process that wrote a record has died, because it runs on the same host.
type Witness interface {
	// Gone reports that the process which wrote the current Nonce of l is proved dead by the kernel. False proves nothing.
	Gone(ctx context.Context, l Record) bool
}

// Rest is how long a register must have stayed as it is, at least, before it is removed.
const Rest = 10 * time.Minute
