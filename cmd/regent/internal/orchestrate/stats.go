package orchestrate

import (
	"cmp"
	"maps"
	"time"
)

// Stats are figures for metrics.
type Stats struct {
	Slots   map[string]uint64    // settled since the process started, by outcome
	Latency map[string]Histogram // of checks, by kind
	Polls   map[State]int        // by the state of their targets; empty if the node does not lead
	Overdue int                  // polls that have not run for longer than they should
	Jumps   uint64               // how often clocks disagreed about slots
}

// Stats returns the figures of the orchestrator.
func (o *Orchestrator) Stats() Stats {
	s := Stats{Latency: map[string]Histogram{}, Polls: map[State]int{}}

	o.mu.Lock()
	s.Slots = maps.Clone(o.totals)
	for kind, h := range o.latency {
		s.Latency[kind] = *h
	}
	s.Jumps = o.jumps
	t := o.current
	o.mu.Unlock()

	if t != nil {
		t.addStats(&s, o.now(), time.Now())
	}
	return s
}

// addStats adds the figures of the term.
func (t *term) addStats(s *Stats, now, mono time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.entries {
		s.Polls[cmp.Or(e.state, Unknown)]++
		if e.overdue(now, mono) {
			s.Overdue++
		}
	}
}

// count counts n slots with an outcome, which took latency.
func (o *Orchestrator) count(outcome, kind string, latency time.Duration, n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.totals[outcome] += n
	if outcome != outcomeOK && outcome != outcomeFailed {
		return
	}

	h := o.latency[kind]
	if h == nil {
		h = &Histogram{}
		o.latency[kind] = h
	}
	h.add(latency)
}
