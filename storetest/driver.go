package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Opened returns a store that was opened without an error, and closes it when the test ends. It is for the tests of a
// driver, around its Open: s := storetest.Opened(t)(redis.Open(ctx, address, redis.Options{})).
func Opened[S driver.Store](t testing.TB) func(s S, err error) S {
	t.Helper()
	return func(s S, err error) S {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

// Swap swaps l, and fails the test if that is not applied.
func Swap(t testing.TB, s driver.Store, l driver.Record) driver.Record {
	t.Helper()
	got, err := s.Swap(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// RunMember runs a member with duties until stop is called, or the test ends. stop waits until the member has ended.
func RunMember(t testing.TB, m *regent.Member, duties ...regent.Duty) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx, duties...); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("member %s: %v", m.ID, err)
		}
	}()

	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// Names returns the names of the registers below prefix, in the order of List.
func Names(t testing.TB, s driver.Store, prefix string) (names []string) {
	t.Helper()
	for l, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, l.Name)
	}
	return names
}

// Compare runs ours and floor alternately, so that the noise of the machine affects both, and reports both medians and
// their ratio. floor is the least that the backing store needs for the same work. Compare does not stop the benchmark's
// own timer, because that stops the world.
func Compare(b *testing.B, ours, floor func()) {
	var a, z []time.Duration
	for b.Loop() {
		began := time.Now()
		ours()
		between := time.Now()
		floor()
		a = append(a, between.Sub(began))
		z = append(z, time.Since(between))
	}

	slices.Sort(a)
	slices.Sort(z)
	p50 := a[len(a)/2]
	raw := z[len(z)/2]

	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(p50.Microseconds()), "p50-µs")
	b.ReportMetric(float64(raw.Microseconds()), "raw-p50-µs")
	b.ReportMetric(float64(p50)/float64(raw), "ratio")
	b.ReportMetric(float64(a[0])/float64(z[0]), "min-ratio")
	b.ReportMetric(testing.AllocsPerRun(100, ours), "allocs")
	b.ReportMetric(testing.AllocsPerRun(100, floor), "raw-allocs")
}
