package kube

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
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

// BenchmarkTakeover is the time from before a release until another one leads, who has waited, over connections of its
// own, beside a raw write.
func BenchmarkTakeover(b *testing.B) {
	addr := fresh(b, server(b))
	became := make(chan time.Time, 1)
	duty := regent.Duty{Election: election, Run: func(ctx context.Context, _ regent.Term) error {
		became <- time.Now()
		<-ctx.Done()
		return nil
	}}
	member := func(n int) (stop func()) {
		m := &regent.Member{ID: fmt.Sprint("m", n), Store: open(b, addr), Config: regent.Cluster()}
		return storetest.RunMember(b, m, duty)
	}
	stop := member(0)
	<-became
	raw := rawWrites(b, addr)

	const rest = 500 * time.Millisecond // how long nothing happens before what is measured
	var ours, floor []time.Duration
	for n := 1; b.Loop(); n++ {
		next := member(n)
		<-time.After(rest) // it has joined, and waits
		began := time.Now()
		go stop()
		ours = append(ours, (<-became).Sub(began))
		stop = next

		<-time.After(rest)
		began = time.Now()
		raw(1)
		floor = append(floor, time.Since(began))
	}

	b.ReportMetric(0, "ns/op")
	slices.Sort(floor)
	slices.Sort(ours)
	write := floor[len(floor)/2]
	b.ReportMetric(float64(write.Microseconds()), "raw-p50-µs")
	for name, at := range map[string]int{"p50": len(ours) / 2, "p99": len(ours) * 99 / 100} {
		b.ReportMetric(float64(ours[at].Microseconds()), name+"-µs")
		b.ReportMetric(float64(ours[at])/float64(write), name+"-writes")
	}
}
