package sim

import (
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// holding is a term that a process was granted, as far as the simulation follows it: only to know
// how a lost claim is found.
type holding struct {
	who     string
	epoch   uint64
	reads   int  // how often the process has read the record since
	lost    bool // the store has lost the claim
	noticed bool // a notice has come since
}

// granted notes a term.
func (p *process) granted(t regent.Term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds[t.Election] = &holding{who: t.Incarnation, epoch: t.Epoch}
}

// read takes in the answer to a read of an election.
func (p *process) read(l driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holds[l.Name]
	if h == nil {
		return
	}

	if h.lost && (l.Holder.Incarnation != h.who || l.Epoch != h.epoch) {
		h.lost = false
		switch {
		case h.noticed:
			p.sim.reach(GhostByNotice)
		case h.reads == 0:
			p.sim.reach(GhostByFirst)
		default:
			p.sim.reach(GhostBySweep)
		}
	}

	h.reads++
}

// noticed takes in a notice, which concerns all elections if it names none.
func (p *process) noticed(l driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for election, h := range p.holds {
		if h.lost && (l.Name == "" || l.Name == election) {
			h.noticed = true
		}
	}
}

// loses notes that the store has lost the claim of a term which the process still believes in.
func (p *process) loses(election, who string, epoch uint64) bool {
	if !p.leads(election) {
		return false
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holds[election]
	if h == nil || h.who != who || h.epoch != epoch {
		return false
	}

	h.lost = true
	return true
}

// rolledBack gets every rollback, under the store's lock.
func (s *simulation) rolledBack(changes []memstore.Change) {
	for _, c := range changes {
		s.mu.Lock()
		if c.New.Rev == "" {
			delete(s.regs, c.New.Name)
		} else {
			s.regs[c.New.Name] = c.New
		}

		again := s.undone[c.New.Name] && c.Old.Epoch <= s.claims[c.New.Name] && c.New.Epoch < c.Old.Epoch
		s.undone[c.New.Name] = true
		procs := s.procs
		losing := s.losing
		s.mu.Unlock()
		s.rec.add(nil, Event{Kind: Undone, Name: c.New.Name, Epoch: c.New.Epoch, Who: c.New.Holder.Incarnation,
			Via: c.New.Via,
			Old: c.Old.Holder.Incarnation, OldEpoch: c.Old.Epoch, Data: string(c.New.Data)})
		if isMember(c.New.Name) {
			continue
		}

		if again {
			s.reach(RolledTwice)
		}

		who := c.Old.Holder.Incarnation
		if i := s.rec.owner(who, -1); i >= 0 && c.Old.Holder != c.New.Holder && procs[i].loses(c.New.Name, who,
			c.Old.Epoch) && losing != "" {
			s.reach(losing)
		}
	}
}
