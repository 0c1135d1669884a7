package sim

import (
	"context"
	"time"
)

// trap is what happens to the next request of a kind that a process sends.
type trap struct {
	on Op // NoOp for a read of a heartbeat

	request, answer time.Duration // how much longer each way takes
	late            time.Duration // it is applied so late, and not answered
	lose            bool          // it never arrives
	loseAnswer      bool
	panics          bool          // the driver panics, before it sends the request if it is lost, else after its answer
	deaf            bool          // it is answered although its context has ended meanwhile
	timeout         time.Duration // after which a request without an answer fails

	freezeAfter, freeze       time.Duration
	cutAfter, cut             time.Duration
	cutsRequests, cutsAnswers bool
	crashAfter                time.Duration
	election                  string // this register only; any if empty
	then                      func() // what else it sets off
}

const trapRead = NoOp

func (p *process) set(traps ...*trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.traps = append(p.traps, traps...)
}

// trap returns the first trap for a request, once.
func (p *process) trap(ctx context.Context, on Op, name string) *trap {
	switch {
	case p.sim.settled.Load() || ctx.Value(asAdmin{}) != nil:
		return nil
	case on == trapRead && !p.plan.Config.OwnLease && !isMember(name):
		return nil
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range p.traps {
		if t.on == on && (t.election == "" || t.election == name) {
			p.traps = append(p.traps[:i], p.traps[i+1:]...)
			return t
		}
	}

	return nil
}

// spring sets off what a trap does to the process itself.
func (p *process) spring(t *trap) {
	if t.panics {
		p.sim.reach(DriverPanic)
		p.sim.say(p, "has a driver that panics at a %s", t.on)
	}

	if t.freeze > 0 {
		time.AfterFunc(t.freezeAfter, func() { p.freeze(t.freeze) })
	}

	if t.cut > 0 {
		time.AfterFunc(t.cutAfter, func() { p.sim.partition(p, t.cutsRequests, t.cutsAnswers, t.cut) })
	}

	if t.crashAfter > 0 {
		time.AfterFunc(t.crashAfter, func() { p.sim.crash(p) })
	}

	if t.then != nil {
		t.then()
	}
}

// setTrap sets a trap for a process.
func (s *simulation) setTrap(a *Action, p *process) {
	s.say(p, "trap for %q: %+v", a.Trap.on, a.Trap)
	t := a.Trap
	p.set(&t)
	if t.on == Release { // so that there is one
		s.stepDown(p)
	}
}

// ambush sets traps that only together do what each rule of counting guards against.
func (s *simulation) ambush(a *Action, leader *process) {
	w := leader.plan.Config.LeaseDuration
	requestTimeout := trust(w, leader.plan.Config.StopTimeout) / 4
	if a.Requests {
		// The last heartbeat before the deadline, after some that were lost, arrives when the observers
		// have just read for the last time; and its answer finds a process that slept through the
		// deadline.
		s.say(leader, "is ambushed at its last heartbeat")
		for range a.Other {
			leader.set(&trap{on: Beat, lose: true, timeout: a.Trap.timeout})
		}

		leader.set(&trap{on: Beat, request: a.Trap.request, freezeAfter: 1, freeze: scale(requestTimeout, 1.3)})
		return
	}

	// An observer's read takes long, the leader's heartbeat overtakes it, and is the leader's last.
	s.say(leader, "is ambushed when an observer reads slowly")
	s.mu.Lock()
	procs := s.procs
	s.mu.Unlock()
	for _, p := range procs {
		if p != leader && !p.stopped() {
			p.set(&trap{on: trapRead, request: a.Trap.request, then: func() {
				leader.set(&trap{on: Beat, cutAfter: a.Trap.timeout, cut: 2 * w, cutsRequests: true, cutsAnswers: true})
			}})
			return
		}
	}
}
