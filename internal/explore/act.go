package explore

import (
	"slices"

	"github.com/regentd/regent/internal/core"
)

// This file is what an action does to a world.

// do lets one action happen. The error is a violation.
func (w *world) do(a action) error {
	w.shows = 0
	err := w.act(a)
	w.tidy()
	return err
}

func (w *world) act(a action) error {
	switch a.verb {
	case pass:
		if w.setup.Prompt && !w.settled() {
			spend(&w.left.freezes)
		}

		w.now += tick
	case wake:
		return w.step(a.i, core.Tick{})
	case apply:
		return w.apply(a.i)
	case deliver:
		m := w.take(a.i)
		return w.answer(&m)
	case loseRequest, loseAnswer:
		spend(&w.left.losses)
		m := w.take(a.i)
		return w.step(m.proc, core.Answer{ID: m.id})
	case notSent:
		spend(&w.left.losses)
		m := w.take(a.i)
		return w.step(m.proc, core.Answer{ID: m.id, Outcome: core.NotSent})
	case delay:
		spend(&w.left.losses)
		w.msgs[a.i].late = true
		return w.step(w.msgs[a.i].proc, core.Answer{ID: w.msgs[a.i].id})
	case drop:
		w.take(a.i)
	case notify:
		p := &w.procs[a.i]
		r := p.notices[a.k]
		p.notices = slices.Delete(p.notices, a.k, a.k+1)
		return w.step(a.i, core.Notice{Record: r})
	case crash:
		spend(&w.left.crashes)
		w.forget(a.i)
	case die:
		spend(&w.left.crashes)
		w.dies(a.i)
	case kill:
		return w.kill(a.i)
	case reap:
		return w.reap(a.i)
	case sendTask:
		w.sendTask(a.i, a.k)
	case takeTask:
		return w.takeTask(a.i)
	case restart:
		return w.startProc(a.i)
	case rollBack:
		spend(&w.left.rollbacks)
		w.store.lose(a.k)
	case rollBackOne:
		spend(&w.left.rollbacks)
		w.store.loseOne(a.i)
	default:
		return w.request(a)
	}

	return nil
}

// request lets a user ask for something.
func (w *world) request(a action) error {
	name := election(a.k)
	switch a.verb {
	case dutyStops:
		p := &w.procs[a.i]
		d := p.stopping[a.k]
		p.stopping = slices.Delete(p.stopping, a.k, a.k+1)
		return w.step(a.i, core.DutyStopped{Election: d.election, Epoch: d.epoch})
	case stepDown:
		spend(&w.left.stepDowns)
		return w.ask(a.i, core.StepDown{ID: askID, Election: name})
	case release:
		spend(&w.left.releases)
		return w.ask(a.i, core.StepDown{ID: askID, Election: name})
	case pause:
		spend(&w.left.pauses)
		return w.ask(a.i, core.Pause{ID: askID, Election: name})
	case resume:
		return w.ask(a.i, core.Resume{ID: askID, Election: name})
	case handOff:
		spend(&w.left.handOffs)
		return w.ask(a.i, core.HandOff{ID: askID, Election: name, To: w.setup.IDs[len(w.setup.IDs)-1]})
	case save:
		spend(&w.left.saves)
		t := w.procs[a.i].terms[a.k]
		return w.step(a.i, core.Save{ID: 3, Election: name, Epoch: t.epoch, Data: []byte{byte('a' + w.left.saves)}})
	case leave:
		spend(&w.left.closes)
		return w.step(a.i, core.Close{})
	default:
		return w.rest(a)
	}
}

// askID is the ID of every request of a user to whoever leads.
const askID = 1

// ask gives a request of its user to a process.
func (w *world) ask(i int, in core.Input) error {
	w.procs[i].asking = true
	return w.step(i, in)
}

// forget ends a process.
func (w *world) forget(i int) {
	w.procs[i] = proc{}
	if i == 0 {
		w.retires = ""
	}
}

func (w *world) take(i int) message {
	m := w.msgs[i]
	w.msgs = slices.Delete(w.msgs, i, i+1)
	return m
}

// tidy drops what cannot make a difference any more: requests that nobody waits for and that cannot be applied.
func (w *world) tidy() {
	late := 0
	w.msgs = slices.DeleteFunc(w.msgs, func(m message) bool { return w.moot(&m, &late) })
	for i := range w.msgs {
		m := &w.msgs[i]
		p := &w.procs[m.proc]
		m.late = m.late || p.core == nil || !p.core.Awaits(m.id)
	}
}

// moot reports whether a request can be forgotten.
func (w *world) moot(m *message, late *int) bool {
	p := &w.procs[m.proc]
	if p.core != nil && !m.late && p.core.Awaits(m.id) {
		return false
	}

	if m.applied || isRead(m.verb) || !w.restorable(m.record.Name, m.record.Rev) {
		return true
	}

	*late++
	return *late > w.setup.Late
}
