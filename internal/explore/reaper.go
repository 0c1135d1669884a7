package explore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file is the reaper of each process. It knows what the process holds, kills a process that is silent for too
// long, and frees what a dead one held, by regent.Reap. It never waits for anything: what it does may come at any time.

// lifeline is what a reaper knows of one heartbeat register.
type lifeline struct {
	register string
	holder   driver.Identity
	killAt   core.Time
	holds    bool
	stopped  bool
}

// tell takes in a message to the reaper of a process, by the rules of package reaper: an incarnation replaces the one
// before it on the same register, and only itself ends.
func (w *world) tell(p *proc, e *core.Lifeline) {
	if !w.setup.Reapers {
		return
	}

	l := lifeline{register: e.Register, holder: e.Holder, holds: e.Holds, stopped: e.Stopped}
	if !e.Stopped {
		left := time.Duration(e.Deadline - w.now)
		l.killAt = e.Deadline.Add(w.setup.Config.StopTimeout - left/200)
	}

	i := slices.IndexFunc(p.lines, func(known lifeline) bool { return known.register == l.register })
	switch {
	case i < 0 && !e.Over:
		p.lines = append(p.lines, l)
	case i >= 0 && !e.Over:
		p.lines[i] = l
	case i >= 0 && p.lines[i].holder == l.holder:
		p.lines = slices.Delete(p.lines, i, i+1)
	}
}

// overdue reports whether a process should have ended its terms, or said that it has.
func (w *world) overdue(p *proc) bool {
	return slices.ContainsFunc(p.lines, func(l lifeline) bool { return l.holds && !l.stopped && l.killAt <= w.now })
}

// kill lets a reaper kill its process. It must not kill one that leads by a lease in force, or of which no duty runs.
func (w *world) kill(i int) error {
	p := &w.procs[i]
	duties := len(p.stopping)
	for k := range w.setup.Elections {
		if w.leads(i, k) {
			return fmt.Errorf("the reaper kills p%d, which leads %s by a lease in force", i, election(k))
		}

		if p.terms[k] != nil {
			duties++
		}
	}

	if duties == 0 {
		return fmt.Errorf("the reaper kills p%d, and no duty of it runs", i)
	}

	w.shows |= Killed
	w.dies(i)
	return nil
}

// dies ends a process whose reaper lives.
func (w *world) dies(i int) {
	w.dead = append(w.dead, w.procs[i].lines...)
	w.forget(i)
}

// reap lets a reaper free a register, if that still shows the incarnation of the dead process.
func (w *world) reap(n int) error {
	l := w.dead[n]
	w.dead = slices.Delete(w.dead, n, n+1)
	s := &reaped{w: w}
	if err := regent.Reap(context.Background(), s, l.register, l.holder); err != nil {
		return err
	}

	return s.err
}

// reaped is the store as a reaper sees it. A write of a reaper is conditional on what it has read, so that both may
// count as one step.
type reaped struct {
	w   *world
	err error // a violation
}

func (s *reaped) Get(_ context.Context, name string) (driver.Record, error) {
	r, outcome := s.w.store.get(name)
	if outcome != core.Done {
		return r, driver.ErrNotFound
	}

	return r, nil
}

func (s *reaped) Swap(_ context.Context, r driver.Record) (driver.Record, error) {
	w := s.w
	k := w.store.index(r.Name)
	before := w.store.records[k]
	after, outcome := w.store.swap(r, w.draw(), w.undo())
	if outcome != core.Done {
		return after, driver.ErrConflict
	}

	w.shows |= Reaped
	w.notifyOthers(-1, &before, &after)
	for i := range w.procs {
		if k < w.setup.Elections && w.leads(i, k) && w.setup.Rollbacks == w.left.rollbacks {
			s.err = fmt.Errorf("%s: a reaper frees the live lease of p%d", r.Name, i)
		}
	}

	if k >= w.setup.Elections {
		s.err = w.checkHeartbeat(-1, &before, &after)
	}

	return after, nil
}

func (s *reaped) List(context.Context, string) iter.Seq2[driver.Record, error] {
	return func(func(driver.Record, error) bool) {}
}

func (s *reaped) Close() error { return nil }
