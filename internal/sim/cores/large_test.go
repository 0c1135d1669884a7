package cores

import (
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/internal/virtual"
)

// TestLarge runs a fleet of 1,000 members; "make soak" runs one of 10,000, by the benchmark.
func TestLarge(t *testing.T) {
	members := 1000
	if testing.Short() || virtual.Raced {
		members = 100
	}
	large, err := new(Runner).RunLarge(members, 1)
	if err != nil {
		t.Fatal(err)
	}
	if perMember := float64(large.Requests) / float64(members) / large.Virtual.Seconds(); perMember > 1 {
		t.Errorf("%d members send %.2f requests a second each", members, perMember)
	}
	if large.Work > 256 { // as much as one step may do
		t.Errorf("the largest step is %d units of work", large.Work)
	}
}

// BenchmarkLarge says what a fleet costs: per second of its own time, and of the clock on the wall.
func BenchmarkLarge(b *testing.B) {
	for _, members := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			defer processorTime(b)()
			var r Runner
			var last Large
			for i := range uint64(b.N) {
				large, err := r.RunLarge(members, i)
				if err != nil {
					b.Fatal(err)
				}
				last = large
			}
			real := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(last.Requests)/last.Virtual.Seconds(), "requests/virtual-s")
			b.ReportMetric(float64(last.Steps)/last.Virtual.Seconds(), "steps/virtual-s")
			b.ReportMetric(float64(last.Requests)/real.Seconds(), "requests/s")
			b.ReportMetric(float64(last.Steps)/real.Seconds(), "steps/s")
			b.ReportMetric(float64(last.Work), "largest-step")
			b.ReportMetric(float64(last.Effects), "most-effects")
		})
	}
}
