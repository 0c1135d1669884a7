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
	DoLose
	DoHang
	DoWithdraw
	DoAsk
	DoNag
	DoUnreadable
	DoPanic
	DoReaperFreeze
	DoReaperCrash
)

// Loss is what a store loses.
type Loss uint8

// The losses. Each undoes at least the last claim of an election, and keeps revisions.
const (
	LoseRegister  Loss = iota // of the election's register alone
	LoseTail                  // the tail of the log of all registers
	LoseShard                 // the tail of the log of those registers that share a server with the election's
	LoseHeartbeat             // of the register that keeps the election
	LoseAll                   // all since a backup
)

func (l Loss) String() string {
	return [...]string{"one register", "the tail of the log", "the tail of one shard's log", "a heartbeat register",
		"all since a backup"}[l]
}

// Action is something that goes wrong, or that somebody asks for, at a time. It strikes the leader
// of an election, or a given member.
type Action struct {
	At       time.Duration
	Do       Do
	Leader   bool // strike whoever leads Election then, if anybody does
	Member   int
	Election int
	Other    int           // the successor of a handoff
	For      time.Duration // how long it lasts
	Back     time.Duration // when what has stopped or crashed starts again; never if negative

	Requests, Answers bool // which way is cut
	Trap              trap
	Flush             bool // a rollback to nothing; what a hung store was sent is dropped
	Loss              Loss
	OnClaim           bool          // at For after the next claim, and not now
	Again             time.Duration // the same loss again after that; not if 0
}

// drawActions fills the time of faults.
func (p *Plan) drawActions(g *rand.Rand, c regent.Config) {
	w := c.LeaseDuration
	gap := scale(w, uniform(g, 0.4, 2.5))
	kinds := p.drawKinds(g)
	for at := between(g, w/2, 2*w); at < p.Faulty && len(kinds) > 0; at += between(g, gap/8, 2*gap) {
		a := p.drawAction(g, c, kinds[g.IntN(len(kinds))], at)
		if p.Class == Rollback {
			a.Trap.crashAfter = 0
		}

		p.Actions = append(p.Actions, a)
	}

	switch p.Class {
	case Rollback:
		p.drawRollbacks(g, w)
	case Lossy:
		p.drawLosses(g, w)
	}

	if p.Class != Lossy && chance(g, 0.25) { // late, so that no other trouble ends the term before it is obeyed
		p.Actions = append(p.Actions, p.drawAction(g, c, DoAsk, p.Faulty-between(g, w/2, 3*w/2)))
	}

	if p.Unreadable >= 0 {
		p.Actions = append(p.Actions, Action{At: between(g, w, p.Faulty), Do: DoUnreadable, Election: p.Unreadable,
			For: never})
	}

	slices.SortStableFunc(p.Actions, func(a, b Action) int { return cmp.Compare(a.At, b.At) })
}

// drawKinds returns the kinds of action that a seed draws from.
func (p *Plan) drawKinds(g *rand.Rand) []Do {
	kinds := []Do{DoPartition, DoPartition, DoFreeze, DoTrap, DoTrap, DoTrap, DoAmbush, DoAmbush, DoCrash, DoStop,
		DoOutage,
		DoHandOff, DoStepDown, DoPause, DoSick, DoSlow, DoHang, DoHang, DoWithdraw, DoAsk, DoAsk, DoNag, DoUnreadable}
	if chance(g, 0.3) {
		kinds = append(kinds, DoTwin, DoTwin)
	}

	if p.Members[0].Reaper {
		kinds = append(kinds, DoFreeze, DoFreeze, DoReaperFreeze, DoReaperCrash)
	}

	// Half of the seeds try a few things again and again.
	if chance(g, 0.5) {
		g.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		kinds = kinds[:2+g.IntN(3)]
	}

	if p.Panics {
		kinds = append(kinds, DoPanic, DoPanic, DoPanic, DoPanic)
	}

	return slices.DeleteFunc(kinds, func(d Do) bool {
		switch p.Class {
		case Rollback:
			// Only who remembers can know that a store has gone back: nobody may be born after it with no
			// memory.
			return d == DoCrash || d == DoStop || d == DoTwin || d == DoNag
		case Lossy:
			// How soon a lost claim is found is promised for requests that are answered, and for an engine
			// that remembers.
			return d == DoTrap || d == DoAmbush || d == DoAsk || d == DoWithdraw
		}

		return false
	})
}

// drawLosses lets the store lose its last writes, most often soon after a claim.
func (p *Plan) drawLosses(g *rand.Rand, w time.Duration) {
	p.Actions = append(p.Actions, Action{At: w, Do: DoSnapshot})
	for at := between(g, 2*w, 4*w); at < p.Faulty; at += between(g, 2*w, 5*w) {
		a := Action{At: at, Do: DoLose, Leader: true, Election: g.IntN(len(p.Elections)), Loss: Loss(g.IntN(5)),
			For: between(g, 1, 2*w)}
		if chance(g, 0.5) {
			a.For = between(g, 1, w/4)
		}

		a.OnClaim = chance(g, 0.6)
		if chance(g, 0.4) {
			a.Again = between(g, w/10, 2*w)
		}

		p.Actions = append(p.Actions, a)
		if a.OnClaim && chance(g, 0.7) { // so that there is one
			down := Action{At: at + 1, Do: DoStepDown, Leader: true, Election: a.Election, For: w}
			p.Actions = append(p.Actions, down)
		}
	}
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
	a := Action{At: at, Do: do, Leader: chance(g, 0.6), Member: g.IntN(len(p.Members)),
		Election: g.IntN(len(p.Elections)), Other: g.IntN(len(p.Members)),
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
		a.Leader = true
		a.Requests = chance(g, 0.6)
		a.Other = 1 + g.IntN(3)
		a.Trap = trap{request: scale(d/4, uniform(g, 0.5, 0.95)), timeout: between(g, d/100, d/16)}
	case DoHang:
		a.For = between(g, w/5, 3*w)
		a.Requests = chance(g, 0.6)
		a.Flush = chance(g, 0.4)
	case DoUnreadable:
		a.For = between(g, w/5, 2*w)
		a.Requests = chance(g, 0.5)
	case DoWithdraw:
		a.Leader = false
		a.Trap = trap{timeout: between(g, 1, a.For/20), late: between(g, w/20, w/2), cut: between(g, w/20, w/3)}
	case DoAsk:
		d := trust(w, c.StopTimeout)
		a.Leader = true
		a.Trap = trap{on: Beat, loseAnswer: true, timeout: scale(d/4, uniform(g, 0.4, 0.95))}
		a.Requests = chance(g, 0.5)
		a.Answers = chance(g, 0.7)
	case DoNag:
		a.Leader = true
		a.For = scale(w, uniform(g, 0.3, 0.9))
	case DoPanic:
		a.Leader = chance(g, 0.7)
		a.Trap = drawPanic(g, c)
	case DoReaperFreeze:
		a.For = between(g, w/10, 2*w)
	case DoTrap:
		a.Trap = drawTrap(g, c)
		a.Leader = a.Trap.on == Beat && chance(g, 0.9) || a.Trap.on == Release
	}

	return a
}

// drawTrap returns trouble for one request: the protocol is decided by what becomes of single
// requests at the wrong moment.
func drawTrap(g *rand.Rand, c regent.Config) trap {
	w, d := c.LeaseDuration, trust(c.LeaseDuration, c.StopTimeout)
	requestTimeout := d / 4
	t := trap{on: []Op{Beat, Beat, Beat, Claim, Claim, Release, Release, Revoke, Join, trapRead}[g.IntN(10)],
		timeout: between(g, d/100, requestTimeout)}
	switch g.IntN(5) {
	case 4:
		t.lose = true
	case 0:
		t.late = between(g, w/10, w*3/2)
	case 1:
		t.loseAnswer = true
	case 2:
		t.answer = scale(requestTimeout, uniform(g, 0.3, 1))
	case 3:
		t.request = scale(requestTimeout, uniform(g, 0.3, 1))
	}

	if chance(g, 0.3) {
		t.freezeAfter, t.freeze = between(g, 1, max(requestTimeout/4, 2)), between(g, w/4, w*3/2)
		if chance(g, 0.5) {
			t.freezeAfter = 1
		}
	}

	if chance(g, 0.6) {
		t.cutAfter, t.cut = between(g, 1, requestTimeout), between(g, w/4, 2*w)
		t.cutsRequests, t.cutsAnswers = chance(g, 0.7), chance(g, 0.5)
	}

	if t.on == Claim && chance(g, 0.2) {
		t.crashAfter = between(g, 1, requestTimeout)
	}

	return t
}

// drawPanic returns a request at which the driver panics.
func drawPanic(g *rand.Rand, c regent.Config) trap {
	on := []Op{Beat, Beat, Beat, Claim, Release, Release, Revoke, Join, trapRead}[g.IntN(9)]
	return trap{on: on, panics: true, lose: chance(g, 0.5), request: between(g, 0, trust(c.LeaseDuration,
		c.StopTimeout)/4)}
}
