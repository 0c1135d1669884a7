//go:build unix

package regent_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// BenchmarkLeadMany is what one process pays for many calls of Lead, over a store in memory: processor time to take
// all elections one after the other, and to withdraw from them; memory and goroutines while it leads; and what its
// heartbeats cost. The store is in the same process, and its records are counted too: 3 MB for 10,000.
func BenchmarkLeadMany(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				measureLeadMany(b, n)
			}
		})
	}
}

// TestLeadMemory bounds what one election takes that Lead holds. A goroutine whose stack has grown takes 2 KB more, a
// second goroutine 3 KB.
func TestLeadMemory(t *testing.T) {
	if virtual.Raced {
		t.Skip("the race detector has memory of its own")
	}

	const n, most = 2_000, 8_000
	before := settledMemory()
	m := &regent.Member{Store: memstore.New(), ID: "a"}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	leads := make(chan struct{})
	for i := range n {
		name := fmt.Sprintf("election/%06d", i)
		wg.Go(func() {
			_ = m.Lead(ctx, name, func(ctx context.Context, _ regent.Term) error {
				leads <- struct{}{}
				<-ctx.Done()
				return nil
			})
		})
		<-leads
	}

	if got := (settledMemory() - before) / n; got > most {
		t.Errorf("%d bytes for each election, at most %d are allowed", got, most)
	} else {
		t.Logf("%d bytes for each election", got)
	}
}

// measureLeadMany leads n elections, and reports what that cost.
func measureLeadMany(b *testing.B, n int) {
	memory, goroutines := settledMemory(), runtime.NumGoroutine()
	store := memstore.New()
	m := &regent.Member{Store: store, ID: "a"}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()

	var wg sync.WaitGroup
	leads := make(chan struct{})
	duty := func(ctx context.Context, _ regent.Term) error {
		leads <- struct{}{}
		<-ctx.Done()
		return nil
	}

	began, used := time.Now(), processorTime(b)
	for i := range n {
		name := fmt.Sprintf("election/%06d", i) // not below: the stack of a goroutine stays as large as it was
		wg.Go(func() { _ = m.Lead(ctx, name, duty) })
		<-leads
	}

	b.ReportMetric(time.Since(began).Seconds(), "s-to-take-all")
	b.ReportMetric((processorTime(b) - used).Seconds(), "cpu-s-to-take-all")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(n), "goroutines/election")
	b.ReportMetric(float64(settledMemory()-memory)/1e6, "MB")

	requests := store.Counts().Total()
	rest := processorTime(b)
	const window = 6 * time.Second
	time.Sleep(window)
	b.ReportMetric(float64((processorTime(b)-rest).Microseconds())/window.Seconds(), "cpu-µs/s-at-rest")
	b.ReportMetric(float64(store.Counts().Total()-requests)/window.Seconds(), "requests/s-at-rest")

	used = processorTime(b)
	cancel()
	wg.Wait()
	b.ReportMetric((processorTime(b) - used).Seconds(), "cpu-s-to-quit")
	b.ReportMetric(0, "ns/op")
}

// settledMemory returns the bytes of all objects and stacks that are in use.
func settledMemory() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}

// processorTime returns the processor time of this process so far.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
