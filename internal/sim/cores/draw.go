package cores

import (
	"fmt"
	"strconv"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// draw draws a cluster and its faults.
func (s *sim) draw() {
	s.healed = s.between(30*time.Second, 90*time.Second)
	s.cfg = profile()
	s.cfg.StartDelay = s.between(0, time.Second)
	own := []float64{0, 0, 0.5, 1, 1}[s.rng.IntN(5)] // how many have leases of their own: none, some or all
	s.faults = s.drawFaults()
	ranked := s.chance(0.3)
	preempt := s.chance(0.3) && !s.live // with faults that last, it is asked for again and again

	for i := range 1 + s.rng.IntN(3) {
		s.elect("election" + strconv.Itoa(i))
	}

	if s.chance(0.3) {
		s.cfg.Rest = rest
		s.shorts = 1 + s.rng.IntN(2)
		for i := range s.shorts {
			s.elect("short" + strconv.Itoa(i))
		}
	}

	for i := range 2 + s.rng.IntN(3) {
		cfg := s.cfg
		cfg.ID = "m" + strconv.Itoa(i)
		if i > 0 && s.chance(0.1) {
			cfg.ID = s.procs[0].cfg.ID // two processes with one ID
		}

		if s.chance(own) {
			ownLeases(&cfg)
			cfg.Register = s.chance(0.3)
		}

		if ranked {
			s.drawRank(&cfg, preempt)
		}

		p := s.add(cfg)
		p.rate = 1 + (s.rng.Float64()*2-1)*0.001
		p.offset = s.between(0, time.Hour)
		p.reaps = s.chance(0.4)
		s.after(s.between(0, 2*time.Second), p.start)
	}

	s.after(0, s.nextFault)
	if s.live {
		s.end = s.healed + s.liveBound() + 3*s.cfg.LeaseDuration
		s.after(s.healed, s.settle)
	} else {
		s.end = s.healed + s.bound()
		s.after(s.healed, s.heal)
		if s.faults.rollbacks && s.chance(0.3) {
			s.end += lossAfter
			s.loses = true
			s.after(s.healed+lossAfter, s.loseClaim)
		}
	}

	if s.chance(0.5) {
		s.workers = make([]worker, len(s.names))
	}

	s.queue.push(s.now, event{kind: inspectEvent})
}

// drawRank gives a process a rank, and a register that says so to the others.
func (s *sim) drawRank(cfg *core.Config, preempt bool) {
	cfg.Rank = core.RankLexicographic
	if s.cfg.StartDelay%2 == 0 { // the same for all
		cfg.Rank = core.RankPriority
		cfg.Priority = s.rng.IntN(3)
	}

	if s.cfg.StartDelay%4 < 2 { // the same for all: one candidate watches closely
		cfg.Watchers = 1
	}

	cfg.Preempt = preempt
	cfg.Register = true
	cfg.Info = fmt.Appendf(nil, `{"eligible":true,"healthy":true,"priority":%d,"elections":["*"]}`, cfg.Priority)
}

// elect adds an election.
func (s *sim) elect(name string) {
	s.places[name] = len(s.names)
	s.order = append(s.order, len(s.names))
	s.names = append(s.names, name)
}

// add adds a process that has not started, with a clock that is right.
func (s *sim) add(cfg core.Config) *proc {
	p := &proc{sim: s, index: len(s.procs), name: "p" + strconv.Itoa(len(s.procs)), cfg: cfg, rate: 1}
	p.elections = len(s.names)
	p.register = s.store.register(driver.MemberRegister(cfg.ID))
	p.cfg.Explain = s.trace != nil
	s.procs = append(s.procs, p)
	return p
}

// profile returns the durations of the cluster profile.
func profile() core.Config {
	return core.Config{
		LeaseDuration: 6 * time.Second, RenewInterval: 1500 * time.Millisecond, StopTimeout: time.Second,
		RenewBackoff:     []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		ElectionInterval: 5 * time.Second, ElectionIntervalMax: 5 * time.Second, TakeoverDelay: time.Second,
		HeartbeatInterval: 1500 * time.Millisecond, WorkerTimeout: 6 * time.Second, Eligible: true,
	}
}

// ownLeases gives a process leases of its own.
func ownLeases(cfg *core.Config) {
	cfg.OwnLease = true
	cfg.TakeoverDelay = 0
	cfg.ElectionIntervalMax = 20 * time.Second
}

// bound is how long it may take until there is a leader, once everything works: what is left of a freeze or a wait
// after a rollback, the lease and the takeover delay, a poll, the back-off, and a reservation.
func (s *sim) bound() time.Duration {
	poll := time.Duration(0)
	for _, p := range s.procs {
		poll = max(poll, p.cfg.ElectionIntervalMax)
	}

	return 4*s.cfg.LeaseDuration + s.cfg.TakeoverDelay + 2*poll + 10*time.Second + s.idle()
}

// idle is how long a member watches its leader seldom, which is the time until it finds that the leader is gone.
func (s *sim) idle() time.Duration {
	for _, p := range s.procs {
		if p.cfg.Watchers > 0 {
			return 3 * s.cfg.LeaseDuration
		}
	}

	return 0
}
