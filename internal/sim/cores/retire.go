package cores

import (
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file is the retirement of registers (rule 13): elections that are used for a moment, and then removed.

// rest is how long a register must stay as it is before it is removed: longer than any lease.
const rest = 15 * time.Second

// short reports whether an election is used for moments only. Nobody need lead it.
func (s *sim) short(i int) bool { return s.shorts > 0 && i >= len(s.names)-s.shorts }

// useShortly lets a process campaign in an election for a moment.
func (p *proc) useShortly(i int) {
	if !p.runs() || !p.term(i).withdrawn {
		return
	}

	p.term(i).withdrawn = false
	p.step(core.Campaign{Election: p.sim.names[i]})
	p.later(p.sim.between(0, 3*time.Second), func() {
		p.term(i).withdrawn = true
		p.step(core.Withdraw{Election: p.sim.names[i]})
	})
}

// retire asks a process to remove a register: of an election, or of a member.
func (p *proc) retire(reg *register) {
	if !p.runs() {
		return
	}

	id := p.sim.number()
	p.asked = append(p.asked, asked{id: id, at: p.sim.now, lasts: true})
	p.step(core.Retire{ID: id, Register: reg.name})
}

// named answers whether an election depends on a member register.
func (s *sim) named(reg *register) core.Outcome {
	for _, name := range s.names {
		if r := &s.store.register(name).rec; !r.Vacant() && r.Via == reg.name {
			return core.Done
		}
	}

	return core.NotFound
}

// remove removes a register, and checks that this may be.
func (s *sim) remove(q *request) {
	reg := q.reg
	p := q.proc
	lossless := s.store.lostAt < 0
	switch {
	case !reg.rec.Vacant():
		s.fail("rule 13: p%d removes %s, which %s holds", p.index, reg.name, reg.rec.Holder)
	case !lossless:
	case reg.member && s.named(reg) == core.Done:
		s.fail("rule 13: p%d removes %s, which an election names", p.index, reg.name)
	case !reg.member && s.store.register(driver.FloorRegister).rec.Epoch < reg.rec.Epoch:
		s.fail("rule 13: p%d removes %s in epoch %d, which is above the floor", p.index, reg.name, reg.rec.Epoch)
	case s.now < reg.vacatedAt+p.duration(core.Time(rest)):
		s.fail("rule 13: p%d removes %s, which was released %v ago", p.index, reg.name, s.now-reg.vacatedAt)
	}

	p.note("the store removes %s", reg.name)
	s.store.remember(reg)
	reg.rec = driver.Record{Name: reg.name}
	reg.removed = true
	s.reached |= RetiredRegister
}
