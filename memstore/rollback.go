package memstore

import (
	"cmp"
	"slices"

	"github.com/regentd/regent/driver"
)

// Change is the effect of a rollback on one register.
type Change struct {
	Old driver.Record // before; only its Name if it was not there
	New driver.Record // now; only its Name if it is gone
}

// Snapshot is a copy of all registers at one time.
type Snapshot struct{ regs map[string]driver.Record }

// Snapshot returns a copy of all registers.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()

	snap := Snapshot{make(map[string]driver.Record, len(s.regs))}
	for name, l := range s.regs {
		snap.regs[name] = *l
	}
	return snap
}

// Len returns the number of registers.
func (snap Snapshot) Len() int { return len(snap.regs) }

// Rollback replaces the registers by those of a snapshot, as a restored backup does, and notifies nobody. Registers
// that were written later are gone. Restored registers have new revisions, so a swap prepared before the rollback does
// not succeed by chance. The zero Snapshot empties the store.
func (s *Store) Rollback(snap Snapshot) { s.restore(snap, false) }

// Restore is Rollback with the old revisions of the registers: a swap that was sent before the rollback may succeed.
// New revisions still never repeat.
func (s *Store) Restore(snap Snapshot) { s.restore(snap, true) }

// Flush empties the store. New revisions still never repeat.
func (s *Store) Flush() { s.Rollback(Snapshot{}) }

func (s *Store) restore(snap Snapshot, keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()

	changes := map[string]Change{}
	for name, l := range s.regs {
		changes[name] = Change{Old: *l, New: driver.Record{Name: name}}
	}

	clear(s.regs)
	s.log = s.log[:0]

	for _, l := range snap.sorted() {
		c := changes[l.Name]
		if !keep {
			l.Rev = s.nextRevLocked()
		}
		s.regs[l.Name] = &l
		c.Old.Name = l.Name
		c.New = l
		changes[l.Name] = c
	}

	s.reportRollbackLocked(changes)
}

// replaced is a swap that can be undone: the record that it replaced.
type replaced struct{ old driver.Record }

// KeepLog makes the store keep its last n swaps and removals, so that Undo can undo them. By default it keeps none.
func (s *Store) KeepLog(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = n
	s.log = make([]replaced, 0, n)
}

// logLocked keeps the record that a swap has replaced.
func (s *Store) logLocked(old driver.Record) {
	if s.logged == 0 {
		return
	}
	if len(s.log) == s.logged {
		s.log = s.log[:copy(s.log, s.log[1:])]
	}
	s.log = append(s.log, replaced{old})
}

// Undo undoes the last swaps of the registers for which of returns true, newest first. It returns how many it undid:
// fewer than last if the log is shorter. A nil of selects all registers: the tail of the log of one server, which a
// failover loses. Each register shows its record from before, with its old revision, or is gone if there was none.
// Nobody is notified.
func (s *Store) Undo(last int, of func(name string) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()

	changes := map[string]Change{}
	undone := 0
	for i := len(s.log) - 1; i >= 0 && undone < last; i-- {
		old := s.log[i].old
		if of != nil && !of(old.Name) {
			continue
		}

		s.log = slices.Delete(s.log, i, i+1)
		undone++
		c, seen := changes[old.Name]
		if !seen {
			c.Old = driver.Record{Name: old.Name}
			if l := s.regs[old.Name]; l != nil {
				c.Old = *l
			}
		}

		c.New = old
		changes[old.Name] = c
		if old.Rev == "" {
			delete(s.regs, old.Name)
		} else {
			s.regs[old.Name] = &old
		}
	}

	s.reportRollbackLocked(changes)
	return undone
}

// Shard returns which of n shards a register is on, by a hash of its name, as in a cluster: a server that fails over
// loses only the tail of its own log.
func Shard(name string, n int) int { return int(fingerprint(0, name) % uint64(n)) }

// reportRollbackLocked calls OnRollback.
func (s *Store) reportRollbackLocked(changes map[string]Change) {
	if s.OnRollback == nil {
		return
	}

	all := make([]Change, 0, len(changes))
	for _, c := range changes {
		all = append(all, c)
	}

	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.New.Name, b.New.Name) })
	s.OnRollback(all)
}

// sorted returns the records sorted by name, so that a replayed rollback gives them the same revisions.
func (snap Snapshot) sorted() []driver.Record {
	ls := make([]driver.Record, 0, len(snap.regs))
	for _, l := range snap.regs {
		ls = append(ls, l)
	}
	slices.SortFunc(ls, func(a, b driver.Record) int { return cmp.Compare(a.Name, b.Name) })
	return ls
}
