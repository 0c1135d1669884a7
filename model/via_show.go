package model

import (
	"fmt"
	"strings"
)

// Tell puts a step into words.
func (m *Via) Tell(s *viaState, step Step) string {
	if text := tellNetwork(step, &s.worker, &s.late); text != "" {
		return text
	}

	return line(step.Who, tell(step.Verb, s.procs[step.Who].call))
}

// Show puts a state into words.
func (m *Via) Show(s *viaState) string {
	var b strings.Builder
	for i := range m.ElectionCount {
		e := s.elections[i]
		fmt.Fprintf(&b, "election%d r%d e%d %s; ", i, e.rev, e.epoch, m.name(s, e.holder))
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
		for election := range m.ElectionCount {
			if p.believes(election) {
				fmt.Fprintf(&b, "p%d LEADS election%d e%d for %d; ", i, election, p.held[election], p.left)
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
