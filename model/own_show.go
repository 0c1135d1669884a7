package model

import (
	"fmt"
	"strings"
)

// Tell puts a step into words.
func (m *Own) Tell(s *ownState, step Step) string {
	if text := tellNetwork(step, &s.worker, &s.late); text != "" {
		return text
	}

	return line(step.Who, tell(step.Verb, s.procs[step.Who].call))
}

// Show puts a state into words.
func (m *Own) Show(s *ownState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "election r%d e%d", s.election.rev, s.election.epoch)
	switch i := m.proc(s, s.election.holder); {
	case s.election.holder == 0:
		b.WriteString(" vacant")
	case i < 0:
		b.WriteString(" held by a dead incarnation")
	default:
		fmt.Fprintf(&b, " held by p%d, n%d", i, s.election.nonce)
	}

	for i := range m.Procs {
		if p := &s.procs[i]; p.left > 0 {
			fmt.Fprintf(&b, "; p%d LEADS e%d for %d", i, p.epoch, p.left)
		}
	}

	return b.String()
}
