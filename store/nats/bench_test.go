package nats

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

// rawWrites returns a function that makes n conditional writes, each on the revision of the one before: updates of a
// key in a bucket, the least that a lock in JetStream needs.
func rawWrites(b *testing.B, all []*natstest.Server) func(n int) {
	b.Helper()
	cfg := jetstream.KeyValueConfig{
		Bucket: fmt.Sprintf("raw%d", numbers.Add(1)), Storage: jetstream.FileStorage, Replicas: len(all),
	}
	js := plain(b, all)
	var kv jetstream.KeyValue
	drivertest.Eventually(b, "the bucket is there", func() bool { // a cluster that has just started may not answer
		created, err := js.CreateOrUpdateKeyValue(b.Context(), cfg)
		kv = created
		return err == nil
	})
	revision, err := kv.Create(b.Context(), "lock", []byte("holder"))
	if err != nil {
		b.Fatal(err)
	}
	return func(n int) {
		for range n {
			revision, err = kv.Update(b.Context(), "lock", []byte("holder"), revision)
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// sizes runs a benchmark on a single server, and on a cluster of three with three replicas.
func sizes(b *testing.B, f func(b *testing.B, all []*natstest.Server)) {
	b.Run("one", func(b *testing.B) { f(b, servers(b, 1, "")) })
	b.Run("three", func(b *testing.B) { f(b, servers(b, 3, "")) })
}

// BenchmarkSwap compares swaps with raw conditional writes to the same servers.
func BenchmarkSwap(b *testing.B) {
	for name, release := range map[string]bool{"acquire_and_release": true, "renew": false} {
		b.Run(name, func(b *testing.B) {
			sizes(b, func(b *testing.B, all []*natstest.Server) {
				s, raw := open(b, natstest.Address(all, "")), rawWrites(b, all)
				l := storetest.Swap(b, s, held(election, "a", 1))
				writes := 1
				if release {
					writes = 2
				}
				storetest.Compare(b, func() {
					for i := range writes {
						l.Nonce++
						if release && i == 1 {
							l.Holder = driver.Identity{}
						} else {
							l.Holder = driver.Identity{ID: "a", Incarnation: "A1"}
						}
						l = storetest.Swap(b, s, l)
					}
				}, func() { raw(writes) })
			})
		})
	}
}

// BenchmarkGet compares a read, which a barrier proves to be current, with a raw conditional write.
func BenchmarkGet(b *testing.B) {
	sizes(b, func(b *testing.B, all []*natstest.Server) {
		s, raw := open(b, natstest.Address(all, "")), rawWrites(b, all)
		storetest.Swap(b, s, held(election, "a", 1))
		storetest.Compare(b, func() {
			if _, err := s.Get(b.Context(), election); err != nil {
				b.Fatal(err)
			}
		}, func() { raw(1) })
	})
}

// BenchmarkLead is one term, from the call of Lead until the election is released, beside two raw writes.
func BenchmarkLead(b *testing.B) {
	for name, cfg := range map[string]regent.Config{"own_lease": regent.Lock(), "by_member": regent.Cluster()} {
		b.Run(name, func(b *testing.B) {
			sizes(b, func(b *testing.B, all []*natstest.Server) {
				m := &regent.Member{Store: open(b, natstest.Address(all, "")), ID: "a", Config: cfg}
				storetest.RunMember(b, m, regent.Duty{Election: "other"}) // keeps the member running
				drivertest.Eventually(b, "the member runs", func() bool { return m.Stats().Transitions > 0 })
				raw := rawWrites(b, all)
				storetest.Compare(b, func() {
					nothing := func(context.Context, regent.Term) error { return nil }
					if err := m.Lead(b.Context(), election, nothing); err != nil {
						b.Fatal(err)
					}
				}, func() { raw(2) })
			})
		})
	}
}

// BenchmarkTakeover is the time from before a release until another one leads, who has waited, over a connection of its
// own, in raw writes of the same run.
func BenchmarkTakeover(b *testing.B) {
	sizes(b, func(b *testing.B, all []*natstest.Server) {
		became := make(chan time.Time, 1)
		member := func(n int) (stop func()) {
			s := open(b, natstest.Address(all, ""))
			m := &regent.Member{ID: fmt.Sprint("m", n), Store: s, Config: regent.Cluster()}
			work := func(ctx context.Context, _ regent.Term) error {
				became <- time.Now()
				<-ctx.Done()
				return nil
			}
			return storetest.RunMember(b, m, regent.Duty{Election: election, Run: work})
		}
		stop := member(0)
		<-became
		raw := rawWrites(b, all)

		var took, floor []time.Duration
		for n := 1; b.Loop(); n++ {
			next := member(n)
			<-time.After(300 * time.Millisecond) // it has joined, and waits
			began := time.Now()
			go stop()
			took = append(took, (<-became).Sub(began))
			stop = next

			<-time.After(300 * time.Millisecond)
			began = time.Now()
			raw(1)
			floor = append(floor, time.Since(began))
		}

		slices.Sort(took)
		slices.Sort(floor)
		write := floor[len(floor)/2]
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(write.Microseconds()), "raw-p50-µs")
		for name, at := range map[string]int{"p50": len(took) / 2, "p99": len(took) * 99 / 100} {
			b.ReportMetric(float64(took[at].Microseconds()), name+"-µs")
			b.ReportMetric(float64(took[at])/float64(write), name+"-writes")
		}
	})
}

// BenchmarkIdle is what members cost the servers while nothing happens: one leads, the others wait.
func BenchmarkIdle(b *testing.B) {
	for _, standbys := range []int{1, 10} {
		b.Run(fmt.Sprint(standbys), func(b *testing.B) {
			all := servers(b, 3, "")
			cfg := regent.Cluster()
			var stores []*Store
			for i := range standbys + 1 {
				stores = append(stores, open(b, natstest.Address(all, "")))
				m := &regent.Member{ID: fmt.Sprint("m", i), Store: stores[i], Config: cfg}
				storetest.RunMember(b, m, regent.Duty{Election: election})
			}
			sum := func() map[string]uint64 {
				all := map[string]uint64{}
				for _, s := range stores {
					for kind, count := range s.Requests() {
						all[kind] += count
					}
				}
				return all
			}
			for b.Loop() {
				<-time.After(2 * cfg.LeaseDuration)
				before, began := sum(), time.Now()
				<-time.After(3 * cfg.LeaseDuration)
				for kind, after := range sum() {
					b.ReportMetric(float64(after-before[kind])/time.Since(began).Seconds(), kind+"/s")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
