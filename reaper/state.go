package reaper

import (
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/reaper/proctree"
)

// state is what both processes know: the newest line of each register, and the process trees that must not outlive
// the process.
type state struct {
	lines map[string]line            // by register
	trees map[string]proctree.Tree   // by mark
	ended map[string]driver.Identity // by register: the last incarnation that was released or replaced
}

func newState() state {
	return state{
		lines: map[string]line{},
		trees: map[string]proctree.Tree{},
		ended: map[string]driver.Identity{},
	}
}

// note applies a report of the member, in the process that leads. Reports of two incarnations may overlap: the release
// of one may be under way when the next one has claimed. So a report about an incarnation that was replaced or has
// ended is late, and is dropped.
func (s state) note(l line) {
	before, known := s.lines[l.Register]
	same := known && before.holder() == l.holder()

	switch {
	case l.holder() == s.ended[l.Register]:
	case same && l.Over:
		delete(s.lines, l.Register)
		s.ended[l.Register] = l.holder()
	case same && l.Stopped:
		l.KillAt = max(l.KillAt, before.KillAt) // it is worth a release until then
		s.lines[l.Register] = l
	case same && before.Stopped:
	case same:
		s.lines[l.Register] = l
	case l.Over, known && l.Stopped:
	default:
		if known {
			s.ended[l.Register] = before.holder()
		}
		s.lines[l.Register] = l
	}
}

// take applies a message, in the companion. A message carries the whole state of its subject, so only the newest
// one counts.
func (s state) take(m message) {
	switch {
	case m.Line != nil && m.Line.Over:
		delete(s.lines, m.Line.Register)
	case m.Line != nil:
		s.lines[m.Line.Register] = *m.Line
	case m.Track != nil:
		s.trees[m.Track.Mark] = *m.Track
	case m.Untrack != nil:
		delete(s.trees, m.Untrack.Mark)
	}
}

// line returns the message that carries the state of a register.
func (s state) line(register string) message {
	l, known := s.lines[register]
	if !known {
		l = line{Register: register, Over: true}
	}
	return message{Line: &l}
}

// tree returns the message that carries the state of a process tree.
func (s state) tree(mark string) message {
	if t, known := s.trees[mark]; known {
		return message{Track: &t}
	}
	return message{Untrack: &proctree.Tree{Mark: mark}}
}

// idle reports whether nothing depends on the companion.
func (s state) idle() bool { return len(s.lines) == 0 && len(s.trees) == 0 }
