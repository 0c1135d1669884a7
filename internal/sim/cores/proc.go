package cores

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// proc is one process: the shell of a core.
type proc struct {
	sim       *sim
	index     int
	name      string // in traces
	register  *register
	elections int // how many it campaigns in
	cfg       core.Config
	rate      float64 // of its clock
	offset    time.Duration

	run     int // counts its starts: what belongs to an earlier one is dropped
	core    *core.Core
	frozen  time.Duration // nothing happens in it before
	missed  []event       // what would have happened meanwhile
	link    link          // its way to the store
	gone    bool          // it never starts again
	reaps   bool          // it has a reaper
	reaper  *reaper       // of this run
	able    bool          // it can lead for ever: see RunLive
	wakeAt  core.Time
	waking  bool
	first   int       // the place of the first election that it campaigns in
	terms   []term    // of that election, and of the next
	beat    core.Time // the deadline of its member heartbeat; 0 if none counts
	reading bool      // the input is the answer to a read
	noticed bool      // the input is a notification
	returns bool      // the input is a candidacy
	before  uint64    // the last number before this step
	writes  bool      // what WritesInfo was before this step

	known // what the simulation knows of this run
}

// known is what the simulation knows of a run of a process, to check it.
type known struct {
	startedAt core.Time
	views     []view   // what it was shown
	unknown   []uint64 // the nonces of its writes whose answers were lost
	beatUntil core.Time
	renewedAt time.Duration   // when a deadline was last moved
	joinedAs  driver.Identity // the incarnation of the last heartbeat that it sent
	endedAs   driver.Identity
	dropped   bool          // it has lost its heartbeat, and duties may still run
	mustJoin  time.Duration // since when it must have sent the next join; 0 if it need not
	joins     bool          // it has read its register since
	closing   bool
	withdrawn int     // candidacies
	asked     []asked // requests of users without a result
	second    time.Duration
	sent      int    // requests in that second
	lastSent  uint64 // the number of the last request
	stepped   int    // steps in that second
}

// asked is a request of a user.
type asked struct {
	id    uint64
	at    time.Duration
	save  string // the checkpoint, if it is one
	lasts bool   // it takes long
}

// term is what a process has of an election.
type term struct {
	leading     bool // the term has begun, and not ended
	running     bool // its duty has not stopped
	late        bool // it takes longer than the stop timeout
	withdrawn   bool // the process does not campaign
	own         bool // it has a lease of its own
	epoch       uint64
	incarnation string
	deadline    core.Time // of a lease of its own; 0 if none counts
	until       core.Time // the last one
	stoppedAt   time.Duration
}

func (p *proc) Nonce() uint64   { return p.sim.number() }
func (p *proc) Wall() time.Time { return time.Time{} }

// Incarnation returns a name that tells whose it is.
func (p *proc) Incarnation() string {
	s := p.sim
	n := s.number()
	s.owners = append(s.owners, owner{n, p, p.run})
	return "i" + strconv.FormatUint(n, 10)
}

// clock is what the process takes for the time.
func (p *proc) clock() core.Time { return core.Time(float64(p.sim.now)*p.rate) + core.Time(p.offset) }

// duration turns a time by its clock into a true one.
func (p *proc) duration(d core.Time) time.Duration {
	if p.rate == 1 {
		return time.Duration(max(d, 0))
	}

	return time.Duration(float64(max(d, 0))/p.rate) + 1
}

// start starts the process, without memory.
func (p *proc) start() {
	if p.core != nil || p.gone {
		return
	}

	p.run++
	p.core = core.New(p.cfg, p)
	p.terms = make([]term, p.elections)
	p.reaper = nil
	if p.reaps {
		p.reaper = &reaper{proc: p, run: p.run, delay: p.sim.between(0, 2*time.Millisecond)}
	}

	p.beat = 0
	p.waking = false
	p.known = known{startedAt: p.clock(), views: p.views[:0], unknown: p.unknown[:0], asked: p.asked[:0]}
	if p.sim.trace != nil {
		p.note("starts as %s", p.cfg.ID)
	}

	for _, i := range p.places() {
		if p.sim.short(i) {
			p.term(i).withdrawn = true
			continue
		}

		p.step(core.Campaign{Election: p.sim.names[i]})
	}

	p.step(core.Join{})
}

func (p *proc) crash() {
	if p.core != nil {
		p.note("crashes")
		p.core = nil
		if p.reaper != nil {
			p.reaper.died()
		}
	}
}

// later has something happen in this run of the process, unless it is frozen by then: then it happens when it goes on.
func (p *proc) later(d time.Duration, do func()) {
	p.sim.queue.push(p.sim.now+d, event{proc: p, run: p.run, do: do})
}

// step gives one input to the core and does what it asks for.
func (p *proc) step(in core.Input) {
	s := p.sim
	if p.core == nil || s.err != nil {
		return
	}

	if s.trace != nil {
		p.traceInput(in)
	}

	s.steps++
	p.before = s.numbers
	p.writes = p.core.WritesInfo(p.clock())
	p.checkSteps()
	effects := p.core.Step(p.clock(), in)
	s.most = max(s.most, len(effects))
	s.spent = max(s.spent, p.core.Spent())
	if p.cfg.Watchers > 0 && s.reached&WatchedSeldom == 0 && p.core.WatchesSeldom() {
		s.reached |= WatchedSeldom
	}

	for _, e := range effects {
		if s.trace != nil {
			p.traceEffect(e)
		}

		p.do(e)
		if p.core == nil {
			return
		}
	}

	p.afterStep()
	p.sleep()
}

// do does what the core asks for.
func (p *proc) do(e core.Effect) {
	s := p.sim
	switch e := e.(type) {
	case core.Send:
		s.send(p, &e)
	case core.Begin:
		p.begin(&e)
	case core.Renewed:
		p.renewed(e.Register, e.Deadline)
	case core.End:
		p.endTerm(&e)
	case core.Event:
		p.event(&e)
	case core.Result:
		p.result(&e)
	case core.Lifeline:
		p.report(&e)
	case core.Closed:
		p.core = nil
		s.reached |= LeftCluster
		s.after(s.between(0, 5*time.Second), p.start)
	}
}

func (p *proc) begin(e *core.Begin) {
	s := p.sim
	i := s.places[e.Election]
	p.checkBegin(i, e)
	p.checkSteady("begins", e.Election, e.Epoch)
	*p.term(i) = term{
		leading: true, running: true, own: e.Register == e.Election, epoch: e.Epoch, incarnation: e.Incarnation,
		withdrawn: p.term(i).withdrawn,
	}
	p.renewed(e.Register, e.Deadline)
	s.reached |= Began
	if p.reading {
		s.reached |= AdoptedClaim
	}
}

// renewed takes in the deadline of a heartbeat register.
func (p *proc) renewed(register string, deadline core.Time) {
	s := p.sim
	if strings.HasPrefix(register, driver.MemberPrefix) {
		p.beat = deadline
		if deadline == 0 {
			p.endedAs = p.joinedAs
			return
		}

		p.beatUntil = deadline
		p.renewedAt = s.now
		for _, i := range p.places() {
			if p.term(i).leading {
				s.checkLeaders(i)
			}
		}

		return
	}

	i := s.places[register]
	p.term(i).deadline = deadline
	if deadline != 0 {
		p.renewedAt = s.now
		p.term(i).until = deadline
		s.checkLeaders(i)
	}
}

func (p *proc) endTerm(e *core.End) {
	s := p.sim
	i := s.places[e.Election]
	p.checkDeadline(i)
	p.checkSteady("ends", e.Election, e.Epoch)
	if e.Cause == core.Unhealthy {
		s.reached |= HandedOverUnhealthy
	}

	p.term(i).leading = false
	epoch := e.Epoch
	stops := s.dutyTime()
	p.term(i).late = stops > p.cfg.StopTimeout
	p.later(stops, func() {
		p.term(i).running = false
		p.term(i).stoppedAt = s.now
		p.step(core.DutyStopped{Election: s.names[i], Epoch: epoch})
	})
}

func (p *proc) event(e *core.Event) {
	switch e.Kind {
	case core.EventDutyStuck:
		p.sim.reached |= DutyStuck
	case core.EventDropped:
		p.dropped = true
		p.joins = false
	}
}

func (p *proc) result(e *core.Result) {
	s := p.sim
	k := slices.IndexFunc(p.asked, func(a asked) bool { return a.id == e.ID })
	if k < 0 {
		s.fail("p%d answers request %d, which nobody has made or which was answered", p.index, e.ID)
		return
	}

	a := p.asked[k]
	p.asked = slices.Delete(p.asked, k, k+1)
	if a.save == "" || e.Result != core.OK {
		return
	}

	s.reached |= SavedCheckpoint
	if !slices.Contains(s.stored, a.save) {
		s.fail("p%d says that checkpoint %q is saved, and the store never took it", p.index, a.save)
	}
}

// sleep has the core called when it has asked for that.
func (p *proc) sleep() {
	at := p.core.Next()
	if at == core.Never || p.waking && p.wakeAt <= at {
		return
	}

	p.waking = true
	p.wakeAt = at
	s := p.sim
	s.queue.push(s.now+p.duration(at-p.clock()), event{kind: tickEvent, proc: p, run: p.run, at: at})
}

// tick calls the core, unless it has asked for another time meanwhile.
func (p *proc) tick(at core.Time) {
	if !p.waking || p.wakeAt != at {
		return
	}

	p.waking = false
	if p.core.Next() > p.clock() {
		p.sleep()
		return
	}

	p.step(core.Tick{})
}

// places returns the places of the elections that the process campaigns in.
func (p *proc) places() []int { return p.sim.order[p.first : p.first+p.elections] }

// term returns what the process has of the election at a place.
func (p *proc) term(i int) *term { return &p.terms[i-p.first] }

// leads reports whether the process believes that it leads, by its own clock.
func (p *proc) leads(i int) bool {
	if p.core == nil || !p.term(i).leading {
		return false
	}

	return p.clock() < p.deadline(i)
}

// deadline is that of a term.
func (p *proc) deadline(i int) core.Time {
	if p.term(i).own {
		return p.term(i).deadline
	}

	return p.beat
}
