package model

// Own is the protocol with Via empty: the election's own record is renewed, and is its own heartbeat.
type Own struct {
	Procs int   // at most 3
	D     uint8 // ticks from sending to the deadline
	W     uint8 // ticks after which an observer takes an unchanged record for run out
	Late  int   // requests on their way that nobody waits for any more; at most 2
	Tasks int   // tasks on their way; at most 2

	Crashes, Losses, Releases uint8 // how many of each may happen, or Unlimited

	Mutant Mutant
}

type ownState struct {
	election record
	procs    [3]ownProc
	late     lateRequests
	worker   worker
	granted  uint8 // the highest epoch ever granted: not known to any process
	next     uint8 // the next number to be drawn
	faults
}

// ownProc is the memory of one process.
type ownProc struct {
	inc   uint8    // its incarnation
	left  uint8    // ticks until its deadline: it believes while there are any
	epoch uint8    // of its term
	seen  record   // the record as last seen; rev 0 if it must be read first
	age   uint8    // ticks for which seen has not changed
	tries attempts // its writes whose record it would recognize
	call  call
}

func (s *ownState) draw() uint8 {
	s.next++
	return s.next - 1
}

// Start returns a store in which the election is vacant, and processes that know nothing.
func (m *Own) Start() ownState {
	s := ownState{next: firstFresh, faults: faults{m.Crashes, m.Losses, m.Releases}}
	s.election.rev = revCurrent
	for i := range m.Procs {
		s.procs[i].inc = s.draw()
	}

	return s
}

// Elections returns 1.
func (m *Own) Elections() int { return 1 }

// Believers returns how many processes have a deadline that has not passed.
func (m *Own) Believers(s *ownState, _ int) int {
	n := 0
	for i := range m.Procs {
		if s.procs[i].left > 0 {
			n++
		}
	}

	return n
}

// Steps emits what time, processes, network, store and worker may do next. A process that is paused is one that takes
// no step.
func (m *Own) Steps(s *ownState, emit func(Step, *ownState)) {
	m.tick(s, emit)
	for i := range m.Procs {
		switch c := &s.procs[i].call; {
		case c.verb == idle:
			m.decide(s, i, emit)
		case !c.done:
			m.apply(s, i, emit)
		default:
			m.answer(s, i, emit)
		}

		m.lose(s, i, emit)
		m.crash(s, i, emit)
		if t := *s; s.procs[i].left > 0 && t.worker.dispatch(s.procs[i].epoch, m.Tasks) {
			emit(Step{Verb: Dispatch, Who: uint8(i)}, &t)
		}
	}

	applyLate(s, func(s *ownState) *lateRequests { return &s.late }, m.swap, emit)
	deliverTasks(s, func(s *ownState) *worker { return &s.worker }, m.Mutant != NoFence, emit)
}

// tick lets one tick pass on all clocks. Rates are equal here: what real ones lack is part of D (rule 1).
func (m *Own) tick(s *ownState, emit func(Step, *ownState)) {
	t := *s
	step := Step{Verb: Tick, Fair: true}
	for i := range m.Procs {
		p := &t.procs[i]
		if p.left == 1 {
			step.Fair = false // it would have renewed
		}

		p.left -= min(p.left, 1)
		p.age = min(p.age+1, m.W)
		p.tries.tick(m.D)
		p.call.age = min(p.call.age+1, m.W)
	}

	emit(step, &t)
}

// decide emits the requests that a process may send next.
func (m *Own) decide(s *ownState, i int, emit func(Step, *ownState)) {
	p := &s.procs[i]
	send := func(v Verb, change func(*ownState, *ownProc, *request)) {
		t := *s
		q := &t.procs[i]
		r := request{verb: v, to: q.seen}
		change(&t, q, &r)
		q.call = call{request: r}
		emit(Step{Verb: v, Who: uint8(i), Fair: v != Release || p.left == 0}, &t)
	}

	attempt := func(t *ownState, q *ownProc, r *request) {
		r.to.holder, r.to.nonce = q.inc, t.draw()
		if r.verb == Claim {
			r.to.epoch++
		}

		q.tries.add(r.to.nonce)
	}

	m.read(s, i, emit)
	if p.seen.rev == 0 || p.seen.rev != s.election.rev && !m.keepsStale() {
		return // a swap would be refused, whenever it came
	}

	mine := p.seen.holder == p.inc
	if p.seen.holder == 0 || !mine && p.age >= m.W {
		send(Claim, attempt)
	}

	if mine && p.left > 0 {
		send(Renew, attempt)
	}

	if mine && (p.left == 0 || s.releases > 0) {
		send(Release, func(t *ownState, q *ownProc, r *request) {
			if q.left > 0 {
				take(&t.releases)
			}

			q.left = 0
			// From here on no read may bring the claim back: a process that does not know the nonce does not hold the
			// election.
			if m.Mutant != BelieveAfterRelease {
				q.tries = attempts{}
			}

			r.to.holder, r.to.nonce = 0, t.draw()
			if m.Mutant == ReleaseResetsEpoch || m.Mutant == ReleaseDeletes {
				r.to.epoch = 0
			}
		})
	}
}

// read lets a process read the record. Sending is no step of its own, since nothing in the protocol depends on when
// it was: to wait on the way to the store is to be sent later.
func (m *Own) read(s *ownState, i int, emit func(Step, *ownState)) {
	t := *s
	t.procs[i].call = call{request: request{verb: Read}, done: true, got: t.election}
	if m.Mutant == StampBeforeRead { // here it does
		t.procs[i].call = call{request: request{verb: Read}}
	}

	emit(Step{Verb: Read, Who: uint8(i), Fair: true}, &t)
}

// swap applies or refuses a swap.
func (m *Own) swap(s *ownState, r request) (ok bool, breaks Property, seen Witness) {
	if m.Mutant.checked(r.verb) && r.to.rev != s.election.rev {
		return false, 0, Conflicted
	}

	if r.verb == Claim {
		seen = TookOverRunOut
		if s.election.holder == 0 {
			seen = TookOverRelease
		}

		if r.to.epoch <= s.granted {
			breaks = OneGrant
		}

		s.granted = r.to.epoch
	}

	rev := s.draw()
	switch {
	case m.Mutant == ReusedRevision:
		rev = s.election.rev ^ 1
	case m.Mutant == ReleaseDeletes && r.verb == Release:
		rev = revCurrent // as in the beginning
	}

	s.election = r.to
	s.election.rev = rev
	return true, breaks, seen
}

// apply lets the request of a process reach the store.
func (m *Own) apply(s *ownState, i int, emit func(Step, *ownState)) {
	t := *s
	c := &t.procs[i].call
	c.done = true
	step := Step{Verb: Apply, Who: uint8(i), Fair: true}
	if c.verb != Read {
		c.ok, step.Breaks, step.Seen = m.swap(&t, c.request)
	}

	c.got = t.election
	emit(step, &t)
}

// answer lets a process learn what became of its request.
func (m *Own) answer(s *ownState, i int, emit func(Step, *ownState)) {
	t := *s
	p := &t.procs[i]
	c := p.call
	p.call = call{}
	step := Step{Verb: Answer, Who: uint8(i), Fair: true}
	switch {
	case c.verb == Read:
		step.Seen = m.learn(p, c)
	case !c.ok:
		p.refuse()
	default:
		p.seen, p.age = c.got, 0
		if k := p.tries.find(c.to.nonce); k >= 0 && c.verb != Release {
			step.Seen = m.believe(p, k, m.Mutant == DeadlineFromAnswer)
		}
	}

	emit(step, &t)
}

// refuse takes in that a swap was not applied: the process must read next. The old deadline stands until then.
func (p *ownProc) refuse() {
	p.call = call{}
	p.seen = record{}
	p.age = 0
}

// learn takes in a read.
func (m *Own) learn(p *ownProc, c call) (seen Witness) {
	if c.got.rev != p.seen.rev {
		p.age = 0
		if m.Mutant == StampBeforeRead {
			p.age = c.age
		}
	}

	p.seen = c.got
	if p.seen.holder != p.inc {
		p.left = 0
		return 0
	}

	k := p.tries.find(p.seen.nonce)
	if m.Mutant == NonceOfProcess && p.tries[0].nonce != 0 {
		k = 0
	}

	if k < 0 {
		p.left = 0
		return VacatedUnknown
	}

	seen = Adopted
	if k > 0 {
		seen |= AdoptedEarlier
	}

	return seen | m.believe(p, k, m.Mutant == UnknownAsOfRead)
}

// believe sets the deadline by attempt k, of which the process has learned that it was applied.
func (m *Own) believe(p *ownProc, k int, fromNow bool) (seen Witness) {
	p.left = m.D - min(p.tries[k].age, m.D)
	if fromNow {
		p.left = m.D
	}

	p.epoch = p.seen.epoch
	if p.tries[k].age > 0 && p.left > 0 {
		seen = BelievedThroughGap
	}

	return seen
}

// lose emits the ways in which the outcome of a swap stays unknown. A read that is lost is as good as one not sent.
func (m *Own) lose(s *ownState, i int, emit func(Step, *ownState)) {
	c := &s.procs[i].call
	if c.verb == idle || c.verb.isRead() || s.losses == 0 {
		return
	}

	t := *s
	take(&t.losses)
	t.procs[i].call = call{}
	emitLoss(&t, i, *c, func(r request) bool { return t.late.add(r, m.Late) }, emit)
}

// crash makes a process lose its memory. It starts again at once, or never: then it takes no more steps.
func (m *Own) crash(s *ownState, i int, emit func(Step, *ownState)) {
	if s.crashes == 0 {
		return
	}

	t := *s
	take(&t.crashes)
	c := s.procs[i].call
	t.procs[i] = ownProc{inc: t.draw()}
	emit(Step{Verb: Crash, Who: uint8(i)}, &t)
	if c.verb != idle && !c.verb.isRead() && !c.done && t.late.add(c.request, m.Late) {
		emit(Step{Verb: CrashLate, Who: uint8(i)}, &t)
	}
}
