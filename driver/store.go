package driver

import (
	"context"
	"iter"
	"time"
)

// Store is a set of named compare-and-swap registers. It is all that the protocol needs. Package regent decides who may
// write what, and when; a driver never does.
//
// What a driver owes:
//   - Every call is safe for concurrent use, returns soon after its context ends, and never panics on any valid name.
//   - Each register is linearizable: a Get that begins after a Swap was answered shows that Swap or a later one.
//   - A revision is never used twice for one name, neither after a restart nor for an equal record.
//   - A record is only ever replaced, unless the store is a [Remover] and is asked to remove it. A store that expires
//     records by itself expires only those that keep themselves alive (Via is empty). It reports an expired one as
//     vacant (no Holder; Epoch, Data, Past and Paused kept; a revision of its own) and refuses a Swap that would renew
//     it.
//   - Times keep at least microseconds. Everything else is kept exactly.
//
// What a driver may rely on: neither side changes slices and strings of a Record in place, so a record may be kept
// without a copy; names satisfy [ValidName]; Data is no longer than [MaxData]; a Swap that keeps the Nonce of the
// record that it replaces is an edit (it adds to Edits), and must not extend the life of the record.
type Store interface {
	// Get returns the record, or ErrNotFound if it was never written.
	Get(ctx context.Context, name string) (Record, error)

	// Swap writes l if the register's revision is still l.Rev, and returns l with its new revision. An empty Rev stands
	// for a register that was never written. Swap has three outcomes. With nil it was applied. With ErrConflict it was
	// not applied and never will be. With any other error the outcome is unknown: it may have been applied, or may
	// still be.
	Swap(ctx context.Context, l Record) (Record, error)

	// List yields every register whose name begins with prefix, each at most once, in any order. It shows every swap
	// that was answered before it began; a register that changes meanwhile is shown as it was before or after. The
	// store may be called while the sequence is read. An error with a Name concerns that register only; any other error
	// ends the sequence.
	List(ctx context.Context, prefix string) iter.Seq2[Record, error]

	// Close releases the resources of the store. Calls after it fail with ErrClosed. Close may be called again.
	Close() error
}

// Batcher is implemented by a Store that swaps many registers in one request. Each swap has its own outcome, as if it
// had been sent alone.
type Batcher interface {
	SwapAll(ctx context.Context, ls []Record) []Outcome
}

// Refresher is implemented by a Store that reads many registers in one request. A leader reads the elections that it
// holds with it, to notice a store that has lost a claim: see docs/GUARANTEES.md.
type Refresher interface {
	// Refresh returns the current record of each register in known, in the same order. If a register still has the
	// revision of the known record, that record may be returned as it is, so an unchanged register need not be
	// transferred. A register that was never written has the error ErrNotFound. A register that cannot be read has an
	// error of its own, which says nothing about the others. Each read is linearizable by itself, as Get is.
	Refresh(ctx context.Context, known []Record) []Outcome
}

// Skimmer is implemented by a Store for which it costs less to list the revisions of registers than their records.
type Skimmer interface {
	// Skim is List, except that a record may be older than its revision. Name and Rev are those of the register. All
	// else is as it was at some moment in the last age. It shows which members send heartbeats, and about what they
	// publish. Nothing may be swapped that Skim has yielded.
	Skim(ctx context.Context, prefix string, age time.Duration) iter.Seq2[Record, error]
}

// Skim skims a store, or lists it if it is no Skimmer.
func Skim(ctx context.Context, s Store, prefix string, age time.Duration) iter.Seq2[Record, error] {
	if skimmer, ok := s.(Skimmer); ok {
		return skimmer.Skim(ctx, prefix, age)
	}

	return s.List(ctx, prefix)
}

// Ranger is implemented by a Store for which it costs less to list some registers than all.
type Ranger interface {
	// ListBefore is List, except that it may leave out registers whose names are not smaller than before.
	ListBefore(ctx context.Context, prefix, before string) iter.Seq2[Record, error]
}

// ListBefore lists the registers of a store whose names are smaller than before, and maybe others. If before is empty,
// it lists all of them.
func ListBefore(ctx context.Context, s Store, prefix, before string) iter.Seq2[Record, error] {
	if ranger, ok := s.(Ranger); ok && before != "" {
		return ranger.ListBefore(ctx, prefix, before)
	}

	return s.List(ctx, prefix)
}

// SkimAge returns how old the record of a member may be to whoever lists that many members again and again. So all
// these records together cost about as much, however many they are.
func SkimAge(members int) time.Duration {
	return max(3*time.Minute, time.Duration(min(members, 1<<20))*900*time.Millisecond)
}

// Outcome is the result of one swap of a batch, or of one read of a Refresh.
type Outcome struct {
	Record Record
	Err    error
}

// Remover is implemented by a Store that can remove a register. Package regent decides when a register may be removed
// (rule 13 of docs/ARCHITECTURE.md). A store without it keeps every register that was ever written.
type Remover interface {
	// Remove removes the register that l names if its revision is still l.Rev and nobody holds it. From then on it
	// counts as never written. Remove has three outcomes, as Swap has. With nil it was removed. With ErrConflict the
	// register has another revision, is held or was never written, and this call will never remove it. With any other
	// error the outcome is unknown.
	//
	// If the register is written again, it never gets a revision that it had before. A removal notifies nobody, because
	// nobody waits for a vacant register.
	Remove(ctx context.Context, l Record) error
}

// Witness is implemented by a Store that can prove that the process which wrote a record has died, because it runs on
// the same host.
type Witness interface {
	// Gone reports whether the kernel has proved that the process which wrote the current Nonce of l is dead. False
	// proves nothing.
	Gone(ctx context.Context, l Record) bool
}

// Rest is how long a register must stay unchanged, at least, before it is removed.
const Rest = 10 * time.Minute
