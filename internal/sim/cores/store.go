package cores

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// store is the simulated store: registers, and what it may lose.
type store struct {
	registers map[string]*register
	list      []*register // in the order in which they were first named
	undo      []change    // the newest writes, oldest first, and older ones
	lostAt    time.Duration
	starts    int // counts its restarts
	pool      []*request
	requests  int // how many were sent
}

const maxUndo = 8 // how many writes the store may lose

// register is one register, and what is known of it that the store does not hold.
type register struct {
	name      string
	member    bool // it is a member's; else an election's
	place     int  // of the election, or the first one of the member
	rec       driver.Record
	granted   uint64        // the highest epoch of an election that was ever claimed
	claims    []claimed     // every claim that was applied
	unclaimed driver.Record // what it held before the last of them
	vacatedAt time.Duration // when it was last released
	lostAt    time.Duration // when the store last lost a write of it
	floor     bool          // it is the epoch floor
	removed   bool          // it was removed, and not written since
}

// claimed is a claim that was applied.
type claimed struct {
	epoch uint64
	who   driver.Identity
}

// change is a write: what the register held before.
type change struct {
	reg    *register
	before driver.Record
}

// remember keeps what a register holds before a write, so that the write can be lost.
func (st *store) remember(reg *register) *driver.Record {
	if len(st.undo) == 8*maxUndo {
		n := copy(st.undo, st.undo[len(st.undo)-maxUndo+1:])
		st.undo = st.undo[:n]
	}

	st.undo = append(st.undo, change{reg, reg.rec})
	return &st.undo[len(st.undo)-1].before
}

// losable returns the newest writes, oldest first.
func (st *store) losable() []change { return st.undo[max(0, len(st.undo)-maxUndo):] }

// request is on its way to the store, or its answer is on the way back.
type request struct {
	proc    *proc
	run     int
	send    core.Send
	reg     *register
	at      time.Duration // when it was sent
	sent    core.Time     // the same by the clock of its process
	known   uint64        // the highest epoch that its process had been shown
	starts  int           // of the store, when it was sent
	firm    bool          // what its process knows of the holder's heartbeat, the store has not lost since
	outcome core.Outcome
	rec     driver.Record
	list    []driver.Record
	partial bool // the list has ended where it may
}

func (st *store) reset() {
	if st.registers == nil {
		st.registers = map[string]*register{}
	}

	clear(st.registers)
	clear(st.list)
	clear(st.undo)
	st.list = st.list[:0]
	st.undo = st.undo[:0]
	st.starts = 0
	st.requests = 0
	st.lostAt = never
}

// register returns a register, new if need be.
func (st *store) register(name string) *register {
	r := st.registers[name]
	if r == nil {
		r = &register{name: name, lostAt: never}
		r.member = name != driver.MemberPrefix && strings.HasPrefix(name, driver.MemberPrefix)
		r.floor = name == driver.FloorRegister
		r.rec.Name = name
		st.registers[name] = r
		st.list = append(st.list, r)
	}

	return r
}

func (st *store) take() *request {
	if n := len(st.pool); n > 0 {
		q := st.pool[n-1]
		st.pool = st.pool[:n-1]
		return q
	}

	return new(request)
}

// drop gives a request back that nothing refers to any more.
func (st *store) drop(q *request) {
	if q != nil {
		st.pool = append(st.pool, q)
	}
}

// send takes a request to the store, if nothing happens on the way.
func (s *sim) send(p *proc, e *core.Send) {
	s.store.requests++
	reg := s.store.register(e.Record.Name)
	p.checkSend(e, reg)

	q := s.store.take()
	q.proc = p
	q.run = p.run
	q.send = *e
	q.reg = reg
	q.at = s.now
	q.sent = p.clock()
	q.known = p.view(reg).highest
	q.starts = s.store.starts
	q.firm = p.knowsHolder(reg)

	f := &s.faults
	switch {
	case s.now < p.link.refused || s.now < f.refusing:
		s.refuse(q)
		return
	case s.now < p.link.noRequests || s.lose():
		s.lost(q, "request")
		s.store.drop(q)
		return
	}

	there := s.latency(p)
	s.queue.push(s.now+there, event{kind: arriveEvent, req: q})
}

// refuse has a request fail at once, without having arrived.
func (s *sim) refuse(q *request) {
	q.outcome = core.Unknown
	q.rec = driver.Record{}
	s.mayBeUnknown(q)
	s.answerIn(q, s.latency(q.proc))
}

// lost notes that a request, or its answer, is lost.
func (s *sim) lost(q *request, what string) {
	q.proc.link.troubled = s.now
	s.mayBeUnknown(q)
	if s.trace != nil {
		q.proc.note("%s %d is lost", what, q.send.ID>>32)
	}
}

// mayBeUnknown remembers a write whose outcome its process is not shown.
func (s *sim) mayBeUnknown(q *request) {
	q.proc.link.troubled = s.now
	if p := q.proc; q.send.Verb == core.Swap && p.run == q.run {
		p.unknown = append(p.unknown, q.send.Record.Nonce)
	}
}

func (s *sim) answerIn(q *request, d time.Duration) {
	s.queue.push(s.now+d, event{kind: answerEvent, proc: q.proc, run: q.run, req: q})
}

// arrive lets a request reach the store, and sends the answer.
func (s *sim) arrive(q *request) {
	p := q.proc
	f := &s.faults
	switch {
	case s.now < f.hanging || s.now < p.link.hung:
		s.hang(q)
		return
	case q.starts != s.store.starts: // the connection was lost before it arrived
		s.refuse(q)
		return
	}

	s.apply(q)
	if s.now < p.link.noAnswers || s.lose() {
		s.lost(q, "the answer to")
		s.store.drop(q)
		return
	}

	s.answerIn(q, s.latency(p))
}

// hang keeps a request that has arrived at a store which answers nothing: for ever, or until the store goes on.
func (s *sim) hang(q *request) {
	q.proc.link.troubled = s.now
	until := max(s.faults.hanging, q.proc.link.hung)
	if until < s.end && s.chance(0.5) {
		s.queue.push(until, event{kind: arriveEvent, req: q})
		return
	}

	s.lost(q, "request")
	s.store.drop(q)
}

// apply does what a request asks for.
func (s *sim) apply(q *request) {
	reg := q.reg
	q.rec = driver.Record{}
	switch {
	case q.send.Verb == core.List || q.send.Verb == core.Skim:
		q.outcome = core.Done
		q.list, q.partial = q.send.Seek.End(s.store.members(q.list[:0]))
	case q.send.Verb == core.Named:
		q.outcome = s.named(reg)
	case q.send.Verb == core.Remove && reg.rec.Rev == q.send.Record.Rev:
		q.outcome = core.Done
		s.remove(q)
	case q.send.Verb == core.Remove:
		q.outcome = core.Conflict
	case q.send.Verb == core.Get && reg.rec.Rev == "":
		q.outcome = core.NotFound
	case q.send.Verb == core.Get:
		q.outcome = core.Done
		q.rec = reg.rec
	case reg.rec.Rev != q.send.Record.Rev:
		q.outcome = core.Conflict
	default:
		q.outcome = core.Done
		s.write(q)
		q.rec = reg.rec
	}
}

// members appends the member registers that were written, in the order of their names.
func (st *store) members(all []driver.Record) []driver.Record {
	for _, reg := range st.list {
		if reg.member && reg.rec.Rev != "" {
			all = append(all, reg.rec)
		}
	}

	slices.SortFunc(all, func(a, b driver.Record) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// write makes a register hold what a request carries.
func (s *sim) write(q *request) {
	reg := q.reg
	before := s.store.remember(reg)
	reg.rec = q.send.Record
	reg.rec.Rev = strconv.FormatUint(s.number(), 10)
	if s.trace != nil {
		q.proc.note("the store takes %d: %s", q.send.ID>>32, text(&reg.rec))
	}

	reg.removed = false
	switch {
	case reg.floor && reg.rec.Epoch <= before.Epoch:
		s.fail("rule 13: p%d lowers the epoch floor from %d to %d", q.proc.index, before.Epoch, reg.rec.Epoch)
	case reg.floor:
	case reg.member:
		s.checkMember(q, before)
	default:
		s.checkWrite(q, before)
	}

	if reg.rec.Notable(*before) {
		s.notify(reg)
	}
}

// answered lets an answer reach its process.
func (s *sim) answered(q *request) {
	p := q.proc
	awaited := p.core.Awaits(q.send.ID)
	p.shown(q, awaited)
	p.reading = q.send.Verb == core.Get
	a := core.Answer{ID: q.send.ID, Outcome: q.outcome, Record: q.rec}
	if (q.send.Verb == core.List || q.send.Verb == core.Skim) && q.outcome == core.Done {
		a.Records = slices.Clone(q.list) // the core keeps it
		a.Partial = q.partial
	}

	p.step(a)
	p.reading = false
	known := q.outcome == core.Done || q.outcome == core.NotFound
	if awaited && known && uint32(q.send.ID) == 0 && q.send.Verb == core.Get && p.core != nil { // the member's own
		p.checkLost(&q.rec)
	}

	s.store.drop(q)
}

// notify tells the processes of a change of hands: late, or not at all, or without the record.
func (s *sim) notify(reg *register) {
	listeners := s.procs
	if s.group > 0 { // the others watch other registers
		listeners = s.candidates(reg.place)
	}

	for _, p := range listeners {
		if p.core == nil || s.now < p.link.deaf || s.chance(s.faults.deaf) {
			continue
		}

		if s.faults.fixed > 0 {
			p.notice(reg, s.faults.fixed, false)
		} else {
			p.notice(reg, s.between(0, 50*time.Millisecond), s.chance(0.2))
		}
	}
}

// notice brings a notification to a process.
func (p *proc) notice(reg *register, d time.Duration, bare bool) {
	r := reg.rec
	if bare {
		r = driver.Record{Name: reg.name}
	}

	p.later(d, func() {
		p.noticed = true
		p.step(core.Notice{Record: r})
		p.noticed = false
	})
}
