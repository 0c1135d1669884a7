package model

// Via is the protocol in which elections are kept alive by the heartbeat of their holder's member register.
type Via struct {
	Members       []uint8 // the member ID of each process: two processes may have one ID; at most 3
	ElectionCount int     // elections; at most 2
	D             uint8   // ticks from sending a heartbeat to the deadline
	W             uint8   // ticks after which an observer takes an unchanged heartbeat for run out
	Late          int     // requests on their way that nobody waits for any more; at most 2
	Tasks         int     // tasks on their way, all for the first election; at most 2

	Crashes, Losses, Releases uint8 // how many of each may happen, or Unlimited

	Begin Beginning

	Mutant Mutant
}

// Beginning is where a run of Via begins. Later ones are reachable from the first: they make for shorter traces.
type Beginning uint8

const (
	Vacant Beginning = iota // all registers are vacant
	Joined                  // all processes have just joined; each must have an ID of its own
	Held                    // the first process holds the first election besides
)

type viaState struct {
	members   [3]record // the heartbeat registers
	elections [2]record
	procs     [3]viaProc
	late      lateRequests
	worker    worker
	granted   [2]uint8 // the highest epoch ever granted: not known to any process
	next      uint8    // the next number to be drawn
	faults
}

// viaProc is the memory of one process.
type viaProc struct {
	inc      uint8    // its incarnation, from the moment in which it sends the join; 0 if it has none
	last     uint8    // the incarnation that it ended last
	left     uint8    // ticks until the deadline of its heartbeat
	beat     uint8    // the revision of its heartbeat register; 0 if it must be read first
	tries    attempts // its heartbeats whose record it would recognize
	claims   [2]uint8 // the nonces of its last claims, by election
	held     [2]uint8 // the epochs of the elections that it holds as long as its heartbeat counts; 0 if it does not
	election uint8    // the election that it reads
	seen     record   // the record of that election as last seen; rev 0 if it must be read first
	watch    watch
	call     call
}

// watch is what a process knows of a heartbeat register that is in its way: of the holder of the election that it
// reads, or, as long as it has not joined, of its own ID.
type watch struct {
	what sight
	rev  uint8
	age  uint8 // ticks for which rev has not changed
}

type sight uint8

const (
	unread sight = iota
	alive        // it may still be alive
	dead         // it is dead for good
)

func (s *viaState) draw() uint8 {
	s.next++
	return s.next - 1
}

// Start returns a store in which everything is vacant, and processes that know nothing, unless they have joined.
func (m *Via) Start() viaState {
	s := viaState{next: firstFresh, faults: faults{m.Crashes, m.Losses, m.Releases}}
	for i := range s.members {
		s.members[i].rev = revCurrent
	}

	for i := range s.elections {
		s.elections[i].rev = revCurrent
	}

	if m.Begin == Vacant {
		return s
	}

	for i, id := range m.Members {
		p := &s.procs[i]
		s.members[id] = record{rev: revCurrent, holder: s.draw(), nonce: s.draw()}
		p.inc = s.members[id].holder
		p.left = m.D
		p.beat = revCurrent
		p.tries.add(s.members[id].nonce)
	}

	if m.Begin == Held {
		p := &s.procs[0]
		s.elections[0] = record{rev: revCurrent, holder: p.inc, via: m.Members[0], epoch: 1, nonce: s.draw()}
		s.granted[0] = 1
		p.held[0] = 1
		p.claims[0] = s.elections[0].nonce
		p.seen = s.elections[0]
	}

	return s
}

// Elections returns how many elections there are.
func (m *Via) Elections() int { return m.ElectionCount }

// Believers returns how many processes hold the election under a heartbeat whose deadline has not passed.
func (m *Via) Believers(s *viaState, election int) int {
	n := 0
	for i := range m.Members {
		if s.procs[i].believes(election) {
			n++
		}
	}

	return n
}

func (p *viaProc) believes(election int) bool { return p.held[election] > 0 && p.left > 0 }

// Steps emits what time, processes, network, store and worker may do next. A process that is paused is one that takes
// no step.
func (m *Via) Steps(s *viaState, emit func(Step, *viaState)) {
	m.tick(s, emit)
	for i := range m.Members {
		switch p := &s.procs[i]; {
		case p.call.verb == idle && p.inc == 0:
			m.decideOut(s, i, emit)
		case p.call.verb == idle:
			m.decideIn(s, i, emit)
		case !p.call.done:
			m.apply(s, i, emit)
		default:
			m.answer(s, i, emit)
		}

		m.lose(s, i, emit)
		m.crash(s, i, emit)
		if t := *s; s.procs[i].believes(0) && t.worker.dispatch(s.procs[i].held[0], m.Tasks) {
			emit(Step{Verb: Dispatch, Who: uint8(i)}, &t)
		}
	}

	applyLate(s, func(s *viaState) *lateRequests { return &s.late }, m.swap, emit)
	deliverTasks(s, func(s *viaState) *worker { return &s.worker }, m.Mutant != NoFence, emit)
}

// tick lets one tick pass on all clocks. Rates are equal here: what real ones lack is part of D (rule 1).
func (m *Via) tick(s *viaState, emit func(Step, *viaState)) {
	t := *s
	step := Step{Verb: Tick, Fair: true}
	for i := range m.Members {
		p := &t.procs[i]
		if p.left == 1 {
			step.Fair = false // it would have sent a heartbeat
		}

		p.left -= min(p.left, 1)
		p.watch.age = min(p.watch.age+1, m.W)
		p.tries.tick(m.D)
		p.call.age = min(p.call.age+1, m.W)
	}

	emit(step, &t)
}

// apply lets the request of a process reach the store.
func (m *Via) apply(s *viaState, i int, emit func(Step, *viaState)) {
	t := *s
	c := &t.procs[i].call
	c.done = true
	step := Step{Verb: Apply, Who: uint8(i), Election: c.at, Fair: true}
	if !c.verb.isRead() {
		c.ok, step.Breaks, step.Seen = m.swap(&t, c.request)
	}

	c.got = *t.register(c.request)
	emit(step, &t)
}

// register returns the register that a request is about.
func (s *viaState) register(r request) *record {
	switch r.verb {
	case Read, Claim, Release:
		return &s.elections[r.at]
	}

	return &s.members[r.at]
}

// swap applies or refuses a swap.
func (m *Via) swap(s *viaState, r request) (ok bool, breaks Property, seen Witness) {
	reg := s.register(r)
	if m.Mutant.checked(r.verb) && r.to.rev != reg.rev {
		return false, 0, Conflicted
	}

	switch r.verb {
	case Claim:
		seen = TookOverRunOut
		if reg.holder == 0 {
			seen = TookOverRelease
		}

		if r.to.epoch <= s.granted[r.at] {
			breaks = OneGrant
		}

		s.granted[r.at] = r.to.epoch
	case Join:
		if reg.holder != 0 {
			seen = JoinedOverOwn
		}

		for i := range m.ElectionCount {
			if s.elections[i].holder != 0 && s.elections[i].via == r.at {
				seen |= Rejoined
			}
		}
	case Revoke:
		seen = Revoked
	case Leave:
		seen = Left
	}

	rev := s.draw()
	switch {
	case m.Mutant == ReusedRevision:
		rev = reg.rev ^ 1
	case m.Mutant == ReleaseDeletes && r.verb == Release:
		rev = revCurrent // as in the beginning
	}

	*reg = r.to
	reg.rev = rev
	return true, breaks, seen
}

// lose emits the ways in which the outcome of a swap stays unknown. A read that is lost is as good as one not sent.
func (m *Via) lose(s *viaState, i int, emit func(Step, *viaState)) {
	c := &s.procs[i].call
	if c.verb == idle || c.verb.isRead() || s.losses == 0 {
		return
	}

	t := *s
	take(&t.losses)
	p := &t.procs[i]
	p.call = call{}
	m.unknown(p, c.verb)
	emitLoss(&t, i, *c, func(r request) bool { return t.late.add(r, m.Late) }, emit)
}

// crash makes a process lose its memory. It starts again at once, or never: then it takes no more steps.
func (m *Via) crash(s *viaState, i int, emit func(Step, *viaState)) {
	if s.crashes == 0 || s.procs[i] == (viaProc{}) {
		return
	}

	t := *s
	take(&t.crashes)
	c := s.procs[i].call
	t.procs[i] = viaProc{}
	emit(Step{Verb: Crash, Who: uint8(i)}, &t)
	if c.verb != idle && !c.verb.isRead() && !c.done && t.late.add(c.request, m.Late) {
		emit(Step{Verb: CrashLate, Who: uint8(i)}, &t)
	}
}
