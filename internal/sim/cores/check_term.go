package cores

import (
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file checks terms: who leads, until when, and that they end in time.

// checkLeaders fails if two processes lead one election at once, or if the duty of an earlier term still runs beside a
// later one.
func (s *sim) checkLeaders(i int) {
	if s.now < s.store.lostAt+2*s.cfg.LeaseDuration {
		return
	}

	var first *proc
	for _, p := range s.candidates(i) {
		if !p.leads(i) {
			continue
		}

		if first != nil {
			reg := s.store.register(s.names[i])
			if min(first.view(reg).at, p.view(reg).at) > s.store.lostAt {
				s.fail("p%d and p%d lead %s at once, in epochs %d and %d", first.index, p.index, s.names[i],
					first.term(i).epoch, p.term(i).epoch)
			}
		}

		first = p
	}
}

// checkBegin checks a term that begins.
func (p *proc) checkBegin(i int, e *core.Begin) {
	s := p.sim
	reg := s.store.register(e.Election)
	who := driver.Identity{ID: p.cfg.ID, Incarnation: e.Incarnation}
	if !slices.Contains(reg.claims, claimed{e.Epoch, who}) {
		s.fail("p%d begins term %d of %s, which it was not given", p.index, e.Epoch, e.Election)
	}

	if p.term(i).running {
		s.fail("rule 7: p%d begins term %d of %s while the duty of term %d runs", p.index, e.Epoch, e.Election,
			p.term(i).epoch)
	}

	if s.now < s.store.lostAt+2*s.cfg.LeaseDuration {
		return
	}

	for _, o := range s.candidates(i) {
		if o == p || o.core == nil || !o.term(i).running || o.term(i).late || o.wasFrozen(o.cfg.StopTimeout) {
			continue
		}

		if min(p.view(reg).at, o.view(reg).at) > s.store.lostAt {
			s.fail("p%d begins term %d of %s, and the duty of p%d runs in term %d", p.index, e.Epoch, e.Election,
				o.index,
				o.term(i).epoch)
		}
	}
}

// wasFrozen reports whether a process is frozen, or was less than d ago.
func (p *proc) wasFrozen(d time.Duration) bool { return p.frozen > 0 && p.sim.now <= p.frozen+d }

const moments = time.Millisecond // what is done at once may take

// checkDeadline fails if a term ends after its deadline, although its process ran (rules 7 and 9).
func (p *proc) checkDeadline(i int) {
	t := p.term(i)
	if over := time.Duration(p.clock() - p.until(i)); t.leading && over > 0 && !p.wasFrozen(moments) {
		p.sim.fail("rule 9: term %d of %s ends %v after its deadline in p%d", t.epoch, p.sim.names[i], over, p.index)
	}
}

// until is the last deadline of a term, also if it is not believed any more.
func (p *proc) until(i int) core.Time {
	if p.term(i).own {
		return p.term(i).until
	}

	return p.beatUntil
}

// inspect checks from time to time what no single event shows.
func (s *sim) inspect() {
	for i := range s.names {
		s.checkLeaders(i)
	}

	for _, p := range s.procs {
		if p.core == nil || p.wasFrozen(moments) {
			continue
		}

		for _, i := range p.places() {
			p.checkDeadline(i)
			p.checkBelief(i)
		}

		p.checkWaits()
		if s.workers != nil {
			s.work(p)
		}
	}

	s.endEarly()
	s.queue.push(s.now+500*time.Millisecond, event{kind: inspectEvent})
}

// endEarly ends a run in which nothing can happen any more: every election is led for two leases, after all pauses have
// ended, and nobody waits for an answer. Whatever the store has lost is noticed by then (checkBelief).
func (s *sim) endEarly() {
	if !s.faults.over || s.live || s.loses || s.now < s.healed+pausesEnd {
		return
	}

	for i := range s.names {
		if !s.short(i) && !s.isLed(i) {
			s.led = 0
			return
		}
	}

	if s.led == 0 || slices.ContainsFunc(s.procs, (*proc).waits) {
		s.led = s.now
	}

	if s.now >= s.led+2*s.cfg.LeaseDuration {
		s.end = s.now
	}
}

// isLed reports whether a process leads an election.
func (s *sim) isLed(i int) bool {
	return slices.ContainsFunc(s.candidates(i), func(p *proc) bool { return p.leads(i) })
}

// waits reports whether somebody waits for the answer to a request that does not take long.
func (p *proc) waits() bool {
	return p.core != nil && slices.ContainsFunc(p.asked, func(a asked) bool { return !a.lasts })
}

// checkBelief fails if a process leads although the store shows something else. If the store has lost writes there is a
// lease and the time of a request to notice, counted from when the process gets answers.
func (p *proc) checkBelief(i int) {
	s := p.sim
	if !p.leads(i) {
		return
	}

	t := p.term(i)
	reg := s.store.register(s.names[i])
	if reg.rec.Epoch == t.epoch && reg.rec.Holder.Incarnation == t.incarnation {
		return
	}

	lost := reg.lostAt
	if !t.own {
		lost = max(lost, p.register.lostAt)
	}

	since := max(lost, p.frozen, p.link.troubled, s.faults.hanging, s.faults.refusing)
	if lost < 0 || s.now > since+p.cfg.LeaseDuration+p.cfg.LeaseDuration/4 {
		s.fail("p%d leads %s in epoch %d, and the store shows: %s", p.index, s.names[i], t.epoch, text(&reg.rec))
	}
}

// checkWaits fails if something waits that must not: the next join for a request of the last incarnation (rule 9), or a
// request of a user for longer than the store is asked.
func (p *proc) checkWaits() {
	s := p.sim
	if p.mustJoin != 0 && s.now > p.mustJoin+moments {
		s.fail("rule 9: p%d has lost its heartbeat %v ago, its duties have stopped, and it does not join again",
			p.index,
			s.now-p.mustJoin)
	}

	longest := 3*p.cfg.LeaseDuration + 4*p.cfg.StopTimeout
	for _, a := range p.asked {
		if a.save != "" || a.lasts { // a checkpoint has as long as its term
			continue
		}

		if s.now > max(a.at, p.frozen)+longest {
			s.fail("p%d has not answered request %d for %v", p.index, a.id, s.now-a.at)
		}
	}
}

// checkLost fails if a process goes on to lead by its heartbeat once it was shown that its register is not its own.
func (p *proc) checkLost(r *driver.Record) {
	for _, i := range p.places() {
		if t := p.term(i); t.leading && !t.own && r.Holder.Incarnation != t.incarnation {
			p.sim.fail("p%d goes on to lead %s by a heartbeat that it was shown to have lost", p.index, p.sim.names[i])
		}
	}
}

// afterStep checks what must be so at the end of a step.
func (p *proc) afterStep() {
	if p.dropped && !p.anyRuns() {
		p.dropped = false
		if !p.closing && p.withdrawn == 0 && !p.joins {
			p.mustJoin = max(p.sim.now, 1)
		}
	}
}

// anyRuns reports whether a duty runs that depends on the member's heartbeat.
func (p *proc) anyRuns() bool {
	return slices.ContainsFunc(p.terms, func(t term) bool { return t.running && !t.own })
}

// checkEnd fails if an election has no leader although everything works.
func (s *sim) checkEnd() {
	for i, name := range s.names {
		if !s.short(i) && !s.isLed(i) {
			reg := s.store.register(name)
			s.fail("%s has no leader %v after everything was healed: %s", name, s.now-s.healed, text(&reg.rec))
		}
	}
}

// checkpointOf begins every checkpoint of the term that holds a record.
func checkpointOf(r *driver.Record) []byte {
	return checkpoint(r.Epoch, r.Holder.Incarnation)
}

func checkpoint(epoch uint64, incarnation string) []byte {
	b := strconv.AppendUint(nil, epoch, 10)
	b = append(b, ' ')
	b = append(b, incarnation...)
	return append(b, ' ')
}
