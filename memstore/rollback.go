package memstore

import (
	"cmp"
	"slices"

	"github.com/regentd/regent/driver"
)

// Change is what a rollback has done to one register.
type Change struct {
	Old driver.Record // as it was before, zero but for its Name if it was not there
	New driver.Record // as it is now, zero but for its Name if it is gone
}

// Snapshot is what the registers held at one time.
type Snapshot struct{ regs map[string]driver.Record }

// Snapshot returns what the registers hold now.
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

// Rollback puts the registers back as they were, as a restored backup does, and sends no hint.
// Registers that came later are gone. Those that come back have fresh revisions, so that a swap
// prepared before the rollback does not fit by chance. The zero Snapshot empties the store.
func (s *Store) Rollback(snap Snapshot) { s.restore(snap, false) }

// Restore is Rollback with the revisions that the registers had: what was sent before the rollback
// may fit again. Revisions that are given from now on are fresh all the same.
func (s *Store) Restore(snap Snapshot) { s.restore(snap, true) }

// Flush empties the store. Revisions go on.
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
			l.Rev = s.nextRev()
		}
		s.regs[l.Name] = &l
		c.Old.Name = l.Name
		c.New = l
		changes[l.Name] = c
	}
	s.rolled(changes)
}

// entry is a swap that can be undone: the record that it replaced.
type entry struct{ old driver.Record }

// KeepLog makes the store remember its last n swaps and removals, so that Undo can take them back. None are
// remembered unless it is called.
func (s *Store) KeepLog(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged = n
	s.log = make([]entry, 0, n)
}

// note remembers what a swap has replaced. The lock is held.
func (s *Store) note(old driver.Record) {
	if s.logged == 0 {
		return
	}
	if len(s.log) == s.logged {
		s.log = s.log[:copy(s.log, s.log[1:])]
	}
	s.log = append(s.log, entry{old})
}

// Undo takes back the last swaps of the registers that of selects, newest first, and returns how
// many it took back: as many as asked for, if the log goes back so far. A nil of selects all: the
// tail of the log of one server, which a failover loses. Each register shows the record from
// before, with the revision that it had, or is gone if there was none. No hint is sent.
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
	s.rolled(changes)
	return undone
}

// Shard returns which of n shards a register is on, by a hash of its name, as in a cluster of
// servers: one that fails over loses the tail of its own log and of no other.
func Shard(name string, n int) int { return int(fingerprint(0, name) % uint64(n)) }

// rolled tells of a rollback. The lock is held.
func (s *Store) rolled(changes map[string]Change) {
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

// sorted gives the records an order, so that a replayed rollback gives them the same revisions.
func (snap Snapshot) sorted() []driver.Record {
	ls := make([]driver.Record, 0, len(snap.regs))
	for _, l := range snap.regs {
		ls = append(ls, l)
	}
	slices.SortFunc(ls, func(a, b driver.Record) int { return cmp.Compare(a.Name, b.Name) })
	return ls
}
