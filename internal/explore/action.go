package explore

import (
	"slices"
)

// action is one thing that may happen next.
type action struct {
	verb verb
	i    int // the process, the message or the register
	k    int // the election, the notice or the number of writes
}

type verb uint8

const (
	pass        verb = iota // one tick of time
	wake                    // a process does what is due
	apply                   // a request reaches the store
	deliver                 // an answer reaches its process
	loseRequest             // a request is lost, and its process learns that the outcome is unknown
	loseAnswer              // an answer is lost, likewise
	delay                   // the process learns that the outcome is unknown, and the request is still on its way
	notSent                 // the process learns that the request never left it
	drop                    // a request that nobody waits for is lost
	notify                  // a notification arrives
	crash
	restart
	rollBack    // the store loses its newest writes
	rollBackOne // the store loses the newest write of one register
	dutyStops
	stepDown
	handOff
	save
	leave
	withdraw
	comeBack
	sleep
	rouse
	retire
	retireMember
	release
	pause
	resume
	sendTask
	takeTask
	die  // the process dies, and its reaper lives
	kill // by its reaper
	reap // a reaper frees what a dead process held
)

var verbs = [...]string{
	"time passes", "wakes", "applied", "delivered", "request lost", "answer lost", "delayed", "not sent",
	"dropped", "notified", "crashes", "restarts", "store loses writes", "store loses a write of", "duty stops",
	"asks to step down", "asks to hand over", "saves", "leaves",
	"withdraws", "campaigns again", "falls asleep", "is awake", "retires", "retires the register of member",
	"steps down", "asks to pause", "asks to resume", "sends a task", "task arrives from", "dies",
	"is killed by its reaper",
	"reaper frees",
}

// fair reports whether the action is part of a run without faults: those alone count for liveness. In such a run time
// passes only when nothing else is left to do.
func (w *world) fair(a action) bool {
	switch a.verb {
	case wake, apply, deliver, dutyStops, rouse, comeBack, resume, kill, reap:
		return true
	case pass:
		return w.settled()
	case restart:
		return !slices.ContainsFunc(w.procs, func(p proc) bool { return p.core != nil && !p.gone })
	}

	return false
}

// settled reports whether nothing is left to do at this moment.
func (w *world) settled() bool {
	for i := range w.procs {
		p := &w.procs[i]
		if p.core != nil && !p.asleep && (p.core.Next() <= w.now || len(p.stopping) > 0) {
			return false
		}
	}

	return !slices.ContainsFunc(w.msgs, func(m message) bool { return !m.late && !w.procs[m.proc].asleep })
}

// actions returns everything that may happen in a state, always in the same order.
func (w *world) actions(all []action) []action {
	all = all[:0]
	s := w.setup
	if !s.Prompt || w.left.freezes > 0 || w.settled() {
		all = append(all, action{verb: pass})
	}

	for i := range w.msgs {
		all = w.messageActions(all, i)
	}

	for i := range w.procs {
		all = w.procActions(all, i)
	}

	for i := range w.tasks {
		all = append(all, action{verb: takeTask, i: i})
	}

	for i := range w.dead {
		all = append(all, action{verb: reap, i: i})
	}

	if w.left.rollbacks > 0 {
		for n := range w.store.undo {
			all = append(all, action{verb: rollBack, k: n + 1})
		}

		for i := range w.store.names {
			written := slices.ContainsFunc(w.store.undo, func(c change) bool { return c.register == i })
			if written && len(w.store.undo) > 1 {
				all = append(all, action{verb: rollBackOne, i: i})
			}
		}
	}

	return all
}

func (w *world) messageActions(all []action, i int) []action {
	m := &w.msgs[i]
	switch {
	case m.late:
		return append(all, action{verb: apply, i: i}, action{verb: drop, i: i})
	case m.applied && w.procs[m.proc].asleep:
		return all
	case m.applied:
		all = append(all, action{verb: deliver, i: i})
	default:
		all = append(all, action{verb: apply, i: i})
	}

	if w.left.losses == 0 || w.procs[m.proc].asleep {
		return all
	}

	if m.applied {
		return append(all, action{verb: loseAnswer, i: i})
	}

	all = append(all, action{verb: loseRequest, i: i})
	if !isRead(m.verb) {
		all = append(all, action{verb: notSent, i: i})
		if w.lateRoom() {
			all = append(all, action{verb: delay, i: i})
		}
	}

	return all
}

func (w *world) procActions(all []action, i int) []action {
	p := &w.procs[i]
	if p.core == nil || p.gone {
		return append(all, action{verb: restart, i: i})
	}

	if w.overdue(p) {
		all = append(all, action{verb: kill, i: i})
	}

	if p.asleep {
		return append(all, action{verb: rouse, i: i})
	}

	all = w.retireActions(all, i)
	if p.core.Next() <= w.now {
		all = append(all, action{verb: wake, i: i})
	}

	for k := range p.stopping {
		all = append(all, action{verb: dutyStops, i: i, k: k})
	}

	for k := range p.notices {
		all = append(all, action{verb: notify, i: i, k: k})
	}

	if w.left.crashes > 0 {
		all = append(all, action{verb: crash, i: i})
		if w.setup.Reapers {
			all = append(all, action{verb: die, i: i})
		}
	}

	if w.left.closes > 0 {
		all = append(all, action{verb: leave, i: i})
	}

	for k := range w.setup.Elections {
		if w.left.saves > 0 && w.leads(i, k) {
			all = append(all, action{verb: save, i: i, k: k})
		}

		if w.leads(i, k) && w.taskRoom(k, p.terms[k]) {
			all = append(all, action{verb: sendTask, i: i, k: k})
		}

		all = w.askActions(all, i, k)
	}

	return all
}

// askActions returns what the user of a process may ask of whoever leads. One request waits for the result of the last.
func (w *world) askActions(all []action, i, k int) []action {
	if w.procs[i].asking {
		return all
	}

	if w.left.stepDowns > 0 {
		all = append(all, action{verb: stepDown, i: i, k: k})
	}

	if w.left.releases > 0 && w.leads(i, k) {
		all = append(all, action{verb: release, i: i, k: k})
	}

	if w.left.handOffs > 0 {
		all = append(all, action{verb: handOff, i: i, k: k})
	}

	switch paused := w.store.records[k].Paused; {
	case paused:
		all = append(all, action{verb: resume, i: i, k: k})
	case w.left.pauses > 0 && i == len(w.procs)-1:
		all = append(all, action{verb: pause, i: i, k: k})
	}

	return all
}

func (w *world) lateRoom() bool {
	n := 0
	for i := range w.msgs {
		if w.msgs[i].late {
			n++
		}
	}

	return n < w.setup.Late
}
