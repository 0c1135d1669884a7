package regent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// BenchmarkHandover is the way from the end of a leader's duty to the begin of the next leader's: the release, the
// notification, the claim on it, and the begin.
func BenchmarkHandover(b *testing.B) {
	for name, cfg := range map[string]regent.Config{"member": regent.Cluster(), "own_lease": regent.Lock()} {
		b.Run(name, func(b *testing.B) {
			store := memstore.New()
			began := make(chan int)
			var members [2]*regent.Member
			var cancel [2]context.CancelFunc
			var done [2]chan struct{}
			lead := func(i int) {
				var ctx context.Context
				ctx, cancel[i] = context.WithCancel(b.Context())
				done[i] = make(chan struct{})
				go func() {
					defer close(done[i])
					_ = members[i].Lead(ctx, "e", func(ctx context.Context, _ regent.Term) error {
						began <- i
						<-ctx.Done()
						return nil
					})
				}()
			}
			hold, release := context.WithCancel(b.Context())
			for i := range members {
				members[i] = &regent.Member{Store: store, ID: fmt.Sprint("m", i), Config: cfg}
				// so that it stays a member
				go func() { _ = members[i].Run(hold, regent.Duty{Election: fmt.Sprint("own", i)}) }()
				lead(i)
				if i == 0 {
					<-began
				}
			}

			time.Sleep(500 * time.Millisecond) // the start is not measured, and there is no event for its end
			leader := 0
			var total time.Duration
			for b.Loop() {
				start := time.Now()
				cancel[leader]()
				next := <-began
				total += time.Since(start)
				<-done[leader]
				lead(leader)
				leader = next
				for v, ok := members[1-leader].View("e"); !ok || v.Leader != members[leader].ID; v,
					ok = members[1-leader].View("e") {
					time.Sleep(100 * time.Microsecond)
				}
			}

			b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/handover")
			release()
			for i := range members {
				cancel[i]()
			}

			go func() {
				for range began {
				}
			}()

			<-done[0]
			<-done[1]
			close(began)
		})
	}
}
