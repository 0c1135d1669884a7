package model

import (
	"fmt"
	"strings"
)

// Tell puts a step into words.
func (m *Via) Tell(s *viaState, step Step) string {
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
func (m *Via) Show(s *viaState) string {
	var b strings.Builder
	for i := range m.Chairs {
		fmt.Fprintf(&b, "seat%d r%d e%d %s; ", i, s.seats[i].rev, s.seats[i].epoch, m.name(s, s.seats[i].holder))
	}

	shown := [3]bool{}
	for _, id := range m.Members {
		if !shown[id] {
			fmt.Fprintf(&b, "member%d r%d %s; ", id, s.members[id].rev, m.name(s, s.members[id].holder))
			shown[id] = true
		}
	}

	for i := range m.Members {
		p := &s.procs[i]
		for seat := range m.Chairs {
			if p.believes(seat) {
				fmt.Fprintf(&b, "p%d LEADS seat%d e%d for %d; ", i, seat, p.held[seat], p.left)
			}
		}
	}

	return strings.TrimSuffix(b.String(), "; ")
}

// name returns an incarnation and who it is.
func (m *Via) name(s *viaState, inc uint8) string {
	if inc == 0 {
		return "vacant"
	}

	for i := range m.Members {
		switch inc {
		case s.procs[i].inc:
			return fmt.Sprintf("i%d=p%d", inc, i)
		case s.procs[i].last:
			return fmt.Sprintf("i%d=ended by p%d", inc, i)
		}
	}

	return fmt.Sprintf("i%d=dead", inc)
}
