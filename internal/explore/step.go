package explore

import (
	"fmt"

	"github.com/regentd/regent/internal/core"
)

// This file steps the core of a process, and checks what all of them do.

// step gives one input to a core, and does what it asks for.
func (w *world) step(i int, in core.Input) error {
	p := &w.procs[i]
	src := &source{w.drawn}
	p.core = p.core.Clone(src)
	effects := p.core.Step(w.now, in)
	w.drawn = src.last

	var duties []stopping
	var reads []core.Send
	for _, e := range effects {
		switch e := e.(type) {
		case core.Send:
			if isRead(e.Verb) && w.instant(i) {
				reads = append(reads, e)
				continue
			}

			if _, ok := in.(core.Notice); ok && e.Verb == core.Swap {
				w.shows |= ClaimedOnNotice
			}

			if _, ok := in.(core.Campaign); ok && e.Verb == core.Swap && e.Record.Epoch > 1 {
				w.shows |= ClaimedKnown
			}

			w.msgs = append(w.msgs, message{proc: i, id: e.ID, verb: e.Verb, record: e.Record, seek: e.Seek})
		case core.Begin:
			k := w.store.index(e.Election)
			if w.reading {
				w.shows |= Adopted
			}

			p.terms[k] = &term{epoch: e.Epoch, register: e.Register, incarnation: e.Incarnation}
			p.deadlines[e.Register] = e.Deadline
			if err := w.checkBegin(i, k, e.Epoch); err != nil {
				return err
			}

			if err := w.checkLeaders(k); err != nil {
				return err
			}

			if err := w.checkDuties(i, e.Election); err != nil {
				return err
			}
		case core.Renewed:
			w.noteEnds(p, &e)
			p.deadlines[e.Register] = e.Deadline
			if err := w.checkAll(); err != nil {
				return err
			}
		case core.End:
			duties = append(duties, stopping{e.Election, e.Epoch, w.stopBy(i, e.Election)})
			p.terms[w.store.index(e.Election)] = nil
		case core.Event:
			if e.Kind == core.EventRegressed {
				w.shows |= WaitedForRollback
				if err := w.checkAlarm(i, &e); err != nil {
					return err
				}
			}
		case core.Lifeline:
			w.tell(p, &e)
		case core.Result:
			p.asking = p.asking && e.ID != askID
			if e.ID == retireID {
				w.retires = ""
			}
		case core.Closed:
			p.gone = true
		}
	}

	for _, r := range reads {
		m := message{proc: i, id: r.ID, verb: r.Verb, record: r.Record, seek: r.Seek}
		w.store.read(&m)
		if err := w.answer(&m); err != nil {
			return err
		}
	}

	if w.setup.SlowDuty {
		p.stopping = append(p.stopping, duties...)
		return nil
	}

	for _, d := range duties {
		if err := w.step(i, core.DutyStopped{Election: d.election, Epoch: d.epoch}); err != nil {
			return err
		}
	}

	return nil
}

// answer gives the answer to a request to a core.
func (w *world) answer(m *message) error {
	if m.outcome == core.Done && m.verb != core.List && m.verb != core.Skim {
		w.see(m.proc, &m.got)
	}

	for i := range m.list {
		w.see(m.proc, &m.list[i])
		if !m.list[i].Vacant() && m.list[i].Holder.ID != w.setup.IDs[m.proc] {
			w.shows |= Listed
		}
	}

	w.reading = isRead(m.verb)
	err := w.step(m.proc, core.Answer{ID: m.id, Outcome: m.outcome, Record: m.got, Records: m.list,
		Partial: m.partial})
	w.reading = false
	return err
}

// instant reports whether the reads of a process are answered at once.
func (w *world) instant(i int) bool {
	return w.setup.Reads == InstantReads || w.setup.Reads == LastSlow && i < len(w.procs)-1
}

// leads reports whether a process believes that it leads an election: by its deadline.
func (w *world) leads(i, k int) bool {
	p := &w.procs[i]
	return p.core != nil && p.terms[k] != nil && w.now < p.deadlines[p.terms[k].register]
}

func (w *world) checkAll() error {
	for k := range w.setup.Elections {
		if err := w.checkLeaders(k); err != nil {
			return err
		}
	}

	return nil
}

// checkLeaders returns an error if two processes lead an election at once. Where the store has lost writes, a
// process that was never shown the other's term, or the heartbeat that the other relies on, cannot know of it; then
// only the fences hold.
func (w *world) checkLeaders(k int) error {
	first := -1
	for i := range w.procs {
		if !w.leads(i, k) {
			continue
		}

		if first < 0 {
			first = i
			continue
		}

		a := w.procs[first].terms[k].epoch
		b := w.procs[i].terms[k].epoch
		if w.setup.Rollbacks > w.left.rollbacks && w.unaware(first, i, k) {
			continue
		}

		return fmt.Errorf("two processes lead %s at once: p%d in epoch %d, p%d in epoch %d", election(k), first, a, i,
			b)
	}

	return nil
}
