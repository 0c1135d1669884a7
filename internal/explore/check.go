package explore

import (
	"bytes"
	"fmt"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// apply lets a request reach the store, and checks what it does there.
func (w *world) apply(i int) error {
	m := &w.msgs[i]
	if isRead(m.verb) {
		w.store.read(m)
		m.applied = true
		if w.setup.Reads == AtomicReads {
			return w.act(action{verb: deliver, i: i})
		}

		return nil
	}

	if m.verb == core.Remove {
		w.remove(m)
		return nil
	}

	before := w.store.records[w.store.index(m.record.Name)]
	m.got, m.outcome = w.store.swap(m.record, w.draw(), w.undo())
	m.applied = true
	sender := m.proc
	if m.outcome != core.Done {
		return nil
	}

	w.notifyOthers(sender, &before, &m.got)
	k := w.store.index(m.record.Name)
	if k >= w.setup.Elections {
		return w.checkHeartbeat(sender, &before, &m.got)
	}

	if m.got.Epoch > before.Epoch && !m.late {
		if err := w.checkMemory(sender, k, m.got.Epoch); err != nil {
			return err
		}
	}

	return w.checkWrite(sender, k, &before, &m.got)
}

func (w *world) undo() int {
	if w.left.rollbacks == 0 {
		w.store.undo = nil
		return 0
	}

	return w.setup.Undo
}

// checkWrite checks a write to the record of an election.
func (w *world) checkWrite(sender, k int, before, after *driver.Record) error {
	forgetful := w.setup.Rollbacks > w.left.rollbacks
	switch {
	case after.Epoch < before.Epoch:
		return fmt.Errorf("%s falls from epoch %d to %d", after.Name, before.Epoch, after.Epoch)
	case after.Epoch > before.Epoch && before.Paused:
		return fmt.Errorf("%s: p%d claims epoch %d of a paused election", after.Name, sender, after.Epoch)
	case after.Epoch > before.Epoch:
		if after.Epoch <= w.granted[k] && before.Rev == "" && w.setup.Retires > w.left.retires {
			w.outran = true // it must not be believed: see checkBegin
		} else if after.Epoch <= w.granted[k] && !forgetful {
			return fmt.Errorf("%s: epoch %d is granted after epoch %d", after.Name, after.Epoch, w.granted[k])
		}

		w.granted[k] = max(w.granted[k], after.Epoch)
		for i := range w.procs {
			if i != sender && w.leads(i, k) && !forgetful {
				return fmt.Errorf("%s: p%d claims epoch %d over the live lease of p%d in epoch %d",
					after.Name, sender, after.Epoch, i, w.procs[i].terms[k].epoch)
			}
		}
	case after.Vacant() && !before.Vacant() && before.Holder.ID != w.setup.IDs[sender]:
		return fmt.Errorf("%s: p%d releases what %s holds", after.Name, sender, before.Holder.ID)
	case !after.Vacant() && after.Holder != before.Holder:
		return fmt.Errorf("%s changes hands in epoch %d", after.Name, after.Epoch)
	}

	sameTerm := after.Holder == before.Holder && after.Epoch == before.Epoch && !before.Vacant()
	if !bytes.Equal(after.Data, before.Data) && !sameTerm {
		return fmt.Errorf("%s: p%d writes a checkpoint that is not its term's", after.Name, sender)
	}

	return nil
}

// stopBy returns when the duty of a term that ends must have stopped. Its context ends at the deadline at the latest,
// also if the core is not stepped.
func (w *world) stopBy(i int, name string) core.Time {
	p := &w.procs[i]
	at := w.now
	if t := p.terms[w.store.index(name)]; t != nil && t.ended > 0 {
		at = t.ended
	} else if t != nil {
		at = min(at, p.deadlines[t.register])
	}

	return at.Add(w.setup.Config.StopTimeout)
}

// noteEnds notes when the contexts of terms ended whose heartbeat has ended.
func (w *world) noteEnds(p *proc, e *core.Renewed) {
	if e.Deadline != 0 {
		return
	}

	for k, t := range p.terms {
		if t != nil && t.register == e.Register {
			ended := *t // other worlds share the term
			ended.ended = min(w.now, p.deadlines[e.Register])
			p.terms[k] = &ended
		}
	}
}

// checkDuties checks that no term begins beside a duty of another process that still has time to stop (rule 7).
func (w *world) checkDuties(i int, name string) error {
	if w.setup.Rollbacks > w.left.rollbacks {
		return nil
	}

	for j := range w.procs {
		for _, d := range w.procs[j].stopping {
			if j != i && d.election == name && w.now < d.until {
				return fmt.Errorf("p%d begins a term of %s while the duty of p%d in epoch %d stops", i, name, j,
					d.epoch)
			}
		}
	}

	return nil
}

// checkMemory checks that a claim goes beyond every epoch that its process was shown, whatever the store has lost.
func (w *world) checkMemory(sender, k int, epoch uint64) error {
	for _, s := range w.procs[sender].shown[k] {
		if epoch <= s.epoch {
			return fmt.Errorf("%s: p%d claims epoch %d, but was shown epoch %d", election(k), sender, epoch, s.epoch)
		}
	}

	return nil
}

// checkHeartbeat checks a write to a member register: nobody ends an incarnation under which somebody still leads. The
// sender is a process, or -1 for a reaper.
func (w *world) checkHeartbeat(sender int, before, after *driver.Record) error {
	if before.Vacant() || after.Holder == before.Holder || w.setup.Rollbacks > 0 {
		return nil
	}

	who := fmt.Sprintf("p%d", sender)
	if sender < 0 {
		who = "a reaper"
	}

	for i := range w.procs {
		for k := range w.setup.Elections {
			if !w.leads(i, k) {
				continue
			}

			t := w.procs[i].terms[k]
			if t.register == after.Name && t.incarnation == before.Holder.Incarnation {
				return fmt.Errorf("%s: %s ends the incarnation under which p%d leads %s",
					after.Name, who, i, election(k))
			}
		}
	}

	return nil
}

// notifyOthers puts a notification of a change of hands on its way to everybody else. Only the newest is kept.
func (w *world) notifyOthers(sender int, before, after *driver.Record) {
	if !w.setup.Notices || after.Holder == before.Holder && after.Next == before.Next && after.Paused == before.Paused {
		return
	}

	for i := range w.procs {
		p := &w.procs[i]
		if i != sender && p.core != nil && !p.gone {
			p.notices = []driver.Record{*after}
		}
	}
}
