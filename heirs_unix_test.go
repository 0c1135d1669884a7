//go:build unix

package regent_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// BenchmarkHeirs is what it takes until all elections of a dead process are held again, by several heirs which are
// candidates of all of them: time, requests to the store, processor time of all together, and how even the shares are.
// All members are in this process, over one store in memory.
func BenchmarkHeirs(b *testing.B) {
	for _, c := range []struct{ heirs, elections int }{{2, 10_000}, {10, 10_000}, {100, 1_000}} {
		b.Run(fmt.Sprintf("%d_heirs_%d_elections", c.heirs, c.elections), func(b *testing.B) {
			for b.Loop() {
				inherit(b, c.heirs, c.elections)
			}
		})
	}
}

// inherit kills a member that holds all elections, and reports how they are taken over.
func inherit(b *testing.B, heirs, elections int) {
	store := memstore.New()
	ctx, cancel := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	duties := dutiesOf(elections)

	run := func(m *regent.Member) {
		m.Config = regent.Cluster()
		m.Config.LeaseDuration = 30 * time.Second
		wg.Go(func() { _ = m.Run(ctx, duties...) })
	}

	var line atomic.Pointer[regent.Lifeline]
	dead := store.Client("dead", memstore.Faults{})
	defer dead.SetFaults(memstore.Faults{}) // so that it can leave
	run(&regent.Member{Store: dead, ID: "dead", OnLifeline: func(l regent.Lifeline) { line.Store(&l) }})
	waitFor(b, func() bool { return holders(b, store)["dead"] == elections })

	clients := make([]*memstore.Client, heirs)
	for i := range clients {
		id := fmt.Sprint("heir", i)
		clients[i] = store.Client(id, memstore.Faults{})
		m := &regent.Member{Store: clients[i], ID: id}
		run(m)
		waitFor(b, func() bool { v, ok := m.View(duties[elections-1].Election); return ok && v.Leader == "dead" })
	}

	sent := func() (n int64) {
		for _, c := range clients {
			n += c.Counts().Total()
		}
		return n
	}

	dead.SetFaults(memstore.Faults{CutRequests: true, CutAnswers: true}) // killed
	requests, used, began := sent(), processorTime(b), time.Now()
	if err := regent.Reap(ctx, store, line.Load().Register, line.Load().Holder); err != nil {
		b.Fatal(err)
	}

	var shares map[string]int
	waitFor(b, func() bool {
		shares = holders(b, store)
		return shares["dead"] == 0 && shares[""] == 0
	})

	least, most := elections, 0
	for _, n := range shares {
		least = min(least, n)
		most = max(most, n)
	}
	if len(shares) < heirs {
		least = 0
	}
	b.ReportMetric(time.Since(began).Seconds(), "s")
	b.ReportMetric((processorTime(b) - used).Seconds(), "cpu-s")
	b.ReportMetric(float64(sent()-requests), "requests")
	b.ReportMetric(float64(least), "least-share")
	b.ReportMetric(float64(most), "most-share")
	b.ReportMetric(0, "ns/op")
}

// holders returns how many elections each member holds. Those of nobody have the empty name.
func holders(b *testing.B, store *memstore.Store) map[string]int {
	all := map[string]int{}
	for r, err := range store.List(b.Context(), "election/") {
		if err != nil {
			b.Fatal(err)
		}
		all[r.Holder.ID]++
	}
	return all
}

// waitFor waits until a condition holds.
func waitFor(b *testing.B, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("it takes too long")
		}
	}
}
