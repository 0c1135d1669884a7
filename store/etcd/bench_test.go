package etcd

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// rawWrites returns a function that makes n conditional writes, each on the revision of the one before: the least that
// a lock in etcd needs.
func rawWrites(b *testing.B, client *clientv3.Client) func(n int) {
	key := fmt.Sprintf("raw/%d", prefixes.Add(1))
	revision := int64(0)
	return func(n int) {
		for range n {
			same := clientv3.Compare(clientv3.ModRevision(key), "=", revision)
			r, err := client.Txn(b.Context()).If(same).Then(clientv3.OpPut(key, "holder")).Commit()
			if err != nil || !r.Succeeded {
				b.Fatal(r, err)
			}
			revision = r.Header.Revision
		}
	}
}

// BenchmarkSwap compares swaps with raw conditional writes over the same connection.
func BenchmarkSwap(b *testing.B) {
	b.Run("acquire_and_release", func(b *testing.B) {
		s := open(b, fresh())
		raw := rawWrites(b, s.client)
		l := storetest.Swap(b, s, held(election, "a", 1))
		storetest.Compare(b, func() {
			l.Holder, l.Epoch, l.Nonce = driver.Identity{ID: "a", Incarnation: "A1"}, l.Epoch+1, l.Nonce+1
			l = storetest.Swap(b, s, l)
			l.Holder, l.Nonce = driver.Identity{}, l.Nonce+1
			l = storetest.Swap(b, s, l)
		}, func() { raw(2) })
	})

	b.Run("renew", func(b *testing.B) {
		s := open(b, fresh())
		raw := rawWrites(b, s.client)
		l := storetest.Swap(b, s, held(election, "a", 1))
		storetest.Compare(b, func() {
			l.Nonce++
			l = storetest.Swap(b, s, l)
		}, func() { raw(1) })
	})
}

// BenchmarkLead is one term, from the call of Lead until the election is released, beside two raw writes.
func BenchmarkLead(b *testing.B) {
	for name, cfg := range map[string]regent.Config{"own_lease": regent.Lock(), "by_member": regent.Cluster()} {
		b.Run(name, func(b *testing.B) {
			s := open(b, fresh())
			raw := rawWrites(b, s.client)
			m := &regent.Member{Store: s, ID: "a", Config: cfg}
			storetest.RunMember(b, m, regent.Duty{Election: "other"}) // keeps the member running
			drivertest.Eventually(b, "the member runs", func() bool { return m.Stats().Transitions > 0 })
			storetest.Compare(b, func() {
				err := m.Lead(b.Context(), election, func(context.Context, regent.Term) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}, func() { raw(2) })
		})
	}
}

// BenchmarkElection is what etcd's own client offers: one campaign and one resignation, with a session that is there
// already, beside two raw writes.
func BenchmarkElection(b *testing.B) {
	client := plain(b, shared...)
	raw := rawWrites(b, client)
	e := newElection(b, client)
	storetest.Compare(b, func() { e.once(b) }, func() { raw(2) })
}

type peerElection struct{ *concurrency.Election }

func newElection(b *testing.B, client *clientv3.Client) peerElection {
	b.Helper()
	session, err := concurrency.NewSession(client, concurrency.WithTTL(60))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = session.Close() })
	return peerElection{concurrency.NewElection(session, "peer/leader")}
}

func (e peerElection) once(b *testing.B) {
	if err := e.Campaign(b.Context(), "a"); err != nil {
		b.Fatal(err)
	}
	if err := e.Resign(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// rest is how long nothing happens before what is measured.
const rest = 300 * time.Millisecond

// BenchmarkTakeover is the time from before a release until another one leads, who has waited, over a connection of
// its own. Regent, etcd's own election and a raw write come by turns.
func BenchmarkTakeover(b *testing.B) {
	addr := fresh()
	became := make(chan time.Time, 1)
	member := func(n int) (stop func()) {
		m := &regent.Member{ID: fmt.Sprint("m", n), Store: open(b, addr), Config: regent.Cluster()}
		work := func(ctx context.Context, _ regent.Term) error {
			became <- time.Now()
			<-ctx.Done()
			return nil
		}
		return storetest.RunMember(b, m, regent.Duty{Election: election, Run: work})
	}
	stop := member(0)
	<-became

	clients := []*clientv3.Client{plain(b, shared...), plain(b, shared...)}
	elections := []peerElection{newElection(b, clients[0]), newElection(b, clients[1])}
	if err := elections[0].Campaign(b.Context(), "a"); err != nil {
		b.Fatal(err)
	}
	raw := rawWrites(b, clients[0])

	var ours, peers, floor []time.Duration
	for n := 1; b.Loop(); n++ {
		next := member(n)
		<-time.After(rest) // it has joined, and waits
		began := time.Now()
		go stop()
		ours = append(ours, (<-became).Sub(began))
		stop = next

		won := make(chan error, 1)
		go func() { won <- elections[n%2].Campaign(b.Context(), "a") }()
		<-time.After(rest)
		began = time.Now()
		if err := elections[(n+1)%2].Resign(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := <-won; err != nil {
			b.Fatal(err)
		}
		peers = append(peers, time.Since(began))

		<-time.After(rest)
		began = time.Now()
		raw(1)
		floor = append(floor, time.Since(began))
	}

	b.ReportMetric(0, "ns/op")
	slices.Sort(floor)
	write := floor[len(floor)/2]
	b.ReportMetric(float64(write.Microseconds()), "raw-p50-µs")
	for who, took := range map[string][]time.Duration{"": ours, "election-": peers} {
		slices.Sort(took)
		for name, at := range map[string]int{"p50": len(took) / 2, "p99": len(took) * 99 / 100} {
			b.ReportMetric(float64(took[at].Microseconds()), who+name+"-µs")
			b.ReportMetric(float64(took[at])/float64(write), who+name+"-writes")
		}
	}
}

// BenchmarkHeld is what holding many elections costs the server: requests and their allocations per heartbeat.
func BenchmarkHeld(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := open(b, etcdtest.Address(cluster(b, 1), ""))
			m := &regent.Member{ID: "a", Store: s, Config: regent.Cluster()}
			duties := make([]regent.Duty, n)
			for i := range duties {
				duties[i].Election = fmt.Sprintf("e/%05d", i)
			}
			storetest.RunMember(b, m, duties...)
			drivertest.Eventually(b, "it leads all", func() bool { return m.Stats().Transitions >= uint64(n) })

			for b.Loop() {
				<-time.After(2 * m.Config.LeaseDuration) // after all were read once
				before := s.Requests()
				began := time.Now()
				<-time.After(2 * m.Config.LeaseDuration)
				for kind, after := range s.Requests() {
					b.ReportMetric(float64(after-before[kind])/time.Since(began).Seconds(), kind+"/s")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
