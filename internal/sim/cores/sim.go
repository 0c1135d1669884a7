package cores

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// Reached is a set of things that have happened in a run.
type Reached uint32

// What may be reached.
const (
	Began Reached = 1 << iota
	AdoptedClaim
	RevokedHeartbeat
	WaitedAfterRollback
	UnknownOutcome
	ClaimedOnNotice
	HandedOver
	SavedCheckpoint
	Rejoined
	DutyStuck
	LeftCluster
	TookOverMixed
)

var reachedNames = [...]string{"a term began", "a claim was adopted", "a heartbeat was revoked", "a rollback was waited for",
	"an outcome was unknown", "a claim on a notification", "a handover", "a saved checkpoint", "a member joined again",
	"a stuck duty", "a member left", "a takeover between a lease of its own and a heartbeat"}

// Run simulates one seed. The error is a violation. If trace is not nil it is called with every line.
func Run(seed uint64, trace func(string)) (Reached, error) {
	s := newSim(seed, trace)
	for s.err == nil && len(s.events) > 0 && s.now < s.end {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	if s.err == nil {
		s.checkEnd()
	}
	if s.err != nil {
		return s.reached, fmt.Errorf("seed %d at %v: %w", seed, s.now, s.err)
	}
	return s.reached, nil
}

// sim is one run. Times are true times; each process has a clock of its own.
type sim struct {
	rng     *rand.Rand
	trace   func(string)
	now     time.Duration
	calm    time.Duration // from then on there are no more faults
	end     time.Duration
	events  events
	seq     uint64
	drawn   uint64
	cfg     core.Config // of a process whose elections depend on its heartbeat
	faults  faults
	records map[string]driver.Record
	names   []string // of the elections
	procs   []*proc
	granted map[string]uint64
	undo    []driver.Record // what the newest writes replaced, oldest first
	lostAt  time.Duration   // when the store last lost writes
	reached Reached
	err     error
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// after has something happen later.
func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, event{s.now + d, s.seq, do})
}

// between draws a duration.
func (s *sim) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.rng.Int64N(int64(high-low)+1))
}

func (s *sim) chance(p float64) bool { return s.rng.Float64() < p }

func (s *sim) log(format string, args ...any) {
	if s.trace != nil {
		s.trace(fmt.Sprintf("%12v ", s.now) + fmt.Sprintf(format, args...))
	}
}

func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
		s.log("VIOLATION: %v", s.err)
	}
}

// newSim draws a cluster and its faults.
func newSim(seed uint64, trace func(string)) *sim {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), trace: trace, records: map[string]driver.Record{}, granted: map[string]uint64{}}
	s.lostAt = -time.Hour
	s.calm = s.between(30*time.Second, 90*time.Second)
	s.cfg = s.drawConfig()
	own := []float64{0, 0, 0.5, 1, 1}[s.rng.IntN(5)] // how many have leases of their own: none, some or all
	s.faults = s.drawFaults()
	for i := range 1 + s.rng.IntN(3) {
		s.names = append(s.names, "election"+strconv.Itoa(i))
	}
	for i := range 2 + s.rng.IntN(3) {
		p := &proc{sim: s, id: "m" + strconv.Itoa(i), index: i}
		if i > 0 && s.chance(0.1) {
			p.id = s.procs[0].id // two processes with one ID
		}
		p.cfg = s.cfg
		p.cfg.ID = p.id
		if s.chance(own) {
			s.ownLeases(&p.cfg)
		}
		p.rate = 1 + (s.rng.Float64()*2-1)*0.001
		p.offset = s.between(0, time.Hour)
		s.procs = append(s.procs, p)
		s.after(s.between(0, 2*time.Second), p.start)
	}
	s.end = s.calm + s.bound()
	s.after(0, s.nextFault)
	s.after(s.calm, s.heal)
	return s
}

func (s *sim) drawConfig() core.Config {
	cfg := core.Config{
		LeaseDuration: 6 * time.Second, RenewInterval: 1500 * time.Millisecond, StopTimeout: time.Second,
		RenewBackoff:     []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		ElectionInterval: 5 * time.Second, ElectionIntervalMax: 5 * time.Second, TakeoverDelay: time.Second,
		HeartbeatInterval: 1500 * time.Millisecond, WorkerTimeout: 6 * time.Second, Eligible: true,
		StartDelay: s.between(0, time.Second),
	}
	return cfg
}

// ownLeases gives a process leases of its own.
func (s *sim) ownLeases(cfg *core.Config) {
	cfg.OwnLease = true
	cfg.TakeoverDelay = 0
	cfg.ElectionIntervalMax = 20 * time.Second
	cfg.Register = s.chance(0.3)
}

// bound is how long it may take until there is a leader, once everything works: what is left of a freeze or a wait after a
// rollback, the lease and the takeover delay, a poll, the back-off, and a reservation.
func (s *sim) bound() time.Duration {
	poll := time.Duration(0)
	for _, p := range s.procs {
		poll = max(poll, p.cfg.ElectionIntervalMax)
	}
	return 4*s.cfg.LeaseDuration + s.cfg.TakeoverDelay + 2*poll + 10*time.Second
}

// draw returns a number that was never returned before.
func (s *sim) draw() uint64 {
	s.drawn++
	return s.drawn
}
