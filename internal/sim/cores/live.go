package cores

import "time"

// forever is longer than every run.
const forever = time.Duration(1 << 61)

// RunLive simulates one seed in which the faults stop changing at a random moment, and stay as they are: a process that
// is frozen stays frozen, and a partition never ends. What is random in each message (loss, long delays) ends: of a
// store that loses any answer by chance, nothing can be said that holds for certain.
//
// A process is able if it runs, its requests reach the store, and the answers come back within the request timeout. It
// need not get notifications. An election can make progress if at least one process is able, since
//
//   - all processes campaign in all elections, and duties stop some time;
//   - a pause ends, because every process is asked to end it;
//   - whoever is not able keeps an election no longer than a lease after its last heartbeat was applied, and that is
//     soon after the faults have stopped changing: each heartbeat names the revision that the answer to the one
//     before brought;
//   - so does another process with the ID of one that is able: either is able, or the other's heartbeat expires.
//
// Then somebody must lead the election within the bound of liveBound, and from then on it stays led: by the same
// process, in the same epoch.
func (r *Runner) RunLive(seed uint64, trace func(string)) (Conditions, error) {
	s := &r.sim
	s.reset(seed, trace)
	s.live = true
	s.draw()
	s.loop()
	if s.err == nil {
		s.checkLive()
	}

	_, err := s.result(seed)
	return s.conditions, err
}

// Conditions is a set of conditions that processes were in for ever, beside one that was able.
type Conditions uint32

// conditions are what a process can be in for ever, and whether it is able then.
var conditions = [...]struct {
	name string
	able bool
	set  func(p *proc)
}{
	{"fine", true, func(*proc) {}},
	{"without notifications", true, func(p *proc) { p.link.deaf = forever }},
	{"far from the store", true, func(p *proc) { p.link.lag = p.cfg.LeaseDuration / 40 }},
	{"cut off", false, func(p *proc) { p.link.noRequests = forever; p.link.noAnswers = forever }},
	{"without requests", false, func(p *proc) { p.link.noRequests = forever }},
	{"without answers", false, func(p *proc) { p.link.noAnswers = forever }},
	{"refused", false, func(p *proc) { p.link.refused = forever }},
	{"before a store that hangs", false, func(p *proc) { p.link.hung = forever }},
	{"frozen", false, func(p *proc) { p.freeze(forever) }},
	{"dead", false, func(p *proc) { p.crash(); p.gone = true }},
}

// Missing returns the names of the conditions that are not in the set.
func (c Conditions) Missing() []string {
	var missing []string
	for i, k := range conditions {
		if c&(1<<i) == 0 {
			missing = append(missing, k.name)
		}
	}

	return missing
}

// liveBound is how long it may take until an election has a leader, once the faults have stopped changing: until what
// is on its way has arrived, pauses have ended and processes that leave have come back; then a lease until an
// observer has seen the last heartbeat, a lease after that, one after a rollback, one until a process with the ID of
// another has joined; the takeover delay; two polls; a duty that overruns its time; and what is left of back-off and
// reservations.
func (s *sim) liveBound() time.Duration {
	poll := time.Duration(0)
	for _, p := range s.procs {
		poll = max(poll, p.cfg.ElectionIntervalMax)
	}

	return slowest + pausesEnd + 5*time.Second + 5*s.cfg.LeaseDuration + s.cfg.TakeoverDelay + 2*poll +
		3*s.cfg.StopTimeout + s.cfg.ElectionInterval + 2*s.cfg.HeartbeatInterval + s.idle()
}

// pausesEnd is when the last request to end a pause is made: after every pause that was asked for before has been
// written, or given up.
const pausesEnd = 12 * time.Second

// settle lets the faults stay as they are, with at least one process that is able.
func (s *sim) settle() {
	s.note("from now on the faults do not change")
	s.faults.over = true
	s.faults.refusing = 0
	s.faults.hanging = 0
	if s.faults.deaf < 1 { // each message, or none
		s.faults.deaf = 0
	}

	lucky := s.rng.IntN(len(s.procs))
	for i, p := range s.procs {
		p.thaw()
		p.revive()
		k := s.rng.IntN(len(conditions))
		for i == lucky && !conditions[k].able {
			k = s.rng.IntN(len(conditions))
		}

		p.link = link{troubled: s.now}
		p.able = conditions[k].able
		p.note("is %s for ever", conditions[k].name)
		conditions[k].set(p)
		s.conditions |= 1 << k
	}

	s.after(slowest+time.Second, s.resumeAll)
	s.after(pausesEnd, s.resumeAll)
	s.steady = s.now + s.liveBound()
	s.at(s.steady, s.checkLive)
}

// resumeAll asks every process to end every pause.
func (s *sim) resumeAll() {
	for _, p := range s.procs {
		for _, name := range s.names {
			p.resume(name)
		}
	}
}

// checkLive fails unless every election is led by a process that is able.
func (s *sim) checkLive() {
	for i, name := range s.names {
		led := s.short(i)
		for _, p := range s.procs {
			led = led || p.able && p.leads(i)
		}

		if !led {
			reg := s.store.register(name)
			s.fail("%s has no leader %v after the faults have stopped changing: %s", name, s.now-s.healed,
				text(&reg.rec))
		}
	}
}

// checkSteady fails if a term begins or ends although nothing has changed for long.
func (p *proc) checkSteady(what string, election string, epoch uint64) {
	if s := p.sim; s.steady > 0 && s.now > s.steady && !s.short(s.places[election]) {
		s.fail("p%d %s term %d of %s, %v after the faults have stopped changing", p.index, what, epoch, election,
			s.now-s.healed)
	}
}
