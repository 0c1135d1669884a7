package demo

import "sync"

// maxSaid is how many lines are kept for pages that are opened later.
const maxSaid = 100

// said keeps the lines of the demo, and which fault is played, for the page.
type said struct {
	mu      sync.Mutex
	lines   []string
	first   int    // the number of the first line that is kept
	playing string // the fault that is played; empty for none
	changed chan struct{}
}

func newSaid() *said { return &said{changed: make(chan struct{})} }

// add keeps a line.
func (s *said) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.lines = append(s.lines, line)
	if over := len(s.lines) - maxSaid; over > 0 {
		s.lines = s.lines[over:]
		s.first += over
	}
	s.changedLocked()
}

// play notes which fault is played from now on.
func (s *said) play(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.playing = fault
	s.changedLocked()
}

func (s *said) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// after returns the lines from a number on, the number of the line that comes next, and the fault that is played.
// changed is closed when there is more.
func (s *said) after(from int) (lines []string, next int, playing string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()

	next = s.first + len(s.lines)
	if from < next {
		lines = append(lines, s.lines[max(from-s.first, 0):]...)
	}

	return lines, next, s.playing, s.changed
}
