package explore

import (
	"strconv"
	"strings"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// store is a set of registers. A register never gets a revision twice, not even after it has gone back.
type store struct {
	names   []string // of all registers that a run may use; shared by all worlds of a run
	records []driver.Record
	undo    []change // the newest writes, oldest first: what the store may lose
}

// change is one write, by what was there before.
type change struct {
	register int
	before   driver.Record
}

func (s *store) clone() store {
	c := *s
	c.records = append([]driver.Record(nil), s.records...)
	c.undo = append([]change(nil), s.undo...)
	return c
}

func (s *store) index(name string) int {
	for i, n := range s.names {
		if n == name {
			return i
		}
	}

	return -1
}

// read lets a read or a list reach the store.
func (s *store) read(m *message) {
	switch m.verb {
	case core.Get:
		m.got, m.outcome = s.get(m.record.Name)
		return
	case core.Named:
		m.got, m.outcome = s.named(m.record.Name)
		return
	}

	m.outcome = core.Done
	for _, r := range s.records {
		if strings.HasPrefix(r.Name, m.record.Name) && r.Rev != "" {
			m.list = append(m.list, r)
		}
	}

	m.list, m.partial = m.seek.End(m.list)
}

func (s *store) get(name string) (driver.Record, core.Outcome) {
	r := s.records[s.index(name)]
	if r.Rev == "" {
		return driver.Record{}, core.NotFound
	}

	return r, core.Done
}

// named finds an election that somebody holds by a heartbeat register.
func (s *store) named(name string) (driver.Record, core.Outcome) {
	for i := range s.records {
		if r := &s.records[i]; !r.Vacant() && r.Via == name {
			return *r, core.Done
		}
	}

	return driver.Record{}, core.NotFound
}

// remove removes a register if its revision is the expected one, and returns what was there. A removal without a
// revision removes whatever is there: a faulty core could send one.
func (s *store) remove(r driver.Record, keep int) (driver.Record, core.Outcome) {
	i := s.index(r.Name)
	if r.Rev != "" && s.records[i].Rev != r.Rev {
		return driver.Record{}, core.Conflict
	}

	before := s.records[i]
	s.keep(i, keep)
	s.records[i] = driver.Record{Name: r.Name}
	return before, core.Done
}

// keep notes what a write replaces. The newest n writes can be undone.
func (s *store) keep(i, n int) {
	if n == 0 {
		return
	}

	if len(s.undo) == n {
		s.undo = append([]change(nil), s.undo[1:]...)
	}

	s.undo = append(s.undo, change{i, s.records[i]})
}

// anyRev as the revision of a write has it applied whatever is there: a faulty core could send one.
const anyRev = "*"

// swap applies a write if the revision is the expected one. It keeps the newest keep writes for an undo.
func (s *store) swap(r driver.Record, rev uint64, keep int) (driver.Record, core.Outcome) {
	i := s.index(r.Name)
	if s.records[i].Rev != r.Rev && r.Rev != anyRev {
		return driver.Record{}, core.Conflict
	}

	s.keep(i, keep)
	r.Rev = strconv.FormatUint(rev, 10)
	if n := len(r.Past); n > 1 { // only the last one decides anything
		r.Past = r.Past[n-1:]
	}

	s.records[i] = r
	return r, core.Done
}

// lose undoes the newest n writes.
func (s *store) lose(n int) {
	for range n {
		last := s.undo[len(s.undo)-1]
		s.undo = s.undo[:len(s.undo)-1]
		s.records[last.register] = last.before
	}
}

// loseOne undoes the newest write of one register alone, as a shard of its own would.
func (s *store) loseOne(register int) bool {
	for i := len(s.undo) - 1; i >= 0; i-- {
		if s.undo[i].register == register {
			s.records[register] = s.undo[i].before
			s.undo = append(append([]change(nil), s.undo[:i]...), s.undo[i+1:]...)
			return true
		}
	}

	return false
}

// restorable reports whether a register may still come to show a revision.
func (s *store) restorable(name, rev string) bool {
	i := s.index(name)
	if s.records[i].Rev == rev || rev == anyRev {
		return true
	}

	for _, c := range s.undo {
		if c.register == i && c.before.Rev == rev {
			return true
		}
	}

	return false
}
