package cores

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/regentd/regent/internal/core"
)

// Run simulates one seed. The error is a violation. If trace is not nil it is called with every line.
func Run(seed uint64, trace func(string)) (Reached, error) { return new(Runner).Run(seed, trace) }

// Runner runs one seed after the other, and uses its memory again.
type Runner struct{ sim sim }

// Run simulates one seed.
func (r *Runner) Run(seed uint64, trace func(string)) (Reached, error) {
	s := &r.sim
	s.reset(seed, trace)
	s.draw()
	s.loop()
	if s.err == nil {
		s.checkEnd()
	}

	return s.result(seed)
}

// sim is one run. Times are true times; each process has a clock of its own.
type sim struct {
	seeds  *rand.PCG
	rng    *rand.Rand
	trace  func(string)
	exact  bool // a trace shows nanoseconds
	now    time.Duration
	healed time.Duration // from then on there are no more faults
	end    time.Duration
	queue  queue
	cfg    core.Config // of a process whose elections depend on its heartbeat

	faults  faults
	store   store
	names   []string // of the elections
	places  map[string]int
	order   []int // the places of all elections
	workers []worker
	procs   []*proc

	numbers uint64   // counts nonces, incarnations and revisions: none comes twice
	owners  []owner  // of incarnations, by their number
	stored  []string // the checkpoints that the store has taken
	steps   int
	most    int // the largest number of effects of a step
	spent   int // the most work of a step
	reached Reached
	err     error

	shorts     int  // how many elections are used for moments only: the last ones
	group      int  // how many candidates an election has; 0 for all
	live       bool // the faults stop changing, and stay
	loses      bool // the store loses a claim after everything was healed
	steady     time.Duration
	led        time.Duration // since when every election is led, once everything is healed; 0 if one is not
	conditions Conditions
}

// owner is the run of a process that has made an incarnation.
type owner struct {
	number uint64
	proc   *proc
	run    int
}

// reset makes a run begin anew. What it has allocated is used again.
func (s *sim) reset(seed uint64, trace func(string)) {
	if s.rng == nil {
		s.seeds = rand.NewPCG(seed, 1)
		s.rng = rand.New(s.seeds)
		s.places = map[string]int{}
	}

	s.seeds.Seed(seed, 1)
	s.queue.reset()
	s.store.reset()
	clear(s.places)
	clear(s.procs)
	*s = sim{
		seeds: s.seeds, rng: s.rng, trace: trace, exact: true, queue: s.queue, store: s.store, places: s.places,
		names: s.names[:0], order: s.order[:0], procs: s.procs[:0], owners: s.owners[:0], stored: s.stored[:0],
	}
	s.store.lostAt = never
}

// never is long before a run begins.
const never = -time.Hour

// loop lets events happen until the end, or a violation.
func (s *sim) loop() {
	for s.err == nil && len(s.queue.heap) > 0 && s.queue.heap[0].at < s.end {
		at, e := s.queue.pop()
		s.now = at
		s.happen(e)
	}
}

func (s *sim) result(seed uint64) (Reached, error) {
	if s.err != nil {
		return s.reached, fmt.Errorf("seed %d at %v: %w", seed, s.now, s.err)
	}

	return s.reached, nil
}

// happen lets one event happen.
func (s *sim) happen(e event) {
	if p := e.proc; p != nil {
		switch {
		case p.run != e.run || p.core == nil:
			s.store.drop(e.req)
			return
		case s.now < p.frozen:
			p.missed = append(p.missed, e)
			return
		}
	}

	switch e.kind {
	case callEvent:
		e.do()
	case tickEvent:
		e.proc.tick(e.at)
	case arriveEvent:
		s.arrive(e.req)
	case answerEvent:
		s.answered(e.req)
	case inspectEvent:
		s.inspect()
	}
}

// after has something happen later.
func (s *sim) after(d time.Duration, do func()) { s.queue.push(s.now+d, event{do: do}) }

// at has something happen at a time.
func (s *sim) at(t time.Duration, do func()) { s.queue.push(t, event{do: do}) }

// candidates returns the processes that may lead an election.
func (s *sim) candidates(i int) []*proc {
	if s.group == 0 {
		return s.procs
	}

	return s.procs[i*s.group : (i+1)*s.group]
}

// between draws a duration.
func (s *sim) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.rng.Uint64N(uint64(high-low)+1))
}

func (s *sim) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
		s.note("violation: %v", s.err)
	}
}

// number returns a number that was never returned before.
func (s *sim) number() uint64 {
	s.numbers++
	return s.numbers
}
