package regent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// BenchmarkElections shows what one member pays for the number of its elections: Lead is called for each of them, one
// after the other, and each is led before the next one is called. Then all of them are withdrawn at once.
func BenchmarkElections(b *testing.B) {
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var lead, quit time.Duration
			for b.Loop() {
				l, q := leadMany(b, n)
				lead += l
				quit += q
			}

			b.ReportMetric(lead.Seconds()/float64(b.N), "s/all")
			b.ReportMetric(float64(lead.Microseconds())/float64(b.N)/float64(n), "µs/Lead")
			b.ReportMetric(quit.Seconds()/float64(b.N), "s/quit")
		})
	}
}

// leadMany leads n elections in one process, and returns how long that took, and their end.
func leadMany(b *testing.B, n int) (lead, quit time.Duration) {
	m := &regent.Member{Store: memstore.New(), ID: "a"}
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	leads := make(chan struct{})
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			_ = m.Lead(ctx, fmt.Sprintf("election/%06d", i), func(ctx context.Context, _ regent.Term) error {
				leads <- struct{}{}
				<-ctx.Done()
				return nil
			})
		})

		<-leads
	}

	lead = time.Since(began)

	cancel()
	wg.Wait()
	return lead, time.Since(began) - lead
}
