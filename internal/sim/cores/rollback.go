package cores

import (
	"time"

	"github.com/regentd/regent/driver"
)

// rollBack makes the store lose writes, in one of these ways: one write of one register, which is the least; the tail
// of its log; or everything.
func (s *sim) rollBack() {
	if !s.faults.rollbacks || len(s.store.undo) == 0 {
		return
	}

	switch s.rng.IntN(6) {
	case 0:
		s.note("the store loses everything")
		s.flush()
	case 1, 2:
		s.rollBackOne()
	default:
		s.rollBackTail(1 + s.rng.IntN(len(s.store.losable())))
	}

	if s.now >= s.healed { // it may have lost the end of a pause, which nobody asks for again by itself
		s.resumeAll()
	}
	if s.chance(0.2) { // and again, before all is well
		s.after(s.between(0, 2*s.cfg.LeaseDuration), s.rollBack)
	}
}

// flush makes the store lose everything.
func (s *sim) flush() {
	for _, reg := range s.store.list {
		s.lose1(reg, driver.Record{Name: reg.name})
	}

	clear(s.store.undo)
	s.store.undo = s.store.undo[:0]
}

// rollBackTail makes the store lose its newest writes.
func (s *sim) rollBackTail(n int) {
	s.note("the store loses its last %d writes", n)
	for range n {
		last := s.store.undo[len(s.store.undo)-1]
		s.store.undo = s.store.undo[:len(s.store.undo)-1]
		s.lose1(last.reg, last.before)
	}
}

// rollBackOne makes the store lose the last write of one register.
func (s *sim) rollBackOne() {
	newest := s.store.losable()
	reg := newest[s.rng.IntN(len(newest))].reg
	for i := len(s.store.undo) - 1; i >= 0; i-- {
		if c := s.store.undo[i]; c.reg == reg {
			s.note("the store loses the last write of %s", reg.name)
			s.store.undo = append(s.store.undo[:i], s.store.undo[i+1:]...)
			s.lose1(reg, c.before)
			return
		}
	}
}

// lossAfter is when a claim is lost although everything works.
const lossAfter = 15 * time.Second

// loseClaim makes the store lose the claim of an election that is led, and nobody is notified of anything from then on:
// only its holder can notice that in time.
func (s *sim) loseClaim() {
	s.faults.deaf = 1
	reg := s.store.register(s.names[s.rng.IntN(len(s.names))])
	if n := len(reg.claims); n > 0 && reg.rec.Holder == reg.claims[n-1].who {
		s.note("the store loses the claim of %s, and notifies nobody any more", reg.name)
		s.lose1(reg, reg.unclaimed)
	}
}

// lose1 makes one register hold what it held before.
func (s *sim) lose1(reg *register, before driver.Record) {
	reg.rec = before
	reg.lostAt = s.now
	s.store.lostAt = s.now
}
