package cores

import (
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
}

const saveID = 7

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
func (s *sim) latency() time.Duration {
	if !s.faults.over && s.chance(s.faults.slow) {
		return s.between(0, slowest)
	}
	return s.between(100*time.Microsecond, 5*time.Millisecond)
}

// dutyTime is how long a duty takes to stop.
func (s *sim) dutyTime() time.Duration {
	switch {
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
	name := s.names[s.rng.IntN(len(s.names))]
	lasts := s.between(0, 15*time.Second)
	switch s.rng.IntN(13) {
	case 0:
		p.crash()
		s.after(s.between(0, 10*time.Second), p.start)
	case 1:
		s.log("p%d freezes for %v", p.index, lasts)
		p.frozen = s.now + lasts
	case 2:
		s.log("p%d is cut off for %v", p.index, lasts)
		p.cut = s.now + lasts
	case 3:
		s.log("the store refuses everything for %v", lasts)
		s.faults.refusing = s.now + lasts
	case 4:
		s.log("the store hangs for %v", lasts)
		s.faults.hanging = s.now + lasts
	case 5:
		s.rollBack()
	case 6:
		p.request(core.StepDown{ID: 1, Election: name})
	case 7:
		to := s.procs[s.rng.IntN(len(s.procs))].id
		p.request(core.HandOff{ID: 2, Election: name, To: to})
	case 8:
		p.request(core.Pause{ID: 3, Election: name})
		s.after(s.between(0, 5*time.Second), func() { p.request(core.Resume{ID: 4, Election: name}) })
	case 9, 10:
		if t := p.terms[name]; t != nil {
			p.request(core.Save{ID: saveID, Election: name, Epoch: t.epoch, Data: []byte{byte(s.draw())}})
		}
	case 11:
		p.request(core.Close{})
	case 12:
		p.withdraw(name)
	}
	s.after(s.between(0, 2*s.faults.every), s.nextFault)
}

// request gives an input to a process that is not frozen.
func (p *proc) request(in core.Input) {
	if p.core != nil && p.sim.now >= p.frozen {
		p.step(in)
	}
}

// withdraw ends a candidacy for a while.
func (p *proc) withdraw(name string) {
	p.request(core.Withdraw{Election: name})
	p.later(p.sim.between(0, 5*time.Second), func() { p.step(core.Campaign{Election: name}) })
}

// rollBack makes the store lose its newest writes.
func (s *sim) rollBack() {
	if !s.faults.rollbacks || len(s.undo) == 0 {
		return
	}
	n := 1 + s.rng.IntN(len(s.undo))
	s.log("the store loses %d writes", n)
	for range n {
		last := s.undo[len(s.undo)-1]
		s.undo = s.undo[:len(s.undo)-1]
		if last.Rev == "" {
			delete(s.records, last.Name)
		} else {
			s.records[last.Name] = last
		}
	}
	s.lostAt = s.now
}

// heal ends all faults.
func (s *sim) heal() {
	s.log("everything is healed")
	s.faults.over = true
	s.faults.refusing = 0
	s.faults.hanging = 0
	for _, p := range s.procs {
		p.cut = 0
		if p.frozen > s.now {
			p.frozen = s.now
		}
		if p.core == nil {
			p.start()
		}
		for _, name := range s.names {
			p.step(core.Campaign{Election: name})
		}
	}
	s.after(slowest+time.Second, func() { // a pause of unknown outcome may have been applied by then
		for _, p := range s.procs {
			for _, name := range s.names {
				p.request(core.Resume{ID: 5, Election: name})
			}
		}
	})
}
