package cores

import (
	"errors"
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// worker receives work of the leaders of an election, behind a fence.
type worker struct {
	fence regent.Fence
	epoch uint64 // of the last work that it accepted
	term  string
}

// work lets duties that run send work, some of which arrives late.
func (s *sim) work(p *proc) {
	for _, i := range p.places() {
		if t := p.term(i); t.running && s.chance(0.2) {
			s.sendWork(p, i, *t)
		}
	}
}

func (s *sim) sendWork(p *proc, i int, t term) {
	takes := s.between(0, 100*time.Millisecond)
	if s.chance(s.faults.slow) {
		takes = s.between(0, slowest)
	}

	run := p.run
	s.after(takes, func() {
		if !s.workers[i].takes(s, p, i, t) && p.run == run {
			p.later(takes, func() { p.fenced(i, t.epoch, s.workers[i].epoch) })
		}
	})
}

// takes reports whether a worker accepts work of a term, and checks that it may.
func (w *worker) takes(s *sim, p *proc, i int, t term) bool {
	name := s.names[i]
	err := w.fence.Admit(regent.NewToken(t.epoch, t.incarnation))
	var stale *regent.StaleError
	if errors.As(err, &stale) {
		s.reached |= FenceRefused
		return false
	}

	who := driver.Identity{ID: p.cfg.ID, Incarnation: t.incarnation}
	switch {
	case err != nil:
		s.fail("a fence of %s fails: %v", name, err)
	case t.epoch < w.epoch:
		s.fail("a fence of %s accepts epoch %d after %d", name, t.epoch, w.epoch)
	case t.epoch == w.epoch && t.incarnation != w.term:
		s.fail("a fence of %s accepts epoch %d of two terms", name, t.epoch)
	case !slices.Contains(s.store.register(name).claims, claimed{t.epoch, who}):
		s.fail("a fence of %s accepts epoch %d, which p%d was not given", name, t.epoch, p.index)
	}

	w.epoch = t.epoch
	w.term = t.incarnation
	return true
}

// fenced tells a process that its work was refused: its term ends at once, and its next claim goes beyond that.
func (p *proc) fenced(i int, epoch, newest uint64) {
	s := p.sim
	t := p.term(i)
	leads := t.leading && t.epoch == epoch
	if leads {
		v := p.view(s.store.register(s.names[i]))
		v.highest = max(v.highest, newest)
	}

	p.step(core.Fenced{Election: s.names[i], Epoch: epoch, Newest: newest})
	if leads && p.core != nil && t.leading && t.epoch == epoch {
		s.fail("p%d goes on to lead %s in epoch %d, which a fence has refused", p.index, s.names[i], epoch)
	}
}
