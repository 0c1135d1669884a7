package cores

import (
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// reaper is the companion of one run of a process: it knows what the process holds, kills the process if that is
// silent for too long, and releases what a dead process held. The rules are those of package reaper.
type reaper struct {
	proc   *proc
	run    int
	delay  time.Duration // how long a message takes
	lines  []line
	stored []line // what the process keeps, for the next reaper
	dead   bool
}

// line is what is known of one heartbeat register.
type line struct {
	register string
	holder   driver.Identity
	killAt   core.Time
	holds    bool
	stopped  bool
}

const (
	lastLook   = 5 * time.Millisecond  // how long a reaper listens once more before it kills
	reapAgain  = 50 * time.Millisecond // after a release that failed; and after which a reaper is replaced
	reapMargin = 5 * time.Second       // how long a release is tried after the lease has expired
)

// report sends a message to the reaper.
func (p *proc) report(e *core.Lifeline) {
	r := p.reaper
	if r == nil {
		return
	}

	m := line{register: e.Register, holder: e.Holder, holds: e.Holds, stopped: e.Stopped}
	if !e.Stopped {
		left := time.Duration(e.Deadline - p.clock())
		m.killAt = e.Deadline.Add(p.cfg.StopTimeout - left/200)
	}

	over := e.Over
	r.stored = takeLine(r.stored, m, over)
	p.sim.after(r.delay, func() { r.take(m, over) })
}

// takeLine applies a message. An incarnation replaces the one before it on the same register, and only itself ends.
func takeLine(lines []line, m line, over bool) []line {
	i := slices.IndexFunc(lines, func(l line) bool { return l.register == m.register })
	switch {
	case i < 0 && over:
	case i < 0:
		lines = append(lines, m)
	case over && lines[i].holder == m.holder:
		lines = slices.Delete(lines, i, i+1)
	case over:
	default:
		if m.stopped && lines[i].holder == m.holder {
			m.killAt = max(m.killAt, lines[i].killAt) // until then it makes sense to release it
		}

		lines[i] = m
	}

	return lines
}

// take takes in a message.
func (r *reaper) take(m line, over bool) {
	r.lines = takeLine(r.lines, m, over)
	if !over && m.holds && !m.stopped {
		r.proc.sim.after(r.proc.duration(m.killAt-r.proc.clock()), r.ring)
	}
}

// overdue returns a line on which the process should have said something.
func (r *reaper) overdue() *line {
	if r.dead || r.proc.core == nil || r.proc.run != r.run {
		return nil
	}

	now := r.proc.clock()
	for i := range r.lines {
		if l := &r.lines[i]; l.holds && !l.stopped && l.killAt <= now {
			return l
		}
	}

	return nil
}

// ring is called when a line may be overdue.
func (r *reaper) ring() {
	if r.overdue() == nil {
		return
	}

	r.proc.sim.after(lastLook, func() {
		if l := r.overdue(); l != nil {
			r.kill(l)
		}
	})
}

// kill ends a process that holds a term, has not renewed its lease in time, and has not ended the term.
func (r *reaper) kill(l *line) {
	p := r.proc
	s := p.sim
	p.note("is killed by its reaper")
	p.checkKill(l)
	s.reached |= ReaperKilled
	p.crash()
	s.after(s.between(0, 3*time.Second), p.start)
}

// checkKill fails if a reaper kills a process that leads by a lease in force, or whose duties have stopped.
func (p *proc) checkKill(l *line) {
	s := p.sim
	runs := false
	for _, i := range p.places() {
		t := p.term(i)
		if t.incarnation != l.holder.Incarnation {
			continue
		}

		runs = runs || t.running || s.now <= t.stoppedAt+p.reaper.delay
		if p.leads(i) && s.now > p.renewedAt+p.reaper.delay+lastLook {
			s.fail("the reaper kills p%d, which leads %s by a lease in force", p.index, s.names[i])
		}
	}

	if !runs {
		s.fail("the reaper kills p%d, and no duty of %s runs", p.index, l.holder)
	}
}

// died tells the reaper that the kernel has proved its process dead.
func (r *reaper) died() {
	s := r.proc.sim
	if r.dead || s.chance(0.3) { // or it has died with its host
		r.dead = true
		return
	}

	s.after(max(time.Millisecond, r.delay+1), func() {
		for _, l := range r.lines {
			r.release(l)
		}
	})
}

// release makes the register of a dead process vacant, if it still shows that incarnation.
func (r *reaper) release(l line) {
	s := r.proc.sim
	limit := s.now + r.proc.duration(l.killAt-r.proc.clock()) + reapMargin
	var try func()
	try = func() {
		f := &s.faults
		if s.now < f.refusing || s.now < f.hanging || s.lose() {
			if s.now < limit {
				s.after(reapAgain, try)
			}

			return
		}

		s.reap(s.store.register(l.register), l.holder)
	}

	s.after(s.latency(r.proc), try)
}

// reap is what a reaper writes.
func (s *sim) reap(reg *register, dead driver.Identity) {
	if reg.rec.Rev == "" || reg.rec.Holder != dead {
		return
	}

	if o := s.owner(dead); o == nil || o.proc.run == o.run && o.proc.core != nil {
		s.fail("a reaper releases %s of %s, which lives", reg.name, dead)
	}

	before := s.store.remember(reg)
	reg.rec = driver.Record{
		Name: reg.name, Epoch: before.Epoch, Nonce: s.number(), Duration: before.Duration, Paused: before.Paused,
		Data: before.Data, Rev: strconv.FormatUint(s.number(), 10),
	}
	reg.vacatedAt = s.now
	s.reached |= ReaperReleased
	s.note("a reaper releases %s", reg.name)
	s.notify(reg)
}

// replace lets a process lose its reaper, and start another.
func (p *proc) replaceReaper() {
	r := p.reaper
	if r == nil || !p.runs() {
		return
	}

	p.note("loses its reaper")
	r.dead = true
	p.reaper = &reaper{proc: p, run: p.run, delay: r.delay, stored: r.stored}
	p.later(reapAgain, func() {
		for _, l := range p.reaper.stored {
			p.reaper.take(l, false)
		}
	})
}
