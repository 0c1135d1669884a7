package model

// The numbers that Canon gives to incarnations in Via.
const (
	incLive     = 1  // of the first process that has one
	incEnded    = 4  // by the first process
	incStranger = 7  // of no process, but in a heartbeat register, or on its way there
	incGone     = 15 // of no process, and never again in a heartbeat register: these are all alike
)

// Canon rewrites s into its representative: it forgets what can make no difference any more, renumbers what is only
// compared, and puts into an order what has none.
func (m *Via) Canon(s *viaState) {
	m.canonLate(s)
	for i := range m.Members {
		m.canonStale(s, i)
	}

	m.canonNonces(s)
	for i := range m.Members {
		m.canonCall(s, i)
		m.canonProc(s, i)
	}

	// the names of strangers depend on their order
	s.sortLate(func(r request) uint64 { r.to.holder = 0; return r.key() })
	m.canonIncarnations(s)
	s.sortLate(func(r request) uint64 { return r.key() })
	for election := range m.ElectionCount {
		m.canonEpochs(s, uint8(election))
	}

	s.worker.sort()
	if !m.Mutant.repeatsRevisions() {
		for i := range s.members {
			s.members[i].rev = revCurrent
		}

		for i := range s.elections {
			s.elections[i].rev = revCurrent
		}
	}

	if m.Mutant != ReleaseDeletes {
		s.next = firstFresh
	}
}

func (s *viaState) sortLate(key func(request) uint64) {
	if key(s.late[0]) < key(s.late[1]) {
		s.late[0], s.late[1] = s.late[1], s.late[0]
	}
}

// rev renumbers a revision of a register, of which same is the one that is remembered beside it.
func (m *Via) rev(reg *record, rev, same uint8) uint8 {
	switch {
	case rev == 0 || m.Mutant.repeatsRevisions():
		return rev
	case rev == reg.rev:
		return revCurrent
	case rev == same:
		return revSame
	}

	return revOther
}

// canonLate drops late requests that can only be refused.
func (m *Via) canonLate(s *viaState) {
	for k := range s.late {
		r := &s.late[k]
		switch {
		case r.verb == idle:
		case r.to.rev != s.register(*r).rev && !m.Mutant.remembersStale(r.verb):
			*r = request{}
		case !m.Mutant.repeatsRevisions():
			r.to.rev = revCurrent // or it does not matter
		}
	}
}

// canonStale takes in refusals at once, since to wait for one is to do nothing, and forgets what can only lead to one.
func (m *Via) canonStale(s *viaState, i int) {
	p := &s.procs[i]
	c := &p.call
	if c.verb != idle && !c.verb.isRead() {
		stale := !c.done && c.to.rev != s.register(c.request).rev && !m.Mutant.remembersStale(c.verb)
		if stale || c.done && !c.ok {
			m.refused(p, c.verb)
		}
	}

	if m.Mutant.repeatsRevisions() {
		return
	}

	watched := &s.members[m.Members[i]]
	if p.inc != 0 {
		watched = &s.members[p.seen.via]
	}

	useless := m.Mutant.checked(Revoke) && m.Mutant != ClaimUnrevoked
	if p.watch.rev != watched.rev && (p.watch.what == alive && useless || p.watch.what == dead && p.inc == 0) {
		p.watch = watch{}
	}

	if p.seen.rev == 0 || m.Mutant == OldDeath || !m.Mutant.checked(Release) {
		return
	}

	held := p.seen.holder == p.inc && p.held[p.election] > 0
	refused := p.seen.holder == 0 || p.seen.holder == p.inc || p.watch.what == dead
	if p.seen.rev != s.elections[p.election].rev && refused || held && s.releases == 0 {
		p.seen, p.watch = record{}, watch{}
	}
}

// canonNonces renumbers nonces: of heartbeats by their places in the memory of their process, of claims by the process.
func (m *Via) canonNonces(s *viaState) {
	var beats [3]attempts
	var claims [3][2]uint8
	for i := range m.Members {
		p := &s.procs[i]
		if !m.Mutant.creditsOld() {
			p.tries.expire(m.D)
		}

		beats[i], claims[i] = p.tries, p.claims
		p.claims = [2]uint8{}
	}

	number := func(r *record, election int) {
		nonce := r.nonce
		r.nonce = 0
		for i := range m.Members {
			p := &s.procs[i]
			switch {
			case nonce == 0:
			case election < 0 && p.inc != 0 && r.holder == p.inc:
				r.nonce = uint8(beats[i].find(nonce) + 1)
			case election >= 0 && claims[i][election] == nonce && (r.holder == p.inc || m.keepsClaims()):
				r.nonce = 4 + uint8(i)
				p.claims[election] = r.nonce // somebody may still read it
			}
		}
	}

	for i := range s.members {
		number(&s.members[i], -1)
	}

	for i := range s.elections {
		number(&s.elections[i], i)
	}

	requests := func(r *request, records ...*record) {
		election := -1
		if r.verb == Read || r.verb == Claim || r.verb == Release {
			election = int(r.at)
		}

		for _, record := range records {
			number(record, election)
		}
	}

	for k := range s.late {
		requests(&s.late[k], &s.late[k].to)
	}

	for i := range m.Members {
		c := &s.procs[i].call
		if !c.verb.isRead() {
			c.got.nonce = 0
		}

		if c.done && c.verb == Claim {
			c.to.nonce = 0 // it has done its work
		}

		requests(&c.request, &c.to, &c.got)
		s.procs[i].seen.nonce = 0
		s.procs[i].tries.renumber()
	}
}

// keepsClaims reports whether the nonce of a claim may count although its incarnation has ended.
func (m *Via) keepsClaims() bool { return m.Mutant == ClaimOfEarlier || m.Mutant == ReusedIncarnation }

// canonCall forgets of a call what its outcome does not depend on.
func (m *Via) canonCall(s *viaState, i int) {
	p := &s.procs[i]
	c := &p.call
	if m.Mutant != StampBeforeRead || c.verb != ReadHolder {
		c.age = 0
	}

	if c.verb == idle {
		return
	}

	reg := s.register(c.request)
	var same uint8 // the revision that the answer will be compared with
	switch {
	case c.verb == Read:
		if c.at == p.election {
			same = p.seen.rev
		}

		if c.done && c.got.rev != reg.rev && c.got.holder != p.inc && !m.keepsEpochs() {
			c.got.epoch = 0
		}
	case c.verb == ReadSelf:
		if c.got.holder != p.inc {
			c.got = record{}
		}
	case c.verb == ReadHolder:
		same = p.watch.rev
		m.canonSight(p, c)
	case c.done:
		if c.verb == Join || c.verb == Renew {
			c.to, c.got = record{holder: c.to.holder, nonce: c.to.nonce}, record{rev: c.got.rev}
		} else {
			c.to = record{}
		}

		if c.verb == Revoke && p.inc != 0 {
			c.got.rev = 0
		}
	}

	c.to.rev, c.got.rev = m.rev(reg, c.to.rev, same), m.rev(reg, c.got.rev, same)
}

// canonSight keeps of a read of the heartbeat register in the way whether the holder is gone, and the revision if
// that matters.
func (m *Via) canonSight(p *viaProc, c *call) {
	got := &c.got
	got.nonce = 0
	switch {
	case !c.done:
	case p.inc != 0 && got.holder != p.seen.holder:
		*got = record{}
	case p.inc == 0 && got.holder == p.last:
		got.holder = 0
	case p.inc == 0 && got.holder != 0:
		got.holder = incGone
	}
}

func (m *Via) canonProc(s *viaState, i int) {
	p := &s.procs[i]
	own := &s.members[m.Members[i]]
	watched := own
	if p.inc != 0 {
		watched = &s.members[p.seen.via]
	}

	p.beat = m.rev(own, p.beat, p.beat)
	switch {
	case p.watch.what == unread, p.inc != 0 && p.watch.what == dead:
		p.watch = watch{what: p.watch.what}
	default:
		p.watch.rev = m.rev(watched, p.watch.rev, p.watch.rev)
	}

	if p.watch.what == dead {
		p.watch.age = 0
	}

	if p.seen.rev == 0 {
		p.election = 0
	}

	if p.seen.rev != s.elections[p.election].rev && !m.keepsEpochs() {
		p.seen.epoch = 0 // a request with it would be refused
	}

	p.seen.rev = m.rev(&s.elections[p.election], p.seen.rev, p.seen.rev)
	for election := range p.held {
		if p.held[election] > 0 && (election > 0 || m.Tasks == 0) {
			p.held[election] = 1
		}
	}
}

// keepsEpochs reports whether an epoch that was read before the record changed may still be written.
func (m *Via) keepsEpochs() bool { return m.Mutant.repeatsRevisions() || !m.Mutant.checked(Release) }
