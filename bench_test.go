package regent_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// turn is how many calls are timed at once, where one is too short to be.
const turn = 2000

// beside runs ours and the floor by turns, so that the noise of the machine hits both, and reports what one call of
// each takes and the ratio. Least is over all turns: what it takes when nobody disturbs.
func beside(b *testing.B, ours, floor func(n int)) {
	const longest = time.Duration(1<<63 - 1)
	var a, z time.Duration
	leastA, leastZ := longest, longest
	turns := 0
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		ours(turn)
		between := time.Now()
		floor(turn)
		da, dz := between.Sub(began), time.Since(between)
		a += da
		z += dz
		turns++
		leastA, leastZ = min(leastA, da), min(leastZ, dz)
	}

	b.ReportMetric(float64(a)/float64(turns*turn), "ns/op")
	b.ReportMetric(float64(z)/float64(turns*turn), "floor-ns")
	b.ReportMetric(float64(a)/float64(z), "ratio")
	b.ReportMetric(float64(leastA)/turn, "least-ns")
	b.ReportMetric(float64(leastA)/float64(leastZ), "least-ratio")
}

// The floor is what no fence can go below: one atomic load and a comparison of numbers. The token's
// term is a copy, as one that has come over a network is: the same string would be compared by its address.
func BenchmarkFenceAdmit(b *testing.B) {
	for _, c := range []struct{ name, path, term string }{
		{"memory", "", rand.Text()}, {"file", filepath.Join(b.TempDir(), "fence"), rand.Text()}, {"no_term", "", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := regent.Fence{Path: c.path}
			var floor atomic.Uint64
			first := regent.Token{Epoch: 7, Term: c.term}
			if err := f.Admit(first); err != nil {
				b.Fatal(err)
			}

			floor.Store(first.Epoch)

			token := regent.NewToken(first.Epoch, strings.Clone(first.Term))
			refused := 0
			beside(b, func(n int) {
				for range n {
					if f.Admit(token) != nil {
						refused++
					}
				}
			}, func(n int) {
				for range n {
					if token.Epoch != floor.Load() {
						refused++
					}
				}
			})

			if refused > 0 {
				b.Fatalf("%d refused", refused)
			}
		})
	}
}

// idle returns a member that holds "seat" and never renews it by itself.
func idle(b *testing.B, store driver.Store, cfg regent.Config, clock regent.Clock) *regent.Member {
	cfg.HeartbeatInterval, cfg.RenewInterval = time.Hour, time.Hour
	cfg.LeaseDuration, cfg.WorkerTimeout = 3*time.Hour, 3*time.Hour
	won := make(chan struct{}, 1)
	m := &regent.Member{Store: store, ID: "a", Addr: "a:1", Config: cfg, Clock: clock, OnEvent: func(e regent.Event) {
		if e.Kind == regent.EventBecameLeader {
			won <- struct{}{}
		}
	}}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Run(ctx, regent.Duty{Election: "seat"})
	}()

	b.Cleanup(func() { cancel(); <-done })
	<-won
	return m
}

// Both read the deadline and a clock that counts while the machine is suspended. The floor is one time.Now.
func BenchmarkLeads(b *testing.B) {
	m := idle(b, memstore.New(), regent.Cluster(), nil)
	term, _ := m.Leads("seat")
	no := 0
	now := func(n int) {
		for range n {
			if time.Now().IsZero() {
				no++
			}
		}
	}
	b.Run("Leads", func(b *testing.B) {
		beside(b, func(n int) {
			for range n {
				if _, ok := m.Leads("seat"); !ok {
					no++
				}
			}
		}, now)
	})

	b.Run("Valid", func(b *testing.B) {
		beside(b, func(n int) {
			for range n {
				if !term.Valid() {
					no++
				}
			}
		}, now)
	})

	if no > 0 {
		b.Fatalf("%d times not the leader", no)
	}
}
