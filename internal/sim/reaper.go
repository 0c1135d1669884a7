package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// pipe is what a process keeps of its reaper: what it has reported to it and still holds, and the reaper
// that is there now. The rules are those of package reaper (reaper/).
type pipe struct {
	p     *process
	delay time.Duration // how long a message takes

	mu    sync.Mutex
	lines map[string]line // by register
	last  time.Duration   // when the last message arrives, since the start
	now   *reaper         // nil while there is none
}

// line is a lifeline with the time at which a silent process is killed, on the clock that both
// processes read.
type line struct {
	regent.Lifeline
	killAt time.Duration
}

// reaper is the companion of a process: another process of the same machine. It is frozen, killed
// and replaced by itself.
type reaper struct {
	p     *process
	clock *clock // reads as the process's own
	dead  bool

	mu    sync.Mutex
	inbox []line // what waits in the pipe
	lines map[string]line
	shot  bool
}

const (
	lastLook   = 5 * time.Millisecond  // how long it listens once more before it kills
	replaced   = 50 * time.Millisecond // after which a process starts another reaper
	reapMargin = 5 * time.Second       // how long reaping is tried after the lease has run out
)

func newPipe(p *process, delay time.Duration) *pipe {
	pp := &pipe{p: p, delay: delay, lines: map[string]line{}}
	pp.now = pp.newReaper()
	return pp
}

func (pp *pipe) newReaper() *reaper {
	c := &clock{start: pp.p.clock.start, rate: pp.p.clock.rate, offset: pp.p.clock.offset}
	return &reaper{p: pp.p, clock: c, lines: map[string]line{}}
}

// take applies a message. An incarnation replaces the one before it on the same register, and only
// itself ends.
func take(lines map[string]line, l line) {
	before := lines[l.Register]
	switch {
	case !l.Over && l.Stopped && before.Holder == l.Holder:
		l.killAt = max(l.killAt, before.killAt) // until then it makes sense to free it
		lines[l.Register] = l
	case !l.Over:
		lines[l.Register] = l
	case before.Holder == l.Holder:
		delete(lines, l.Register)
	}
}

// report is the OnLifeline of the member.
func (pp *pipe) report(l regent.Lifeline) {
	if pp.p.dead.Load() {
		return
	}

	now := pp.p.clock.Now()
	m := line{Lifeline: l, killAt: now + l.Left - l.Left/200 + pp.p.plan.Config.StopTimeout}
	pp.mu.Lock()
	defer pp.mu.Unlock()
	take(pp.lines, m)
	pp.send(m)
}

// send puts a message into the pipe. The mutex is held.
func (pp *pipe) send(m line) {
	r := pp.now
	if r == nil {
		return // it gets everything when it is there
	}

	now := time.Since(pp.p.sim.start)
	pp.last = max(now+pp.delay, pp.last+1)
	time.AfterFunc(pp.last-now, func() { r.receive(m) })
}

// replace starts another reaper, when the process runs, and tells it everything.
func (pp *pipe) replace() {
	if pp.p.dead.Load() || pp.p.stopped() {
		return
	}

	if left := time.Duration(pp.p.clock.until.Load()) - pp.p.clock.elapsed(); left > 0 {
		time.AfterFunc(left+1, pp.replace)
		return
	}

	pp.p.sim.reach(ReaperReplaced)
	pp.mu.Lock()
	defer pp.mu.Unlock()
	pp.now = pp.newReaper()
	for _, l := range sorted(pp.lines) {
		pp.send(l)
	}
}

// sorted returns lines by register, so that a seed repeats itself.
func sorted(lines map[string]line) []line {
	var all []line
	for _, name := range sortedKeys(lines) {
		all = append(all, lines[name])
	}

	return all
}

// crash ends the reaper alone. What is in the pipe is lost with it.
func (pp *pipe) crash() {
	pp.mu.Lock()
	r := pp.now
	pp.now = nil
	pp.mu.Unlock()
	if r == nil {
		return
	}

	r.mu.Lock()
	r.dead = true
	r.mu.Unlock()
	pp.p.sim.say(pp.p, "loses its reaper")
	time.AfterFunc(replaced, pp.replace)
}

// freeze stops the reaper alone for d.
func (pp *pipe) freeze(d time.Duration) {
	pp.mu.Lock()
	r := pp.now
	pp.mu.Unlock()
	if r != nil {
		pp.p.sim.say(pp.p, "has a reaper that is frozen for %v", d)
		r.clock.freeze(d)
	}
}

// gone tells the reaper, after what is still in the pipe, that its process is dead.
func (pp *pipe) gone() {
	pp.mu.Lock()
	defer pp.mu.Unlock()
	if r := pp.now; r != nil {
		now := time.Since(pp.p.sim.start)
		time.AfterFunc(max(time.Millisecond, pp.last-now+1), r.release)
	}
}

// frozen runs f when the reaper goes on, and reports whether it is frozen.
func (r *reaper) frozen(f func()) bool {
	left := time.Duration(r.clock.until.Load()) - r.clock.elapsed()
	if left <= 0 {
		return false
	}

	time.AfterFunc(left+1, f)
	return true
}

// receive takes a message out of the pipe, when the reaper runs.
func (r *reaper) receive(m line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, m)
	if !r.dead && !r.frozen(r.listen) {
		r.listenLocked()
	}
}

func (r *reaper) listen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listenLocked()
}

// listenLocked takes in all that is in the pipe. The mutex is held.
func (r *reaper) listenLocked() {
	for _, m := range r.inbox {
		take(r.lines, m)
		if !m.Stopped && !m.Over && m.Holds {
			wait := time.Duration(float64(m.killAt-r.clock.Now())/r.clock.rate) + 1
			time.AfterFunc(max(wait, 0), r.ring)
		}
	}

	r.inbox = nil
}

// ring is called when a lifeline that was reported may be overdue.
func (r *reaper) ring() {
	if r.overdue() == nil || r.frozen(r.ring) {
		return
	}

	time.AfterFunc(lastLook, func() {
		if r.frozen(r.ring) {
			return
		}

		if l := r.overdue(); l != nil {
			r.kill(*l)
		}
	})
}

// overdue returns a lifeline on which the process should have said something, or died. Only a
// process that holds a term is killed, and only if it has not ended its terms.
func (r *reaper) overdue() *line {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listenLocked()
	if r.dead || r.shot || r.p.dead.Load() || r.p.stopped() {
		return nil
	}

	now := r.clock.Now()
	for _, l := range sorted(r.lines) {
		if l.Holds && !l.Stopped && l.killAt <= now {
			return &l
		}
	}

	return nil
}

func (r *reaper) kill(l line) {
	r.mu.Lock()
	shot := r.shot
	r.shot = true
	r.mu.Unlock()
	s := r.p.sim
	if shot || r.p.dead.Load() {
		return
	}

	leads := slices.ContainsFunc(s.plan.Elections, func(election string) bool {
		t, ok := r.p.member.Leads(election)
		return ok && t.Incarnation == l.Holder.Incarnation
	})
	s.rec.add(r.p, Event{Kind: Killed, Name: l.Register, Who: l.Holder.Incarnation, Valid: leads})
	s.reach(ReaperKill)
	s.kill(r.p)

	// Also when the faults have stopped: it may have been the last process that could lead.
	time.AfterFunc(r.p.plan.Config.LeaseDuration/4, func() { s.relaunch(r.p) })
}

// release frees what the dead process held.
func (r *reaper) release() {
	if r.frozen(r.release) {
		return
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return
	}

	r.listenLocked()
	limit := reapMargin
	for _, l := range r.lines {
		limit = max(limit, l.killAt-r.clock.Now()+reapMargin)
	}

	lines := maps.Clone(r.lines)
	s := r.p.sim
	store := s.reaperClient(r.p)
	for _, l := range sorted(lines) {
		s.reaps.Go(func() {
			ctx, cancel := context.WithTimeout(s.ctx, limit)
			defer cancel()
			_ = regent.Reap(ctx, store, l.Register, l.Holder)
		})
	}
}

// reaperClient returns a connection of its own for the reaper of a process.
func (s *simulation) reaperClient(p *process) *memstore.Client {
	faults := p.plan.Faults
	if s.settled.Load() {
		faults = quietened(faults)
	}

	c := s.store.Client(fmt.Sprint(reaperName, p.index), faults)
	s.mu.Lock()
	s.clients = append(s.clients, c)
	s.mu.Unlock()
	return c
}

// reaperName begins the name of a reaper's client.
const reaperName = "reaper of "
