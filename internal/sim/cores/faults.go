package cores

import (
	"strconv"
	"time"

	"github.com/regentd/regent/internal/core"
)

// faults is how bad it gets, and what is bad now.
type faults struct {
	every     time.Duration // between two faults, on average
	loss      float64       // of a request, or of an answer
	slow      float64       // a request or an answer takes long
	deaf      float64       // a notification is lost
	stuck     float64       // a duty stops late
	rollbacks bool
	refusing  time.Duration // the store refuses everything before
	hanging   time.Duration // the store answers nothing before
	over      bool          // everything is healed
	fixed     time.Duration // what a request or an answer takes, if it is not drawn
}

// link is the way of one process to the store. Each fault lasts until its time.
type link struct {
	noRequests time.Duration // requests are lost: a one-way partition
	noAnswers  time.Duration // answers are lost: the other one
	refused    time.Duration // requests are refused at once
	hung       time.Duration // requests arrive and are not answered
	deaf       time.Duration // notifications are lost
	slow       time.Duration // requests and answers take long
	lag        time.Duration // what requests and answers take beyond the usual
	troubled   time.Duration // when a request, or its answer, was last lost or late
}

// slowest is how long a request or an answer takes at most.
const slowest = 4 * time.Second

func (s *sim) drawFaults() faults {
	f := faults{every: s.between(500*time.Millisecond, 10*time.Second), rollbacks: s.chance(0.3)}
	for _, p := range []*float64{&f.loss, &f.slow, &f.deaf, &f.stuck} {
		if s.chance(0.5) {
			*p = s.rng.Float64() * 0.3
		}
	}

	if s.chance(0.1) {
		f.deaf = 1
	}

	return f
}

func (s *sim) lose() bool { return !s.faults.over && s.chance(s.faults.loss) }

// latency is how long a request or an answer takes.
func (s *sim) latency(p *proc) time.Duration {
	if s.faults.fixed > 0 {
		return s.faults.fixed
	}

	if s.now < p.link.slow || !s.faults.over && s.chance(s.faults.slow) {
		p.link.troubled = s.now
		return s.between(0, slowest)
	}

	return p.link.lag + s.between(100*time.Microsecond, 5*time.Millisecond)
}

// dutyTime is how long a duty takes to stop.
func (s *sim) dutyTime() time.Duration {
	switch {
	case s.faults.fixed > 0:
		return s.faults.fixed
	case !s.faults.over && s.chance(s.faults.stuck):
		return s.between(0, 3*s.cfg.StopTimeout)
	case s.chance(0.3):
		return s.between(0, s.cfg.StopTimeout)
	}

	return 0
}

// nextFault lets one fault or one request happen, and then the next.
func (s *sim) nextFault() {
	if s.faults.over {
		return
	}

	p := s.procs[s.rng.IntN(len(s.procs))]
	name := s.rng.IntN(len(s.names))
	lasts := s.between(0, 15*time.Second)
	faultMenu[s.rng.IntN(len(faultMenu))](s, p, name, lasts)
	s.after(s.between(0, 2*s.faults.every), s.nextFault)
}

// faultMenu is what can happen to a process p, in an election, for a while.
var faultMenu = []func(s *sim, p *proc, election int, lasts time.Duration){
	func(s *sim, p *proc, _ int, _ time.Duration) {
		p.crash()
		s.after(s.between(0, 10*time.Second), p.start)
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.freeze(lasts)
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("is cut off for %v", lasts)
		p.link.noRequests = s.now + lasts
		p.link.noAnswers = s.now + lasts
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("sends requests in vain for %v", lasts)
		p.link.noRequests = s.now + lasts
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("gets no answers for %v", lasts)
		p.link.noAnswers = s.now + lasts
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("is refused by the store for %v", lasts)
		p.link.refused = s.now + lasts
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("meets a store that hangs for %v", lasts)
		p.link.hung = s.now + lasts
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("has a slow network for %v", lasts)
		p.link.slow = s.now + lasts
	},
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		p.note("gets no notifications for %v", 4*lasts)
		p.link.deaf = s.now + 4*lasts
	},
	func(s *sim, _ *proc, _ int, lasts time.Duration) {
		s.note("the store refuses everything for %v", lasts)
		s.faults.refusing = s.now + lasts
	},
	func(s *sim, _ *proc, _ int, lasts time.Duration) {
		s.note("the store hangs for %v", lasts)
		s.faults.hanging = s.now + lasts
	},
	func(s *sim, _ *proc, _ int, lasts time.Duration) { s.restart(lasts / 10) },
	func(s *sim, _ *proc, _ int, _ time.Duration) { s.rollBack() },
	func(s *sim, p *proc, i int, _ time.Duration) {
		p.ask(func(id uint64) core.Input { return core.StepDown{ID: id, Election: s.names[i]} })
	},
	func(s *sim, p *proc, i int, _ time.Duration) {
		to := s.procs[s.rng.IntN(len(s.procs))].cfg.ID
		p.ask(func(id uint64) core.Input { return core.HandOff{ID: id, Election: s.names[i], To: to} })
	},
	func(s *sim, p *proc, i int, _ time.Duration) {
		p.ask(func(id uint64) core.Input { return core.Pause{ID: id, Election: s.names[i]} })
		s.after(s.between(0, 5*time.Second), func() { p.resume(s.names[i]) })
	},
	func(s *sim, p *proc, i int, _ time.Duration) { p.save(i) },
	func(s *sim, p *proc, i int, _ time.Duration) { p.save(i) },
	func(s *sim, p *proc, _ int, lasts time.Duration) {
		if p.runs() {
			p.step(core.Health{})
			p.later(lasts, func() { p.step(core.Health{Healthy: true}) })
		}
	},
	func(s *sim, p *proc, _ int, _ time.Duration) { p.replaceReaper() },
	func(s *sim, p *proc, _ int, _ time.Duration) {
		if s.shorts > 0 {
			p.useShortly(len(s.names) - 1 - s.rng.IntN(s.shorts))
		}
	},
	func(s *sim, p *proc, _ int, _ time.Duration) {
		if s.shorts > 0 && s.chance(0.8) {
			p.retire(s.store.register(s.names[len(s.names)-1-s.rng.IntN(s.shorts)]))
		} else if s.shorts > 0 {
			p.retire(s.store.list[s.rng.IntN(len(s.store.list))])
		}
	},
	func(s *sim, p *proc, _ int, _ time.Duration) { p.close() },
	func(s *sim, p *proc, i int, _ time.Duration) { p.withdraw(i) },
}

// freeze stops a process, as SIGSTOP does.
func (p *proc) freeze(lasts time.Duration) {
	p.note("freezes for %v", lasts)
	p.frozen = max(p.frozen, p.sim.now+lasts)
	p.sim.after(lasts, p.goOn)
}

// goOn lets everything happen that a frozen process has missed.
func (p *proc) goOn() {
	if p.sim.now < p.frozen {
		return
	}

	for _, e := range p.missed {
		p.sim.queue.push(p.sim.now, e)
	}

	p.missed = p.missed[:0]
}

// thaw lets a frozen process go on.
func (p *proc) thaw() {
	if p.frozen <= p.sim.now {
		return
	}

	p.note("goes on")
	p.frozen = p.sim.now
	p.goOn()
}

// runs reports whether a process can be asked for anything.
func (p *proc) runs() bool { return p.core != nil && p.sim.now >= p.frozen }

// ask lets a user ask for something that has a result.
func (p *proc) ask(in func(id uint64) core.Input) {
	if !p.runs() {
		return
	}

	id := p.sim.number()
	p.asked = append(p.asked, asked{id: id, at: p.sim.now})
	p.step(in(id))
}

func (p *proc) resume(name string) {
	p.ask(func(id uint64) core.Input { return core.Resume{ID: id, Election: name} })
}

// save writes a checkpoint under the term of a process, if it has one.
func (p *proc) save(i int) {
	if !p.runs() || !p.term(i).leading {
		return
	}

	t := p.term(i)
	id := p.sim.number()
	data := strconv.AppendUint(checkpoint(t.epoch, t.incarnation), id, 10)
	p.asked = append(p.asked, asked{id: id, at: p.sim.now, save: string(data)})
	p.step(core.Save{ID: id, Election: p.sim.names[i], Epoch: t.epoch, Data: data})
}

// close lets a process leave.
func (p *proc) close() {
	if p.runs() {
		p.closing = true
		p.step(core.Close{})
	}
}

// withdraw ends a candidacy for a while.
func (p *proc) withdraw(i int) {
	if !p.runs() || p.term(i).withdrawn || p.sim.short(i) {
		return
	}

	p.term(i).withdrawn = true
	p.withdrawn++
	p.step(core.Withdraw{Election: p.sim.names[i]})
	p.later(p.sim.between(0, 5*time.Second), func() { p.campaign(i) })
}

// campaign begins a candidacy again.
func (p *proc) campaign(i int) {
	if p.term(i).withdrawn {
		p.term(i).withdrawn = false
		p.withdrawn--
		p.returns = true
		p.step(core.Campaign{Election: p.sim.names[i]})
		p.returns = false
	}
}

// revive lets a process run, be healthy, and campaign everywhere.
func (p *proc) revive() {
	if p.core == nil {
		p.start()
	}

	p.step(core.Health{Healthy: true})
	for _, i := range p.places() {
		if !p.sim.short(i) {
			p.campaign(i)
		}
	}
}

// restart ends all connections to the store, which is away for a while.
func (s *sim) restart(away time.Duration) {
	s.note("the store restarts, and is away for %v", away)
	s.store.starts++
	s.faults.refusing = max(s.faults.refusing, s.now+away)
	s.after(away, func() {
		for _, p := range s.procs {
			if p.core != nil && s.now >= p.link.deaf {
				p.later(s.between(0, time.Second), func() { p.step(core.Notice{}) })
			}
		}
	})
}

// heal ends all faults.
func (s *sim) heal() {
	s.note("everything is healed")
	s.faults.over = true
	s.faults.deaf = 0
	s.faults.refusing = 0
	s.faults.hanging = 0
	for _, p := range s.procs {
		p.link = link{troubled: s.now}
		p.thaw()
		p.revive()
	}

	s.after(slowest+time.Second, s.resumeAll) // a pause of unknown outcome may have been applied by then
	s.after(pausesEnd, s.resumeAll)           // and one that nobody has answered yet
}
