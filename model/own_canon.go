package model

// The numbers that Canon gives to incarnations: only whether a record names oneself matters to a process.
const (
	incSelf  = 14
	incOther = 15
)

// Canon rewrites s into its representative: it forgets what can make no difference any more, renumbers what is only
// compared, and puts into an order what has none.
func (m *Own) Canon(s *ownState) {
	if !m.Mutant.creditsOld() {
		for i := range m.Procs {
			s.procs[i].tries.expire(m.D)
		}
	}

	s.election.nonce = m.known(s, s.election)
	m.canonLate(s)
	for i := range m.Procs {
		m.canonProc(s, &s.procs[i])
	}

	m.canonEpochs(s)
	m.canonOrder(s)
	if !m.Mutant.repeatsRevisions() {
		s.election.rev = revCurrent
	}

	if m.Mutant != ReleaseDeletes {
		s.next = firstFresh
	}
}

// proc returns the process that runs as an incarnation, or -1.
func (m *Own) proc(s *ownState, inc uint8) int {
	for i := range m.Procs {
		if inc != 0 && s.procs[i].inc == inc {
			return i
		}
	}

	return -1
}

// known renumbers the nonce of a record: by its place in the holder's memory, or 0 if nobody would recognize it.
func (m *Own) known(s *ownState, r record) uint8 {
	if i := m.proc(s, r.holder); i >= 0 {
		return uint8(s.procs[i].tries.find(r.nonce) + 1)
	}

	return 0
}

// canonLate drops late requests that can only be refused.
func (m *Own) canonLate(s *ownState) {
	for k := range s.late {
		r := &s.late[k]
		if r.verb == idle {
			continue
		}

		if r.to.rev != s.election.rev && !m.Mutant.remembersStale(r.verb) {
			*r = request{}
			continue
		}

		r.to.nonce = m.known(s, r.to)
		if !m.Mutant.repeatsRevisions() {
			r.to.rev = revCurrent // or it does not matter
		}
	}
}

// keepsStale reports whether a request may be applied that was made from a record which is not the current one.
func (m *Own) keepsStale() bool {
	return m.Mutant.repeatsRevisions() || !m.Mutant.checked(Renew) || !m.Mutant.checked(Release)
}

func (m *Own) canonProc(s *ownState, p *ownProc) {
	if p.left == 0 || m.Tasks == 0 {
		p.epoch = 0
	}

	if p.seen.rev != s.election.rev && !m.keepsStale() {
		p.seen, p.age = record{}, 0 // every request would be refused, and every read shows something new
	}

	m.canonCall(s, p)
	p.seen.nonce = 0
	p.seen.holder = relative(p.inc, p.seen.holder)
	if p.seen.holder != incOther && m.Mutant != ReusedRevision {
		p.age = 0
	}

	p.seen.rev = m.rev(s, p, p.seen.rev)
	p.tries.renumber()
}

// canonCall forgets of a call what its outcome does not depend on.
func (m *Own) canonCall(s *ownState, p *ownProc) {
	c := &p.call
	if m.Mutant != StampBeforeRead || c.verb != Read {
		c.age = 0
	}

	nonce := uint8(p.tries.find(c.to.nonce) + 1)
	switch {
	case c.verb == idle:
	case c.verb == Read:
		if c.done && c.got.rev != s.election.rev && c.got.holder != p.inc && !m.keepsStale() {
			c.got = record{rev: c.got.rev} // it takes the belief away, and is of no use otherwise
		}

		c.got.nonce = m.known(s, c.got)
		if c.got.holder != p.inc {
			c.got.nonce = 0
		}
	case c.done && !c.ok, !c.done && c.to.rev != s.election.rev && !m.Mutant.remembersStale(c.verb):
		p.refuse() // to wait for a refusal is to do nothing
	case c.done:
		c.to, c.got.nonce = record{nonce: nonce}, 0
	default:
		c.to.nonce = nonce
	}

	c.to.rev, c.got.rev = m.rev(s, p, c.to.rev), m.rev(s, p, c.got.rev)
	c.to.holder, c.got.holder = relative(p.inc, c.to.holder), relative(p.inc, c.got.holder)
}

// rev renumbers a revision that p knows.
func (m *Own) rev(s *ownState, p *ownProc, rev uint8) uint8 {
	switch {
	case rev == 0 || m.Mutant.repeatsRevisions():
		return rev
	case rev == s.election.rev:
		return revCurrent
	case rev == p.seen.rev:
		return revSame
	}

	return revOther
}

// relative renumbers the holder of a record that the process of incarnation self knows.
func relative(self, holder uint8) uint8 {
	switch holder {
	case 0:
		return 0
	case self:
		return incSelf
	}

	return incOther
}

func (m *Own) canonEpochs(s *ownState) {
	s.worker.sort()
	if m.Mutant.lowersEpochs() {
		return
	}

	var r ranks
	s.epochs(func(e *uint8) { r |= 1 << *e })
	s.epochs(func(e *uint8) { *e = r.of(*e) })
}

// epochs visits every epoch in the state.
func (s *ownState) epochs(visit func(*uint8)) {
	visit(&s.election.epoch)
	visit(&s.granted)
	visit(&s.worker.high)
	for i := range s.worker.tasks {
		visit(&s.worker.tasks[i])
	}

	for i := range s.late {
		visit(&s.late[i].to.epoch)
	}

	for i := range s.procs {
		p := &s.procs[i]
		visit(&p.epoch)
		visit(&p.seen.epoch)
		visit(&p.call.to.epoch)
		visit(&p.call.got.epoch)
	}
}

// canonOrder sorts the processes, which know each other only as self and other, and the late requests.
func (m *Own) canonOrder(s *ownState) {
	holder := m.proc(s, s.election.holder)
	var sender [2]int
	for k := range s.late {
		sender[k] = m.proc(s, s.late[k].to.holder)
	}

	var keys [3][3]uint64
	order := [3]uint8{0, 1, 2}
	for i := range m.Procs {
		keys[i] = s.procs[i].key()
		if i == holder {
			keys[i][2] = 1 << 63
		}

		for k, r := range s.late {
			if i == sender[k] {
				keys[i][2] += pack(uint8(r.verb), r.to.epoch, r.to.nonce)
			}
		}

		for j := i; j > 0 && less(keys[order[j]], keys[order[j-1]]); j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}

	old := s.procs
	var place [3]uint8
	for to, from := range order {
		s.procs[to] = old[from]
		place[from] = uint8(to)
		if to < m.Procs {
			s.procs[to].rename(uint8(to) + 1)
		}
	}

	rename := func(holder *uint8, i int) {
		if i >= 0 {
			*holder = place[i] + 1
		} else if *holder != 0 {
			*holder = incOther
		}
	}

	rename(&s.election.holder, holder)
	for k := range s.late {
		rename(&s.late[k].to.holder, sender[k])
	}

	if s.late[0].key() < s.late[1].key() {
		s.late[0], s.late[1] = s.late[1], s.late[0]
	}
}

// rename gives the process of a canonical state its number.
func (p *ownProc) rename(inc uint8) {
	p.inc = inc
	for _, holder := range []*uint8{&p.seen.holder, &p.call.to.holder, &p.call.got.holder} {
		if *holder == incSelf {
			*holder = inc
		}
	}
}

func less(a, b [3]uint64) bool {
	for k := range a {
		if a[k] != b[k] {
			return a[k] < b[k]
		}
	}

	return false
}

// key packs a canonical process into numbers to sort by.
func (p *ownProc) key() [3]uint64 {
	c := &p.call
	state := pack(p.left, p.epoch, p.age, p.tries[0].nonce, p.tries[0].age, p.tries[1].nonce, p.tries[1].age,
		p.seen.rev, p.seen.holder, p.seen.epoch)
	var flags uint8
	if c.done {
		flags = 1
	}

	if c.ok {
		flags |= 2
	}

	return [3]uint64{state, pack(uint8(c.verb), flags, c.age, c.to.rev, c.to.holder, c.to.epoch, c.to.nonce,
		c.got.rev, c.got.holder, c.got.epoch, c.got.nonce)}
}

// key packs a canonical request into a number to sort by.
func (r *request) key() uint64 {
	return pack(uint8(r.verb), r.at, r.to.rev, r.to.holder, r.to.via, r.to.epoch, r.to.nonce)
}

// pack puts numbers below 16 side by side.
func pack(v ...uint8) uint64 {
	var n uint64
	for _, x := range v {
		n = n<<4 | uint64(x&15)
	}

	return n
}
