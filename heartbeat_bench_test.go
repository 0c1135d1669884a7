package regent_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// BenchmarkHeartbeats is what a heartbeat costs a running member: everything that is done from one to the next is
// counted, by whichever goroutine.
func BenchmarkHeartbeats(b *testing.B) {
	for name, cfg := range heartbeatKinds() {
		b.Run(name, func(b *testing.B) {
			c := costOfHeartbeats(b, cfg, int64(b.N))
			b.ReportMetric(c.allocations, "allocs/heartbeat")
			b.ReportMetric(c.bytes, "B/heartbeat")
			b.ReportMetric(c.requests, "requests/heartbeat")
		})
	}
}

// TestHeartbeatAllocations bounds what a heartbeat allocates.
func TestHeartbeatAllocations(t *testing.T) {
	if virtual.Raced {
		t.Skip("the race detector allocates too")
	}

	const most = 12.5 // a few come from what is not done for every heartbeat
	for name, cfg := range heartbeatKinds() {
		t.Run(name, func(t *testing.T) {
			least := costOfHeartbeats(t, cfg, 40).allocations
			for range 4 { // what the rest of the process allocates meanwhile is counted too
				if least > most {
					least = min(least, costOfHeartbeats(t, cfg, 40).allocations)
				}
			}
			if least > most {
				t.Errorf("%.1f allocations for a heartbeat, at most %v are allowed", least, most)
			}
		})
	}
}

// heartbeatKinds returns both kinds of heartbeat.
func heartbeatKinds() map[string]regent.Config {
	return map[string]regent.Config{"member": regent.Cluster(), "own_lease": regent.Lock()}
}

// heartbeatCost is what one heartbeat costs.
type heartbeatCost struct{ allocations, bytes, requests float64 }

// costOfHeartbeats runs a leader for at least n heartbeats.
func costOfHeartbeats(t testing.TB, cfg regent.Config, n int64) heartbeatCost {
	cfg.HeartbeatInterval = 20 * time.Millisecond
	cfg.RenewInterval = 20 * time.Millisecond
	store := memstore.New()
	m := &regent.Member{Store: store, ID: "a", Config: cfg}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	done := make(chan struct{})
	leads := make(chan struct{})
	go func() {
		defer close(done)
		err := m.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
			close(leads)
			<-ctx.Done()
			return nil
		})
		if ctx.Err() == nil {
			t.Errorf("Lead: %v", err)
			close(leads)
		}
	}()

	<-leads
	if t.Failed() {
		return heartbeatCost{}
	}

	// The first ones make room that the others use.
	for warm := store.Counts().Writes() + 5; store.Counts().Writes() < warm; {
		time.Sleep(10 * time.Millisecond)
	}

	var before, after runtime.MemStats
	requests := store.Counts()
	runtime.ReadMemStats(&before)
	for store.Counts().Writes() < requests.Writes()+n {
		time.Sleep(10 * time.Millisecond)
	}
	runtime.ReadMemStats(&after)

	now := store.Counts()
	beats := float64(now.Writes() - requests.Writes())
	cancel()
	<-done

	return heartbeatCost{
		allocations: float64(after.Mallocs-before.Mallocs) / beats,
		bytes:       float64(after.TotalAlloc-before.TotalAlloc) / beats,
		requests:    float64(now.Total()-requests.Total()) / beats,
	}
}
