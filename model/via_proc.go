package model

// send emits the sending of a swap by process i. Change fills it in, and changes the memory of the process. A swap
// that would be refused whenever it came is left out: what the process learns from it, it learns from a read.
func (m *Via) send(s *viaState, i int, v Verb, at uint8, fair bool, emit func(Step, *viaState), change func(*viaState,
	*viaProc, *request)) {
	t := *s
	p := &t.procs[i]
	r := request{verb: v, at: at}
	change(&t, p, &r)
	if r.to.rev != t.register(r).rev && !m.Mutant.remembersStale(v) {
		return
	}

	p.call = call{request: r}
	emit(Step{Verb: v, Who: uint8(i), Election: at, Fair: fair}, &t)
}

// read lets a process read a register. Sending is no step of its own, since the protocol depends only on what a
// process did before it sent: to wait on the way to the store is to be sent later.
func (m *Via) read(s *viaState, i int, v Verb, at uint8, emit func(Step, *viaState)) {
	t := *s
	c := &t.procs[i].call
	*c = call{request: request{verb: v, at: at}}
	if m.Mutant != StampBeforeRead { // there it does
		c.got, c.done = *t.register(c.request), true
	}

	emit(Step{Verb: v, Who: uint8(i), Election: at, Fair: true}, &t)
}

// decideOut emits the requests of a process that has no incarnation: it joins on a vacant register, or over an
// incarnation that it has ended itself. Any other must run out first, and be revoked, like that of any holder.
func (m *Via) decideOut(s *viaState, i int, emit func(Step, *viaState)) {
	p := &s.procs[i]
	own := m.Members[i]
	m.read(s, i, ReadHolder, own, emit)
	if p.watch.what == dead || p.watch.what == alive && m.Mutant == JoinOverLive {
		m.send(s, i, Join, own, true, emit, func(t *viaState, p *viaProc, r *request) {
			p.inc = t.draw()
			if m.Mutant == ReusedIncarnation && p.last != 0 {
				p.inc = p.last
			}

			r.to = record{rev: p.watch.rev, holder: p.inc, nonce: t.draw()}
			p.tries.add(r.to.nonce)
			p.watch = watch{}
		})
	}

	if p.watch.what == alive && p.watch.age >= m.W {
		m.send(s, i, Revoke, own, true, emit, m.revoke)
	}
}

// decideIn emits the requests of a process that has an incarnation.
func (m *Via) decideIn(s *viaState, i int, emit func(Step, *viaState)) {
	p := &s.procs[i]
	own := m.Members[i]
	if p.beat == 0 || p.beat != s.members[own].rev { // or a heartbeat would be refused
		m.read(s, i, ReadSelf, own, emit)
	}

	if p.left == 0 {
		t := *s
		m.end(&t.procs[i])
		emit(Step{Verb: End, Who: uint8(i), Fair: true}, &t)
		return
	}

	if p.beat != 0 {
		m.send(s, i, Renew, own, true, emit, func(t *viaState, p *viaProc, r *request) {
			r.to = record{rev: p.beat, holder: p.inc, nonce: t.draw()}
			p.tries.add(r.to.nonce)
		})
		if s.releases > 0 {
			m.send(s, i, Leave, own, false, emit, m.leave)
		}
	}

	for election := range m.ElectionCount {
		m.read(s, i, Read, uint8(election), emit)
	}

	if p.seen.rev != 0 {
		m.decideElection(s, i, emit)
	}
}

// decideElection emits the requests of a process about the election that it reads.
func (m *Via) decideElection(s *viaState, i int, emit func(Step, *viaState)) {
	p := &s.procs[i]
	held := p.held[p.election] > 0
	switch {
	case p.seen.holder == 0:
		m.send(s, i, Claim, p.election, true, emit, m.claim(i))
	case p.seen.holder == p.inc && held && s.releases > 0:
		m.send(s, i, Release, p.election, false, emit, m.release)
	case p.seen.holder == p.inc && held:
	case p.seen.holder == p.inc && m.Mutant != IgnoreOwnElection:
		m.send(s, i, Release, p.election, true, emit, m.release)
	case p.seen.holder == p.inc:
	default:
		m.read(s, i, ReadHolder, p.seen.via, emit)
		ranOut := p.watch.what == alive && p.watch.age >= m.W
		if p.watch.what == dead || ranOut && m.Mutant == ClaimUnrevoked {
			m.send(s, i, Claim, p.election, true, emit, m.claim(i))
		}

		if ranOut {
			m.send(s, i, Revoke, p.seen.via, true, emit, m.revoke)
		}
	}
}

func (m *Via) claim(i int) func(*viaState, *viaProc, *request) {
	return func(t *viaState, p *viaProc, r *request) {
		r.to = record{rev: p.seen.rev, holder: p.inc, via: m.Members[i], epoch: p.seen.epoch + 1, nonce: t.draw()}
		p.claims[p.election] = r.to.nonce
	}
}

func (m *Via) release(t *viaState, p *viaProc, r *request) {
	if p.held[p.election] > 0 {
		take(&t.releases)
	}

	p.held[p.election] = 0
	// From here on no read may bring the claim back: a process that does not know the nonce does not hold the election.
	if m.Mutant != BelieveAfterRelease {
		p.claims[p.election] = 0
	}

	r.to = record{rev: p.seen.rev, epoch: p.seen.epoch, nonce: t.draw()}
	if m.Mutant == ReleaseResetsEpoch || m.Mutant == ReleaseDeletes {
		r.to.epoch = 0
	}
}

func (m *Via) revoke(t *viaState, p *viaProc, r *request) {
	r.to = record{rev: p.watch.rev, nonce: t.draw()}
}

func (m *Via) leave(t *viaState, p *viaProc, r *request) {
	take(&t.releases)
	r.to = record{rev: p.beat, nonce: t.draw()}
	if m.Mutant == BelieveAfterLeave {
		p.left, p.beat = 0, 0
		return
	}

	m.end(p) // once it is sent, the incarnation is never believed again
}

// end gives up the incarnation and all that depends on it. The nonces of claims stay, and mean nothing under another
// one.
func (m *Via) end(p *viaProc) {
	old := *p
	*p = viaProc{last: old.inc, claims: old.claims}
	if m.Mutant == ReturnBelieving {
		p.held = old.held
	}
}

// answer lets a process learn what became of its request.
func (m *Via) answer(s *viaState, i int, emit func(Step, *viaState)) {
	t := *s
	p := &t.procs[i]
	c := p.call
	p.call = call{}
	step := Step{Verb: Answer, Who: uint8(i), Election: c.at, Fair: true}
	switch c.verb {
	case Read:
		step.Seen = m.learnElection(p, c)
	case ReadSelf:
		step.Seen = m.learnSelf(p, c)
	case ReadHolder:
		step.Seen = m.learnHolder(p, c)
	default:
		if c.ok {
			step.Seen = m.applied(p, c)
		} else {
			m.refused(p, c.verb)
		}
	}

	emit(step, &t)
}

// applied takes in that a swap was applied.
func (m *Via) applied(p *viaProc, c call) (seen Witness) {
	switch c.verb {
	case Claim:
		p.held[c.at] = c.got.epoch
		p.election = c.at
		p.seen = c.got
		p.watch = watch{}
	case Release:
		p.election = c.at
		p.seen = c.got
		p.watch = watch{}
	case Join, Renew:
		p.beat = c.got.rev
		if k := p.tries.find(c.to.nonce); k >= 0 {
			return m.believe(p, k, m.Mutant == DeadlineFromAnswer)
		}
	case Leave:
		if p.inc != 0 { // a mutant
			m.end(p)
		}

		p.watch = watch{what: dead, rev: c.got.rev}
	case Revoke:
		p.watch = watch{what: dead, rev: c.got.rev}
	}

	return 0
}

// refused takes in that a swap was not applied: the process must read next. Deadlines stand until then.
func (m *Via) refused(p *viaProc, v Verb) {
	p.call = call{}
	m.unknown(p, v)
	if v == Join || v == Leave && p.inc != 0 {
		m.end(p)
	}
}

// unknown makes the process read what it does not know any more.
func (m *Via) unknown(p *viaProc, v Verb) {
	switch v {
	case Claim, Release:
		p.seen, p.watch = record{}, watch{}
	case Join, Renew:
		p.beat = 0
	case Leave, Revoke:
		p.watch = watch{}
	}
}

// learnSelf takes in a read of the own heartbeat register: the own incarnation, a known nonce and a
// deadline that has not passed, or the end.
func (m *Via) learnSelf(p *viaProc, c call) (seen Witness) {
	k := p.tries.find(c.got.nonce)
	if m.Mutant == NonceOfProcess && p.tries[0].nonce != 0 {
		k = 0
	}

	if c.got.holder != p.inc || k < 0 {
		m.end(p)
		return 0
	}

	p.beat = c.got.rev
	seen = Adopted | m.believe(p, k, m.Mutant == UnknownAsOfRead)
	if k > 0 {
		seen |= AdoptedEarlier
	}

	if p.left == 0 {
		m.end(p)
		return 0
	}

	return seen
}

// believe sets the deadline by attempt k, of which the process has learned that it was applied.
func (m *Via) believe(p *viaProc, k int, fromNow bool) (seen Witness) {
	p.left = m.D - min(p.tries[k].age, m.D)
	if fromNow {
		p.left = m.D
	}

	if p.tries[k].age > 0 && p.left > 0 {
		seen = BelievedThroughGap
	}

	return seen
}

// learnHolder takes in a read of the heartbeat register that is in the way.
func (m *Via) learnHolder(p *viaProc, c call) (seen Witness) {
	gone := c.got.holder != p.seen.holder
	if p.inc == 0 {
		gone = c.got.holder == 0 || c.got.holder == p.last
	} else if gone {
		seen = FreedByOneDeath
	}

	switch {
	case gone:
		p.watch = watch{what: dead, rev: c.got.rev}
	case p.watch.what != alive || c.got.rev != p.watch.rev:
		p.watch = watch{what: alive, rev: c.got.rev}
		if m.Mutant == StampBeforeRead {
			p.watch.age = c.age
		}
	}

	return seen
}

// learnElection takes in a read of an election. A known nonce under the present incarnation means that the election is
// held.
func (m *Via) learnElection(p *viaProc, c call) (seen Witness) {
	if c.at != p.election || c.got.rev != p.seen.rev {
		// What was known of a heartbeat was read before this record was received, and proves nothing about its holder.
		if m.Mutant != OldDeath || p.watch.what != dead || c.got.via != p.seen.via {
			p.watch = watch{}
		}
	}

	p.election, p.seen = c.at, c.got
	known := p.seen.nonce != 0 && p.seen.nonce == p.claims[p.election]
	mine := p.seen.holder == p.inc || m.Mutant == ClaimOfEarlier && p.seen.holder != 0
	switch {
	case mine && known && p.held[p.election] == 0:
		p.held[p.election] = p.seen.epoch
		return Adopted
	case mine && known:
	default:
		p.held[p.election] = 0
		if mine {
			return VacatedUnknown
		}
	}

	return 0
}
