package kube

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/storetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// rawWrites returns a function that makes n conditional writes, each on the resourceVersion of the one before: what an
// elector of client-go does to renew its Lease.
func rawWrites(b *testing.B, addr string) func(n int) {
	config := configOf(b, addr)
	config.QPS = -1
	client, err := coordination.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	leases := client.Leases(namespaceOf(addr))
	lease := elector("holder", 0, 15, time.Now())
	lease.ObjectMeta = metav1.ObjectMeta{Name: fmt.Sprintf("raw-%d", namespaces.Add(1))}
	if lease, err = leases.Create(b.Context(), lease, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}

	return func(n int) {
		for range n {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			if lease, err = leases.Update(b.Context(), lease, metav1.UpdateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkSwap compares swaps with raw conditional writes by client-go's typed client.
func BenchmarkSwap(b *testing.B) {
	srv := server(b)
	b.Run("acquire_and_release", func(b *testing.B) {
		addr := fresh(b, srv)
		s := open(b, addr)
		raw := rawWrites(b, addr)
		l := storetest.Swap(b, s, held(election, "a", 1))
		storetest.Compare(b, func() {
			l.Holder, l.Epoch, l.Nonce = driver.Identity{ID: "a", Incarnation: "A1"}, l.Epoch+1, l.Nonce+1
			l = storetest.Swap(b, s, l)
			l.Holder, l.Nonce = driver.Identity{}, l.Nonce+1
			l = storetest.Swap(b, s, l)
		}, func() { raw(2) })
	})

	b.Run("renew", func(b *testing.B) {
		addr := fresh(b, srv)
		s := open(b, addr)
		raw := rawWrites(b, addr)
		l := storetest.Swap(b, s, held(election, "a", 1))
		storetest.Compare(b, func() {
			l.Nonce++
			l = storetest.Swap(b, s, l)
		}, func() { raw(1) })
	})
}

// BenchmarkLead is one term, from the call of Lead until the election is released, beside two raw writes.
func BenchmarkLead(b *testing.B) {
	addr := fresh(b, server(b))
	raw := rawWrites(b, addr)
	m := &regent.Member{Store: open(b, addr), ID: "a", Config: regent.Lock()}
	storetest.RunMember(b, m, regent.Duty{Election: "other"}) // keeps the member running
	eventually(b, "the member runs", func() bool { return m.Stats().Transitions > 0 })
	storetest.Compare(b, func() {
		err := m.Lead(b.Context(), election, func(context.Context, regent.Term) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
	}, func() { raw(2) })
}

// quietTime is how long nothing happens before what is measured.
const quietTime = 500 * time.Millisecond

// BenchmarkTakeover is the time from before a release until another one leads, who has waited, over connections of its
// own, beside a raw write.
func BenchmarkTakeover(b *testing.B) {
	addr := fresh(b, server(b))
	store := func() driver.Store { return open(b, addr) }
	drivertest.Takeovers(b, regent.Cluster(), quietTime, store, rawWrites(b, addr))
}

// runElector runs an elector of client-go with the settings that its documentation shows, until it is stopped. It
// releases the Lease then.
func runElector(b *testing.B, addr, name string, leads func()) (stop func()) {
	b.Helper()
	config := configOf(b, addr)
	config.QPS = -1
	client, err := coordination.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}

	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespaceOf(addr), Name: "peers"}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leads() }, OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		b.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	b.Cleanup(stop)
	return stop
}

// silence discards what client-go logs.
func silence(b *testing.B) {
	b.Helper()
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = nowhere
	b.Cleanup(func() {
		os.Stderr = before
		_ = nowhere.Close()
	})
}

// BenchmarkElector is what client-go's own elector takes: from its start until it has led and released the Lease,
// beside two raw writes; and the time from before a release until another one leads, who has waited.
func BenchmarkElector(b *testing.B) {
	srv := server(b)
	silence(b)
	b.Run("acquire_and_release", func(b *testing.B) {
		addr := fresh(b, srv)
		raw := rawWrites(b, addr)
		storetest.Compare(b, func() {
			led := make(chan struct{})
			stop := runElector(b, addr, "a", func() { close(led) })
			<-led
			stop()
		}, func() { raw(2) })
	})

	b.Run("takeover", func(b *testing.B) {
		addr := fresh(b, srv)
		became := make(chan time.Time, 1)
		elector := func(n int) (stop func()) {
			return runElector(b, addr, fmt.Sprint("m", n), func() { became <- time.Now() })
		}
		stop := elector(0)
		<-became

		var took []time.Duration
		for n := 1; b.Loop(); n++ {
			next := elector(n)
			<-time.After(quietTime)
			began := time.Now()
			go stop()
			took = append(took, (<-became).Sub(began))
			stop = next
		}

		slices.Sort(took)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(took[len(took)/2].Milliseconds()), "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Milliseconds()), "p99-ms")
	})
}
