package regent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
)

// candidate is somebody's wish to lead an election, for as long as Lead or Run lasts.
type candidate struct {
	election string
	ctx      context.Context                   // what the terms' contexts descend from: the caller's, without its end
	run      func(context.Context, Term) error // nil to hold the seat and nothing else
	result   chan error                        // receives once if run returned of its own accord
}

// seat is an election as this member sees it. The engine's mutex guards it.
type seat struct {
	name string
	cand *candidate // nil if it is only watched

	lease      driver.Record   // the record as last received
	seen       bool            // it has been received at all
	received   moment          // when this revision of it was first received
	answered   uint64          // the order of the moment when it was last received
	stale      bool            // it has changed since, for all we know
	claimed    bool            // it was vacant and has changed since: read at the next poll
	standBack  time.Duration   // the other candidates are not listed again before: one of them is better
	open       bool            // it was judged free
	openSince  time.Duration   // when that began
	foundHeld  bool            // it was held when it was first received, and its holder had not left
	seenHeld   bool            // the heartbeat register of a holder was seen to name it
	seenLed    bool            // its holder was seen to heartbeat, or was this member
	barred     time.Duration   // not to be claimed before (rule 5)
	barredFor  uint64          // the highest epoch that the store has gone back behind
	unreleased driver.Identity // of its last term with a lease of its own, if the store did not take the release
	forgotten  driver.Identity // the holder whose joining the store has forgotten
	checkAt    time.Duration   // when a record that this member holds, or was asked to take over, is to be read; 0 if it is not
	retry      retry           // after it could not be read
	exhausted  bool            // its epoch is one that no term can follow, which was reported
	fenced     int             // terms in a row that ended because a fence refused them
	learned    uint64          // the order of the moment when the highest epoch was learned: an answer to an older read may show less
	shown      uint64          // the highest epoch that any answer has shown since the record was received, its own included
	shownAt    uint64          // the order of the moment when that answer came: an answer to an older read may show less
	holdBack   time.Duration   // not to be claimed before, out of courtesy
	claims     []claim         // sent, and maybe applied
	lastHeld   driver.Record   // who held it last, and since when
	term       *term           // the one that holds it, until its duties have stopped and it was released

	watchers int
	changed  chan struct{} // closed and replaced when what watchers see has changed
}

// term is one unbroken holding of a seat.
type term struct {
	e        *engine
	s        *seat
	cand     *candidate
	run      func(context.Context, Term) error
	public   Term
	life     *life
	beat     *beat // the seat's own, or nil
	ctx      context.Context
	cancel   context.CancelCauseFunc
	line     *beat         // the heartbeat that keeps it: its own, or the member's
	began    time.Duration // on the member's clock
	first    bool          // no other term depended on that heartbeat when it began
	over     atomic.Bool   // it was ended, whatever the deadline says
	stopped  chan struct{} // closed when its duty has returned
	cause    error
	next     string                    // the successor to name
	kept     bool                      // the store did not take the release
	finished chan struct{}             // closed once duties have stopped, the seat was released and the event sent
	stopKeep func(until time.Duration) // ends the seat's own heartbeat and waits for it, at most so long
}

// beginLocked makes the term that a claim has won. The caller starts it once the mutex is free.
func (e *engine) beginLocked(s *seat, c claim) *term {
	l := s.lease
	t := &term{e: e, s: s, cand: s.cand, run: s.cand.run, life: c.life, line: e.self}
	t.began = e.clock.Now()
	t.stopped = make(chan struct{})
	t.finished = make(chan struct{})
	t.ctx, t.cancel = context.WithCancelCause(context.WithValue(s.cand.ctx, t, true)) // so that who asks from inside the duty is known
	t.public = Term{Election: s.name, Epoch: l.Epoch, Since: l.Since, Incarnation: c.life.who.Incarnation, t: t}
	s.term = t
	s.seenLed = true
	s.open = false
	s.checkAt = 0

	c.life.duties.Add(1)
	t.first = c.life.held.Add(1) == 1
	e.duties.Add(1)
	e.finishing.Add(1)
	if e.cfg.OwnLease {
		t.beat = e.ownBeat(t, c)
		t.line = t.beat
		e.keepSeat(t)
	} else {
		e.fresh = append(e.fresh, t)
		e.sweepAt = min(e.sweepAt, t.began+e.sweepInterval())
	}
	c.life.attach(t)
	e.m.terms.Store(s.name, t)
	e.m.stats.transitions.Add(1)
	if p := c.ended; p.Epoch != 0 {
		e.emit(Event{Kind: EventLostLeadership, Node: p.Holder, Election: s.name, Epoch: p.Epoch,
			Metadata: map[string]string{"reason": p.Reason, "reported_by": e.m.ID}})
	}
	e.emit(becameLeader(s, t))
	e.notify(s)
	return t
}

// becameLeader is the event of a term that begins. It tells how the term before it ended.
func becameLeader(s *seat, t *term) Event {
	before := viewOf(s.lease, s.name).Before()
	ev := Event{Kind: EventBecameLeader, Election: s.name, Epoch: s.lease.Epoch, Metadata: map[string]string{
		"term": t.public.Incarnation, "previous_leader": before.Leader, "previous_reason": before.Reason}}
	if before.Vacant >= 0 {
		ev.Measurements = map[string]float64{"time": seconds(time.Now()), "vacant": before.Vacant.Seconds()}
	}
	return ev
}

// start runs a term's duty. Before that, the companion process is told that a term depends on this process.
func (e *engine) start(t *term) {
	if t.first {
		e.lifeline(t.line, false, false)
	}
	if t.run != nil {
		go e.serve(t)
	}
}

// ownBeat is the heartbeat of a seat with a lease of its own. The engine's mutex is held.
func (e *engine) ownBeat(t *term, c claim) *beat {
	w := e.cfg.LeaseDuration
	s := t.s
	return &beat{
		name: s.name, life: c.life, every: e.interval(e.cfg.RenewInterval, w), trust: trust(w, e.cfg.StopTimeout), lease: s.lease,
		tries: []try{{c.nonce, c.sent}},
		edited: func(l driver.Record) {
			previous := s.lease
			s.lease = l
			e.noteLeader(s, previous)
			e.obey(s)
		},
	}
}

// keepSeat starts the heartbeat of a seat with a lease of its own.
func (e *engine) keepSeat(t *term) {
	ctx, cancel := context.WithCancel(e.ctx)
	done := make(chan struct{})
	stopped := sync.OnceFunc(func() { close(done) })
	t.stopKeep = func(until time.Duration) {
		cancel()
		limit := e.clock.NewTimer(max(0, until-e.clock.Now()))
		defer limit.Stop()
		select {
		case <-done:
		case <-limit.C: // a driver that does not heed its context: the release does without its answer
		}
	}
	e.spawn(func() { e.guard(t.beat) })
	e.spawn(func() {
		defer stopped() // also if it panics
		err := e.keep(ctx, t.beat)
		stopped() // before drop, which waits for it
		if ctx.Err() == nil {
			e.drop(t.life, err)
		}
	})
}

// serve runs a term's duty to its end. It does not start one whose term has ended already: the companion process may not
// know of it.
func (e *engine) serve(t *term) {
	if t.ctx.Err() != nil || t.life.hasEnded() {
		e.served(t, nil)
		return
	}
	err := errGoexit
	defer func() { e.served(t, err) }()
	err = protect(func() error { return t.run(t.ctx, t.public) })
}

// errGoexit is what a duty leaves behind that ends its goroutine instead of returning.
var errGoexit = errors.New("the duty has ended its goroutine")

// served follows the end of a duty, whatever way it took.
func (e *engine) served(t *term, err error) {
	e.mu.Lock()
	returned := !t.over.Load() && t.ctx.Err() == nil // of its own accord
	switch {
	case returned:
		e.endLocked(t, errors.Join(ErrReturned, err), "")
	case !t.over.Load(): // its life has ended, and its context with it
		e.endLocked(t, context.Cause(t.ctx), "")
	}
	if returned && t.s.cand == t.cand {
		e.info = nil // it no longer says that it runs for the election
		t.s.cand = nil
		delete(e.m.cands, t.s.name)
	}
	e.mu.Unlock()

	e.dutyStopped(t)
	e.finish([]*term{t})
	if returned {
		t.cand.result <- err
	}
}

// dutyStopped notes that nothing of a term runs any more. What waits for that does not wait for the release of its seat,
// which a store that hangs can hold up.
func (e *engine) dutyStopped(t *term) {
	close(t.stopped)
	last := t.life.held.Add(-1) == 0
	t.life.duties.Done()
	e.duties.Done()
	if last && t.beat == nil {
		e.lifeline(t.line, false, false)
	}
}

// end ends terms: from now on they are not believed, and their duties are told to stop. Those that hold a seat with no duty
// are released by this call, together.
func (e *engine) end(cause error, next string, terms ...*term) {
	var idle []*term
	e.mu.Lock()
	for _, t := range terms {
		if e.endLocked(t, cause, next) && t.run == nil {
			idle = append(idle, t)
		}
	}
	e.mu.Unlock()

	for _, t := range idle {
		e.dutyStopped(t)
	}
	e.finish(idle)
}

func (e *engine) endLocked(t *term, cause error, next string) bool {
	if t.over.Swap(true) {
		return false
	}
	t.cause = cause
	t.next = next
	e.m.terms.CompareAndDelete(t.s.name, t)
	t.life.detach(t)
	t.cancel(cause)
	if t.run != nil {
		e.watchStop(t)
	}
	return true
}

// watchStop raises the alarm if a duty does not stop in time. Its seat is not released then: it cannot be (rule 7).
func (e *engine) watchStop(t *term) {
	timer := e.clock.NewTimer(e.cfg.StopTimeout)
	go func() {
		defer timer.Stop()
		select {
		case <-t.stopped:
		case <-timer.C:
			e.emit(Event{Kind: EventDutyStuck, Election: t.public.Election, Epoch: t.public.Epoch,
				Metadata: map[string]string{"reason": reasonOf(t.cause)}})
		}
	}()
}

// finish follows the end of terms once their duties have stopped: the seats are released, then the events are sent
// (rule 7). A term whose life has ended needs no release: its seat is free to everybody by that.
func (e *engine) finish(terms []*term) {
	if len(terms) == 0 {
		return
	}
	// A driver that panics leaves the release undone, as one that fails does, and then the engine starts anew.
	if err := protect(func() error { e.releaseAll(terms); return nil }); err != nil {
		for _, t := range terms {
			t.kept = true
		}
		e.cancel(err)
	}

	e.mu.Lock()
	for _, t := range terms {
		e.finishedLocked(t)
	}
	e.moved()
	e.mu.Unlock()
	e.kick()
}

// releaseAll ends what keeps terms alive, and releases their seats.
func (e *engine) releaseAll(terms []*term) {
	for _, t := range terms { // all of them before anything that may take time
		if t.beat != nil {
			t.life.end(t.cause)
			e.lifeline(t.beat, true, false)
		}
	}
	var held []*term
	limit := e.clock.Now() + e.patience
	for _, t := range terms {
		switch {
		case t.beat != nil:
			e.noteEnd(t.life)
			t.stopKeep(limit)
			held = append(held, t)
		case !t.life.hasEnded():
			held = append(held, t)
		}
	}
	e.release(held)
	for _, t := range terms {
		if t.beat != nil && !t.kept { // else the companion process may release it yet
			e.lifeline(t.beat, true, true)
		}
	}
}

// finishedLocked notes that a term is over, and tells everybody.
func (e *engine) finishedLocked(t *term) {
	reason := reasonOf(t.cause)
	now := e.clock.Now()
	switch reason {
	case reasonHandoff, reasonSteppedDown, reasonUnhealthy:
		// Others may have to poll to find out, and then stand back for a better one.
		t.s.holdBack = now + e.cfg.ElectionInterval + e.reservation()
	case reasonFenced:
		t.s.holdBack = now + t.s.fencedAgain(now-t.began)
	}
	if t.s.term == t {
		t.s.term = nil
		t.s.stale = true
	}
	if t.beat != nil && t.kept {
		t.s.unreleased = t.life.who
	}
	if e.m.ended == nil {
		e.m.ended = map[string]uint64{}
	}
	e.m.ended[t.public.Election] = t.public.Epoch
	e.emit(Event{Kind: EventLostLeadership, Election: t.public.Election, Epoch: t.public.Epoch, Metadata: map[string]string{"reason": reason}})
	close(t.finished)
	e.finishing.Done()
	e.notify(t.s)
	e.dismiss(t.s)
}

// A member whose terms are refused by fences, one after the other, waits between them: whoever reports ever higher epochs
// could otherwise make it begin thousands of terms a minute. After the first it does not wait.
const (
	fencedWait    = time.Second
	fencedWaitMax = time.Minute
)

// fencedAgain returns how long to wait after a term that was refused after that time.
func (s *seat) fencedAgain(lasted time.Duration) time.Duration {
	if lasted > fencedWaitMax {
		s.fenced = 0
	}
	s.fenced++
	if s.fenced == 1 {
		return 0
	}
	return min(fencedWait<<min(s.fenced-2, 10), fencedWaitMax)
}

// release gives seats back: together where the store can, and again one by one where that did not plainly succeed.
func (e *engine) release(terms []*term) {
	var held []*term
	var leases []driver.Record
	e.mu.Lock()
	for _, t := range terms {
		if l := t.record(); t.holds(l) {
			held, leases = append(held, t), append(leases, l)
		}
	}
	e.mu.Unlock()
	done := make([]bool, len(held))
	if len(held) > 1 {
		sent, now := e.now(), time.Now()
		vacant := make([]driver.Record, len(held))
		for i, t := range held {
			vacant[i] = vacated(leases[i], newNonce(), now, reasonOf(t.cause))
			vacant[i].Next = t.next
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.patience)
		defer cancel()
		for i, out := range e.swapAll(ctx, vacant) {
			if done[i] = out.Err == nil; done[i] {
				e.received(held[i].s, out.Record, nil, sent)
			}
		}
	}
	// A store that does not answer is not waited for again and again: the seats are free when the member leaves, or when they run out.
	limit := e.clock.Now() + 2*e.patience
	for i, t := range held {
		if !done[i] {
			t.kept = e.clock.Now() >= limit || !e.giveBack(t.s, leases[i], t.next, reasonOf(t.cause))
		}
	}
}

// drop ends a life and all that depends on it.
func (e *engine) drop(l *life, cause error) {
	l.end(cause)
	e.end(cause, "", e.held(l)...)
}

// held returns the terms that hang on a life, or all of them.
func (e *engine) held(l *life) []*term {
	e.mu.Lock()
	defer e.mu.Unlock()
	var terms []*term
	for _, s := range e.seats {
		if s.term != nil && (l == nil || s.term.life == l) {
			terms = append(terms, s.term)
		}
	}
	slices.SortFunc(terms, func(a, b *term) int { return strings.Compare(a.s.name, b.s.name) })
	return terms
}

// noteLeader tells watchers and the event stream what has become of a seat. The engine's mutex is held.
func (e *engine) noteLeader(s *seat, previous driver.Record) {
	l := s.lease
	if l.Notable(previous) || l.Addr != previous.Addr {
		e.notify(s)
		e.moved()
	}
	if !l.Vacant() && l.Holder.ID != e.m.ID && (l.Holder != previous.Holder || l.Epoch != previous.Epoch) {
		s.holdBack = 0 // what it stood back for has come
		v := viewOf(l, s.name)
		v.Known = max(l.Epoch, e.m.memory[s.name])
		before := v.Before()
		if previous.Holder.ID != "" {
			before.Leader = previous.Holder.ID
		}
		e.emit(Event{Kind: EventLeaderChanged, Election: s.name, Epoch: l.Epoch, Metadata: map[string]string{
			"previous_leader": before.Leader, "previous_reason": before.Reason, "new_leader": l.Holder.ID, "term": l.Holder.Incarnation}})
	}
}

// moved makes the next poll come soon. The poll interval grows only while nothing changes. The engine's mutex is held.
func (e *engine) moved() {
	e.quiet = 0
	now := e.clock.Now()
	e.pollAt = min(e.pollAt, now+e.untilPhase(now, e.cfg.ElectionInterval))
}

// notify wakes the watchers of a seat. The engine's mutex is held.
func (e *engine) notify(s *seat) {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// forget drops a claim that was not applied and never will be.
func (e *engine) forget(s *seat, nonce uint64) {
	e.mu.Lock()
	s.claims = slices.DeleteFunc(s.claims, func(c claim) bool { return c.nonce == nonce })
	e.mu.Unlock()
}
