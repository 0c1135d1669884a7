package orchestrate

import (
	"slices"
	"time"
)

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
