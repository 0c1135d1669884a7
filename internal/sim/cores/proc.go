package cores

import (
	"strconv"
	"time"

	"github.com/regentd/regent/internal/core"
)

// proc is one process: the shell of a core.
type proc struct {
	sim    *sim
	index  int
	id     string
	cfg    core.Config
	rate   float64 // of its clock
	offset time.Duration

	run       int // counts its starts: what belongs to an earlier one is dropped
	core      *core.Core
	frozen    time.Duration // nothing happens in it before
	cut       time.Duration // it does not reach the store before
	wakeAt    core.Time
	waking    bool
	terms     map[string]*term
	deadlines map[string]core.Time
	shown     map[string]uint64 // the highest epoch that it was shown
	shownAt   map[string]time.Duration
	reading   bool
}

type term struct {
	epoch    uint64
	register string
}

func (p *proc) Nonce() uint64       { return p.sim.draw() }
func (p *proc) Incarnation() string { return "i" + strconv.FormatUint(p.sim.draw(), 10) }
func (p *proc) Wall() time.Time     { return time.Time{} }

// clock is what the process takes for the time.
func (p *proc) clock() core.Time { return core.Time(float64(p.sim.now)*p.rate) + core.Time(p.offset) }

// duration turns a time by its clock into a true one.
func (p *proc) duration(d core.Time) time.Duration {
	return time.Duration(float64(max(d, 0))/p.rate) + 1
}

// start starts the process, without memory.
func (p *proc) start() {
	if p.core != nil {
		return
	}
	p.run++
	p.core = core.New(p.cfg, p)
	p.terms = map[string]*term{}
	p.deadlines = map[string]core.Time{}
	p.shown = map[string]uint64{}
	p.shownAt = map[string]time.Duration{}
	p.waking = false
	p.sim.log("p%d starts as %s", p.index, p.id)
	for _, name := range p.sim.names {
		p.step(core.Campaign{Election: name})
	}
	p.step(core.Join{})
}

func (p *proc) crash() {
	if p.core != nil {
		p.sim.log("p%d crashes", p.index)
		p.core = nil
	}
}

// later has something happen in this run of the process, unless it is frozen by then: then it happens when it thaws.
func (p *proc) later(d time.Duration, do func()) {
	run := p.run
	var try func()
	try = func() {
		switch {
		case p.run != run || p.core == nil:
		case p.sim.now < p.frozen:
			p.sim.after(p.frozen-p.sim.now, try)
		default:
			do()
		}
	}
	p.sim.after(d, try)
}

// step gives one input to the core and does what it asks for.
func (p *proc) step(in core.Input) {
	s := p.sim
	if p.core == nil || s.err != nil {
		return
	}
	if s.trace != nil { // else the arguments alone would cost a fifth of a run
		s.log("p%d <- %T %+v", p.index, in, in)
	}
	_, onNotice := in.(core.Notice)
	for _, e := range p.core.Step(p.clock(), in) {
		if s.trace != nil {
			s.log("p%d -> %T %+v", p.index, e, e)
		}
		if send, ok := e.(core.Send); ok && send.Verb == core.Swap && onNotice {
			s.reached |= ClaimedOnNotice
		}
		p.do(e)
		if p.core == nil {
			return
		}
	}
	s.checkLeaders()
	p.sleep()
}

func (p *proc) do(e core.Effect) {
	s := p.sim
	switch e := e.(type) {
	case core.Send:
		s.send(p, e)
	case core.Begin:
		p.terms[e.Election] = &term{e.Epoch, e.Register}
		p.deadlines[e.Register] = e.Deadline
		s.reached |= Began
		if p.reading {
			s.reached |= AdoptedClaim
		}
	case core.Renewed:
		p.deadlines[e.Register] = e.Deadline
	case core.End:
		delete(p.terms, e.Election)
		p.later(s.dutyTime(), func() { p.step(core.DutyStopped{Election: e.Election, Epoch: e.Epoch}) })
		if e.Cause == core.HandedOff {
			s.reached |= HandedOver
		}
	case core.Event:
		switch e.Kind {
		case core.EventRegressed:
			s.reached |= WaitedAfterRollback
		case core.EventDutyStuck:
			s.reached |= DutyStuck
		}
	case core.Result:
		if e.ID == saveID && e.Result == core.OK {
			s.reached |= SavedCheckpoint
		}
	case core.Closed:
		p.core = nil
		s.reached |= LeftCluster
		s.after(s.between(0, 5*time.Second), p.start)
	}
}

// sleep wakes the core when it asked for that.
func (p *proc) sleep() {
	if p.core == nil {
		return
	}
	at := p.core.Next()
	if at == core.Never || p.waking && p.wakeAt <= at {
		return
	}
	p.waking = true
	p.wakeAt = at
	p.later(p.duration(at-p.clock()), func() {
		if p.waking && p.wakeAt == at {
			p.waking = false
			p.step(core.Tick{})
		}
	})
}

// leads reports whether the process believes that it leads, by its own clock.
func (p *proc) leads(name string) bool {
	if p.core == nil {
		return false
	}
	t := p.terms[name]
	return t != nil && p.clock() < p.deadlines[t.register]
}
