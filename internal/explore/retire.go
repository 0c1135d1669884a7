package explore

import (
	"fmt"
	"slices"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file is about registers that are removed (rule 13), and what it takes to get there: elections in which nobody
// campaigns, and processes that do nothing for as long as it takes.

// isRead reports whether a request changes nothing.
func isRead(verb core.Verb) bool { return verb != core.Swap && verb != core.Remove }

// retireActions returns what a process that is awake may do about registers that nobody uses.
func (w *world) retireActions(all []action, i int) []action {
	if w.left.sleeps > 0 && i == len(w.procs)-1 {
		all = append(all, action{verb: sleep, i: i})
	}

	for k := range w.setup.Elections {
		switch {
		case w.procs[i].idle[k]:
			if w.setup.Returns || !w.contended(k) {
				all = append(all, action{verb: comeBack, i: i, k: k})
			}
		case w.left.withdraws > 0 && (i == 0 || w.procs[0].core != nil && w.procs[0].idle[k]):
			all = append(all, action{verb: withdraw, i: i, k: k})
		}
	}

	if i > 0 {
		return all
	}

	for k := range w.store.records {
		r := &w.store.records[k]
		silent := w.setup.Silent && k >= w.setup.Elections && r.Holder.ID != w.setup.IDs[0]
		switch {
		case !r.Vacant() && !silent || r.Rev == "" || r.Name == driver.FloorRegister:
		case k < w.setup.Elections && w.left.retires > 0:
			all = append(all, action{verb: retire, i: i, k: k})
		case k >= w.setup.Elections && w.left.retiresOf > 0 && w.retires == "":
			all = append(all, action{verb: retireMember, i: i, k: k})
		}
	}

	return all
}

// retireID is the ID of every request to retire a member register.
const retireID = 5

// retiring reports whether the first process retires a member register, and no election of another depends on that: it
// revokes the heartbeat for no other reason.
func (w *world) retiring(name string) bool {
	return w.retires == name && !slices.ContainsFunc(w.store.records[:w.setup.Elections], func(r driver.Record) bool {
		return r.Via == name
	})
}

// contended reports whether somebody campaigns in an election.
func (w *world) contended(k int) bool {
	for i := range w.procs {
		if p := &w.procs[i]; p.core != nil && !p.gone && !p.idle[k] {
			return true
		}
	}

	return false
}

// rest lets a process do one of the things above.
func (w *world) rest(a action) error {
	p := &w.procs[a.i]
	switch a.verb {
	case withdraw:
		spend(&w.left.withdraws)
		p.idle[a.k] = true
		return w.step(a.i, core.Withdraw{Election: election(a.k)})
	case comeBack:
		p.idle[a.k] = false
		return w.step(a.i, core.Campaign{Election: election(a.k)})
	case sleep:
		spend(&w.left.sleeps)
		p.asleep = true
		return nil
	case rouse:
		p.asleep = false
		return nil
	case retire:
		spend(&w.left.retires)
		return w.step(a.i, core.Retire{ID: 4, Register: w.store.names[a.k]})
	case retireMember:
		spend(&w.left.retiresOf)
		w.retires = w.store.names[a.k]
		return w.step(a.i, core.Retire{ID: retireID, Register: w.retires})
	}

	return fmt.Errorf("no such action: %d", a.verb)
}

// remove lets a removal reach the store. What it must not do shows in what follows from it: two leaders, an epoch that
// comes again, or an alarm for nothing.
func (w *world) remove(m *message) {
	before, outcome := w.store.remove(m.record, w.undo())
	m.outcome = outcome
	m.applied = true
	if outcome != core.Done {
		return
	}

	w.shows |= Removed
	if w.setup.Notices {
		for i := range w.procs {
			if p := &w.procs[i]; i != m.proc && p.core != nil && !p.gone {
				p.notices = []driver.Record{{Name: before.Name}}
			}
		}
	}
}

// restorable reports whether a register may still come to show a revision. One that is removed shows none, as if it had
// never been written.
func (w *world) restorable(name, rev string) bool {
	removable := w.setup.Retires > 0
	if w.store.index(name) >= w.setup.Elections {
		removable = w.setup.RetiresOf > 0
	}

	return rev == "" && removable || w.store.restorable(name, rev)
}

// checkBegin checks that the terms of an election never have an epoch that came before, whatever was removed in
// between. Where the store has lost writes, only the fences hold.
func (w *world) checkBegin(i, k int, epoch uint64) error {
	if epoch <= w.begun[k] && w.setup.Rollbacks == w.left.rollbacks {
		return fmt.Errorf("%s: p%d begins a term in epoch %d after one in epoch %d", election(k), i, epoch, w.begun[k])
	}

	if w.begun[k] > 0 && w.setup.Retires > w.left.retires {
		w.shows |= BeganAgain
	}

	w.begun[k] = max(w.begun[k], epoch)
	return nil
}

// checkAlarm checks that a store which has lost nothing is not reported to have: a register that was removed must not
// be taken for one that was lost. A claim that is applied after the register was removed for which it was meant may
// do so.
func (w *world) checkAlarm(i int, e *core.Event) error {
	if w.setup.Rollbacks > w.left.rollbacks || w.outran {
		return nil
	}

	return fmt.Errorf("p%d reports that the store has lost epoch %d of %s%s, and it has lost nothing", i, e.Epoch,
		e.Election,
		e.Register)
}
