package model

import (
	"fmt"
	"strings"
)

// Tell puts a step into words.
func (m *Own) Tell(s *ownState, step Step) string {
	switch step.Verb {
	case Tick:
		return "a tick passes"
	case Deliver:
		return fmt.Sprintf("a task of epoch %d arrives", s.worker.tasks[step.Who])
	case ApplyLate:
		return "a late " + requestNames[s.late[step.Who].verb] + " reaches the store"
	}

	return line(step.Who, tell(step.Verb, s.procs[step.Who].call))
}

// Show puts a state into words.
func (m *Own) Show(s *ownState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seat r%d e%d", s.seat.rev, s.seat.epoch)
	switch i := m.proc(s, s.seat.holder); {
	case s.seat.holder == 0:
		b.WriteString(" vacant")
	case i < 0:
		b.WriteString(" held by a dead incarnation")
	default:
		fmt.Fprintf(&b, " held by p%d, n%d", i, s.seat.nonce)
	}

	for i := range m.Procs {
		if p := &s.procs[i]; p.left > 0 {
			fmt.Fprintf(&b, "; p%d LEADS e%d for %d", i, p.epoch, p.left)
		}
	}

	return b.String()
}
