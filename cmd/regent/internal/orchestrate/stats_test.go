package orchestrate

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	t.Run("latencies_are_counted_in_buckets", func(t *testing.T) {
		var h Histogram
		for _, d := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, time.Minute} {
			h.add(d)
		}

		cumulative, n := h.Buckets()
		if n != 4 || cumulative[0.001] != 2 || cumulative[0.005] != 3 || cumulative[10] != 3 {
			t.Errorf("%v %d", cumulative, n)
		}
		if open := h.Counts[len(bounds)]; open != 1 {
			t.Errorf("%d in the open bucket", open)
		}
	})
}
