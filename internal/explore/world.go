package explore

import (
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// Setup is what is explored: the processes, their configuration, and how many faults of each kind may happen.
type Setup struct {
	IDs       []string                      // the member ID of each process: two processes may have one ID
	Config    core.Config                   // of all of them, but for the ID
	Vary      func(i int, cfg *core.Config) // in what else one of them differs
	Elections int

	Late      int  // requests that nobody waits for any more and that may still be applied
	Crashes   int  // a process dies; it starts again without memory, or never
	Losses    int  // a request or an answer is lost at once; that a request takes longer than its timeout is no fault
	Rollbacks int  // the store loses its newest writes: of all registers, or of one
	Undo      int  // how many writes it may lose
	StepDowns int  // somebody asks the leader to step down
	Releases  int  // a leader steps down by itself
	HandOffs  int  // somebody asks the leader to hand over to the last process
	Pauses    int  // the last process pauses the election; anybody can resume it
	Saves     int  // a leader saves a checkpoint
	Closes    int  // a process leaves; it may be started again
	Freezes   int  // time passes although a process has something to do; Unbounded by default, see Prompt
	Prompt    bool // processes do what is due before time passes, but for Freezes times
	Notices   bool // releases and claims are notified, or not
	SlowDuty  bool // a duty stops some time after it had to
	Withdraws int  // a process, and the first before all others, ends its candidacy until nobody else campaigns
	Returns   bool // or campaigns again at any time
	Sleeps    int  // the last process does nothing, and gets no answer, until it wakes: for however long
	Retires   int  // the first process retires an election that is vacant
	RetiresOf int  // the first process retires a member register that is vacant
	Silent    bool // or one of another process that has not left
	Tasks     int  // tasks that leaders have sent and that have not reached the fenced worker
	Reapers   bool // each process has a reaper, which may die with it
	Reads     Reads

	Limit int // states
}

// Unlimited is a number of faults or requests without a bound.
const Unlimited = 255

// Reads is how long reads take. Writes always take their time.
type Reads uint8

const (
	SlowReads    Reads = iota // anything may happen before and after a read is applied
	AtomicReads               // anything may happen before a read is applied, and then it is answered at once
	InstantReads              // a read is answered in the step that sends it
	LastSlow                  // those of the last process are slow, the others instant
)

const tick = core.Time(time.Second)

// world is one state: processes, store, and what is under way between them.
type world struct {
	setup *Setup
	now   core.Time
	store store
	procs []proc
	msgs  []message
	left  budget

	reading bool    // the step that is under way was caused by the answer to a read
	shows   Witness // what the last action has shown; no part of the state

	tasks  []task         // on their way to the worker of their election
	fences []regent.Token // by election: the highest that its worker has accepted
	dead   []lifeline     // what dead processes held, as their reapers know it

	retires string   // the member register that the first process retires, as long as it has no result
	outran  bool     // a claim was applied after the register that it was meant for had been removed
	begun   []uint64 // the highest epoch of a term that began, by election

	drawn   uint64   // the last number that was drawn, for nonces, incarnations and revisions
	granted []uint64 // the highest epoch ever granted, by election: not known to any process
}

// budget is how many faults and requests may still happen.
type budget struct {
	crashes, losses, rollbacks, stepDowns, handOffs, saves, closes, freezes int
	withdraws, sleeps, retires, retiresOf, releases, pauses                 int
}

// spend uses up one fault or request.
func spend(left *int) {
	if *left != Unlimited {
		*left--
	}
}

// proc is one process: its core, and what its shell knows.
type proc struct {
	core      *core.Core // nil if it is dead
	gone      bool       // it has left for good
	asleep    bool       // nothing reaches it, and it does nothing
	asking    bool       // a request of its user to whoever leads has no result yet
	lines     []lifeline // what its reaper knows
	idle      []bool     // by election: it does not campaign
	terms     []*term    // by election; nil if it has none
	deadlines map[string]core.Time
	stopping  []stopping // duties that have to stop and have not
	notices   []driver.Record
	shown     []shown  // by register
	rests     []uint64 // by register: the attempt that its deadline rests on
}

// term is a term that a process believes in until its deadline.
type term struct {
	epoch       uint64
	register    string
	incarnation string
	ended       core.Time // when its context ended, if its heartbeat has ended and no End came yet
}

type stopping struct {
	election string
	epoch    uint64
	until    core.Time // how long it may take
}

// message is a request on its way to the store, or its answer on the way back.
type message struct {
	proc    int
	id      uint64
	verb    core.Verb
	record  driver.Record
	late    bool // nobody waits for it any more
	applied bool
	outcome core.Outcome
	got     driver.Record
	list    []driver.Record // what a list shows
	seek    *core.Seek      // where it may end
	partial bool            // it has ended there
}

// source draws names for one step of one process.
type source struct{ last uint64 }

func (s *source) Nonce() uint64 {
	s.last++
	return s.last
}

func (s *source) Incarnation() string { return "i" + strconv.FormatUint(s.Nonce(), 10) }
func (s *source) Wall() time.Time     { return time.Time{} }

func (w *world) draw() uint64 {
	w.drawn++
	return w.drawn
}

// election returns the name of an election.
func election(i int) string { return "e" + strconv.Itoa(i) }

// newWorld returns the first state: nothing was ever written, and every process campaigns in every election.
func newWorld(s *Setup) *world {
	w := &world{setup: s, now: 100 * tick, granted: make([]uint64, s.Elections)}
	w.begun = make([]uint64, s.Elections)
	w.fences = make([]regent.Token, s.Elections)
	w.left = budget{
		s.Crashes, s.Losses, s.Rollbacks, s.StepDowns, s.HandOffs, s.Saves, s.Closes, s.Freezes,
		s.Withdraws, s.Sleeps, s.Retires, s.RetiresOf, s.Releases, s.Pauses,
	}
	for i := range s.Elections {
		w.store.names = append(w.store.names, election(i))
	}

	for _, id := range s.IDs {
		if name := driver.MemberRegister(id); !slices.Contains(w.store.names, name) {
			w.store.names = append(w.store.names, name)
		}
	}

	if s.Config.Rest > 0 {
		w.store.names = append(w.store.names, driver.FloorRegister)
	}

	w.store.records = make([]driver.Record, len(w.store.names))
	for i, name := range w.store.names {
		w.store.records[i].Name = name
	}

	w.procs = make([]proc, len(s.IDs))
	for i := range w.procs {
		w.startProc(i)
	}

	return w
}

// startProc starts a process without memory.
func (w *world) startProc(i int) error {
	cfg := w.setup.Config
	cfg.ID = w.setup.IDs[i]
	if w.setup.Vary != nil {
		w.setup.Vary(i, &cfg)
	}

	w.procs[i] = proc{
		core:      core.New(cfg, nil),
		terms:     make([]*term, w.setup.Elections),
		idle:      make([]bool, w.setup.Elections),
		shown:     make([]shown, len(w.store.names)),
		rests:     make([]uint64, len(w.store.names)),
		deadlines: map[string]core.Time{},
	}

	for k := range w.setup.Elections {
		if err := w.step(i, core.Campaign{Election: election(k)}); err != nil {
			return err
		}
	}

	return w.step(i, core.Join{})
}

// clone returns a world of its own. The cores are shared: whoever steps one replaces it.
func (w *world) clone() *world {
	c := *w
	c.store = w.store.clone()
	c.msgs = slices.Clone(w.msgs)
	c.granted = slices.Clone(w.granted)
	c.begun = slices.Clone(w.begun)
	c.tasks = slices.Clone(w.tasks)
	c.fences = slices.Clone(w.fences)
	c.dead = slices.Clone(w.dead)
	c.procs = make([]proc, len(w.procs))
	for i := range w.procs {
		p := w.procs[i]
		p.terms = slices.Clone(p.terms)
		p.idle = slices.Clone(p.idle)
		p.shown = slices.Clone(p.shown)
		p.rests = slices.Clone(p.rests)
		p.stopping = slices.Clone(p.stopping)
		p.notices = slices.Clone(p.notices)
		p.lines = slices.Clone(p.lines)
		deadlines := make(map[string]core.Time, len(p.deadlines))
		for k, v := range p.deadlines {
			deadlines[k] = v
		}

		p.deadlines = deadlines
		c.procs[i] = p
	}

	return &c
}
