package orchestrate

import (
	"cmp"
	"maps"
	"slices"
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

// bounds are the upper bounds of the buckets of a Histogram; the last bucket has none.
var bounds = [...]time.Duration{
	time.Millisecond,
	5 * time.Millisecond,
	10 * time.Millisecond,
	25 * time.Millisecond,
	50 * time.Millisecond,
	100 * time.Millisecond,
	250 * time.Millisecond,
	500 * time.Millisecond,
	time.Second,
	2500 * time.Millisecond,
	5 * time.Second,
	10 * time.Second,
}

// Histogram counts latencies, each in the first bucket that it fits in.
type Histogram struct {
	Counts [len(bounds) + 1]uint64
	Sum    time.Duration
}

func (h *Histogram) add(d time.Duration) {
	n, _ := slices.BinarySearch(bounds[:], d)
	h.Counts[n]++
	h.Sum += d
}

// Buckets returns the histogram in the form of Prometheus: the number of latencies up to each bound, in seconds, and
// the number of all.
func (h *Histogram) Buckets() (cumulative map[float64]uint64, count uint64) {
	cumulative = map[float64]uint64{}
	for i, b := range bounds {
		count += h.Counts[i]
		cumulative[b.Seconds()] = count
	}

	return cumulative, count + h.Counts[len(bounds)]
}
