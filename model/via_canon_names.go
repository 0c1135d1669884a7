package model

// This file renumbers incarnations and epochs.

// canonIncarnations renumbers the incarnations. One that is not a process's present one, and will not be seen in a
// heartbeat register any more, can only be found dead: it need not be distinguished from others of that kind.
func (m *Via) canonIncarnations(s *viaState) {
	var names [12]struct{ old, name uint8 }
	n := 0
	name := func(old, name uint8) {
		names[n] = struct{ old, name uint8 }{old, name}
		n++
	}
	find := func(inc uint8) uint8 {
		for k := range n {
			if names[k].old == inc {
				return names[k].name
			}
		}

		return 0
	}

	for i := range m.Members {
		if inc := s.procs[i].inc; inc != 0 {
			name(inc, incLive+uint8(i))
		}
	}

	stranger := uint8(incStranger)
	beating := func(inc uint8) {
		if inc == 0 || find(inc) != 0 {
			return
		}

		for i := range m.Members {
			if s.procs[i].last == inc {
				name(inc, incEnded+uint8(i))
				return
			}
		}

		name(inc, stranger)
		stranger++
	}

	for i := range s.members {
		beating(s.members[i].holder)
	}

	for k := range s.late {
		if r := &s.late[k]; r.verb == Join || r.verb == Renew {
			beating(r.to.holder)
		}
	}

	if m.Mutant == ReusedIncarnation {
		for i := range m.Members {
			beating(s.procs[i].last)
		}
	}

	rename := func(inc *uint8) {
		if *inc == 0 {
			return
		}

		if *inc = find(*inc); *inc == 0 {
			*inc = incGone
		}
	}

	for i := range s.members {
		rename(&s.members[i].holder)
	}

	for i := range s.elections {
		rename(&s.elections[i].holder)
	}

	for k := range s.late {
		rename(&s.late[k].to.holder)
	}

	for i := range m.Members {
		p := &s.procs[i]
		rename(&p.inc)
		rename(&p.seen.holder)
		rename(&p.call.to.holder)
		if p.call.verb != ReadHolder || p.inc != 0 {
			rename(&p.call.got.holder)
		}

		if p.last = find(p.last); p.last != incEnded+uint8(i) {
			p.last = 0
		}
	}
}

// canonEpochs renumbers the epochs of one election.
func (m *Via) canonEpochs(s *viaState, election uint8) {
	if m.Mutant.lowersEpochs() {
		return
	}

	var r ranks
	m.epochs(s, election, func(e *uint8) { r |= 1 << *e })
	m.epochs(s, election, func(e *uint8) { *e = r.of(*e) })
}

// epochs visits every epoch of an election.
func (m *Via) epochs(s *viaState, election uint8, visit func(*uint8)) {
	visit(&s.elections[election].epoch)
	visit(&s.granted[election])
	if election == 0 {
		visit(&s.worker.high)
		for i := range s.worker.tasks {
			visit(&s.worker.tasks[i])
		}
	}

	for i := range s.late {
		if s.late[i].at == election {
			visit(&s.late[i].to.epoch)
		}
	}

	for i := range m.Members {
		p := &s.procs[i]
		if m.Tasks > 0 {
			visit(&p.held[election])
		}

		if p.election == election {
			visit(&p.seen.epoch)
		}

		if p.call.at == election {
			visit(&p.call.to.epoch)
			visit(&p.call.got.epoch)
		}
	}
}
