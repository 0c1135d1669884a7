package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/regentd/regent"
)

// Do is what an action does.
type Do uint8

// The actions.
const (
	DoPartition Do = iota
	DoFreeze
	DoTrap
	DoAmbush
	DoCrash
	DoStop
	DoTwin
	DoOutage
	DoHandOff
	DoStepDown
	DoPause
	DoResume
	DoSick
	DoSlow
	DoRollback
	DoSnapshot
)

// Action is something that goes wrong, or that somebody asks for, at a time. It strikes the leader of a seat, or a given member.
type Action struct {
	At     time.Duration
	Do     Do
	Leader bool // strike whoever leads Seat then, if anybody does
	Member int
	Seat   int
	Other  int           // the successor of a handoff
	For    time.Duration // how long it lasts
	Back   time.Duration // when what has stopped or crashed starts again; never if negative

	Requests, Answers bool // which way is cut
	Trap              trap
	Flush             bool // a rollback to nothing
}

// drawActions fills the time of faults.
func (p *Plan) drawActions(g *rand.Rand, c regent.Config) {
	w := c.LeaseDuration
	gap := scale(w, uniform(g, 0.4, 2.5))
	kinds := []Do{DoPartition, DoPartition, DoFreeze, DoTrap, DoTrap, DoTrap, DoAmbush, DoAmbush, DoCrash, DoStop, DoOutage, DoHandOff, DoStepDown, DoPause, DoSick, DoSlow}
	if chance(g, 0.3) {
		kinds = append(kinds, DoTwin, DoTwin)
	}
	// Half of the seeds try a few things again and again.
	if chance(g, 0.5) {
		g.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		kinds = kinds[:2+g.IntN(3)]
	}
	if p.Class == Rollback {
		// Only who remembers can know that a store has gone back: nobody may be born after it with no memory.
		kinds = slices.DeleteFunc(kinds, func(d Do) bool { return d == DoCrash || d == DoStop || d == DoTwin })
		p.drawRollbacks(g, w)
	}
	for at := between(g, w/2, 2*w); at < p.Faulty && len(kinds) > 0; at += between(g, gap/8, 2*gap) {
		a := p.drawAction(g, c, kinds[g.IntN(len(kinds))], at)
		if p.Class == Rollback {
			a.Trap.crashAfter = 0
		}
		p.Actions = append(p.Actions, a)
	}
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
}

// drawRollbacks lets the store go back to what it held some time ago, or to nothing.
func (p *Plan) drawRollbacks(g *rand.Rand, w time.Duration) {
	for at := between(g, w/2, 4*w); at < p.Faulty; at += between(g, w, 5*w) {
		p.Actions = append(p.Actions, Action{At: at, Do: DoSnapshot})
	}
	for at := between(g, 4*w, 8*w); at < p.Faulty; at += between(g, 4*w, 8*w) {
		p.Actions = append(p.Actions, Action{At: at, Do: DoRollback, Flush: chance(g, 0.4)})
	}
}

func (p *Plan) drawAction(g *rand.Rand, c regent.Config, do Do, at time.Duration) Action {
	w := c.LeaseDuration
	a := Action{At: at, Do: do, Leader: chance(g, 0.6), Member: g.IntN(len(p.Members)), Seat: g.IntN(len(p.Seats)), Other: g.IntN(len(p.Members)),
		For: between(g, w/10, 2*w), Back: between(g, 0, 2*w), Requests: true, Answers: true}
	switch do {
	case DoPartition:
		switch g.IntN(3) {
		case 0:
			a.Requests = false
		case 1:
			a.Answers = false
		}
	case DoFreeze:
		a.For = between(g, w/10, w*3/2)
	case DoOutage:
		a.For = between(g, w/10, w*3/2)
	case DoCrash:
		if chance(g, 0.15) {
			a.Back = -1
		}
	case DoAmbush:
		d := trust(w, c.StopTimeout)
		a.Leader, a.Requests, a.Other = true, chance(g, 0.6), 1+g.IntN(3)
		a.Trap = trap{request: scale(d/4, uniform(g, 0.5, 0.95)), timeout: between(g, d/100, d/16)}
	case DoTrap:
		a.Trap = drawTrap(g, c)
		a.Leader = a.Trap.on == Beat && chance(g, 0.9) || a.Trap.on == Release
	}
	return a
}

// drawTrap returns trouble for one request: the protocol is decided by what becomes of single requests at the wrong moment.
func drawTrap(g *rand.Rand, c regent.Config) trap {
	w, d := c.LeaseDuration, trust(c.LeaseDuration, c.StopTimeout)
	patience := d / 4
	t := trap{on: []Op{Beat, Beat, Beat, Claim, Claim, Release, Release, Revoke, Join, trapRead}[g.IntN(10)], timeout: between(g, d/100, patience)}
	switch g.IntN(5) {
	case 4:
		t.lose = true
	case 0:
		t.late = between(g, w/10, w*3/2)
	case 1:
		t.loseAnswer = true
	case 2:
		t.answer = scale(patience, uniform(g, 0.3, 1))
	case 3:
		t.request = scale(patience, uniform(g, 0.3, 1))
	}
	if chance(g, 0.3) {
		t.freezeAfter, t.freeze = between(g, 1, max(patience/4, 2)), between(g, w/4, w*3/2)
		if chance(g, 0.5) {
			t.freezeAfter = 1
		}
	}
	if chance(g, 0.6) {
		t.cutAfter, t.cut = between(g, 1, patience), between(g, w/4, 2*w)
		t.cutsRequests, t.cutsAnswers = chance(g, 0.7), chance(g, 0.5)
	}
	if t.on == Claim && chance(g, 0.2) {
		t.crashAfter = between(g, 1, patience)
	}
	return t
}
