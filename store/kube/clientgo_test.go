package kube

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// peerLease is how long a Lease of an elector counts.
const peerLease = 5 * time.Second

// countedLock counts how often an elector has read the Lease.
type countedLock struct {
	resourcelock.Interface
	reads *atomic.Int64
}

func (l countedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.reads.Add(1)
	return l.Interface.Get(ctx)
}

// peer is an elector of client-go, which campaigns until it is stopped.
type peer struct {
	reads atomic.Int64
	stop  func()
}

// elect starts an elector of client-go in the same election. It releases the Lease when it is stopped, or not.
func (c *candidates) elect(id, addr string, release bool) *peer {
	c.t.Helper()
	client, err := coordination.NewForConfig(configOf(c.t, addr))
	if err != nil {
		c.t.Fatal(err)
	}

	// client-go releases the Lease before the work of the term has ended. Here the work is ended before it is told to.
	work, endWork := context.WithCancel(context.Background())
	var working sync.Mutex
	p := &peer{}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: namespaceOf(addr), Name: election}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: id},
	}
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: countedLock{lock, &p.reads}, LeaseDuration: peerLease, RenewDeadline: peerLease * 3 / 5,
		RetryPeriod: 500 * time.Millisecond, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				working.Lock()
				defer working.Unlock()
				stop := context.AfterFunc(ctx, endWork)
				defer stop()
				c.work(work, id, 0)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	p.stop = func() {
		endWork()
		working.Lock()
		defer working.Unlock()
		cancel()
		<-done
	}
	c.t.Cleanup(p.stop)
	return p
}

// renewals waits until the holder of the election has renewed its Lease for long enough that it would have expired
// otherwise, and fails if anybody else worked meanwhile.
func (c *candidates) renewals(addr, holder string) {
	c.t.Helper()
	client, err := coordination.NewForConfig(configOf(c.t, addr))
	if err != nil {
		c.t.Fatal(err)
	}

	var first time.Time
	eventually(c.t, holder+" renews its Lease", func() bool {
		lease, err := client.Leases(namespaceOf(addr)).Get(c.t.Context(), election, metav1.GetOptions{})
		if err != nil || value(lease.Spec.HolderIdentity) != holder {
			c.t.Fatalf("the Lease is %v, %v", lease, err)
		}
		if first.IsZero() {
			first = lease.Spec.RenewTime.Time
		}
		if id, _ := c.worker(); id != holder {
			c.t.Fatalf("%q works, and %q holds the Lease", id, holder)
		}
		return lease.Spec.RenewTime.Sub(first) > 2*peerLease
	})
}

// TestElectorsRespectEachOther has a member and an elector of client-go in one election. No two work at once, which
// candidates checks.
func TestElectorsRespectEachOther(t *testing.T) {
	t.Parallel()
	s := server(t)

	t.Run("a_member_waits_for_an_elector_that_renews", func(t *testing.T) {
		t.Parallel()
		addr := fresh(t, s)
		c := newCandidates(t)
		p := c.elect("pod-1", addr, true)
		c.worksAs("pod-1")
		c.join("node-a", open(t, addr), quickLock())
		c.renewals(addr, "pod-1")

		p.stop() // it releases the Lease
		c.worksAs("node-a")
		if l, err := open(t, addr).Get(t.Context(), election); err != nil || l.Holder.ID != "node-a" || l.Epoch < 2 {
			t.Errorf("after the elector the register is %+v, %v", l, err)
		}
	})

	t.Run("a_member_takes_over_from_an_elector_that_has_died", func(t *testing.T) {
		t.Parallel()
		addr := fresh(t, s)
		c := newCandidates(t)
		p := c.elect("pod-1", addr, false)
		c.worksAs("pod-1")
		c.join("node-a", open(t, addr), quick()) // profile cluster
		p.stop()
		began := time.Now()
		c.worksAs("node-a")
		if took := time.Since(began); took < peerLease/2 {
			t.Errorf("it took over after %v, before the Lease of %v had expired", took, peerLease)
		}
	})

	t.Run("an_elector_waits_for_a_member_that_renews", func(t *testing.T) {
		t.Parallel()
		addr := fresh(t, s)
		c := newCandidates(t)
		c.join("node-a", open(t, addr), quickLock())
		c.worksAs("node-a")
		c.elect("pod-1", addr, true)
		c.renewals(addr, "node-a")
		before := open(t, addr)
		was, err := before.Get(t.Context(), election)
		if err != nil {
			t.Fatal(err)
		}

		c.leave("node-a")
		c.worksAs("pod-1")
		l, err := before.Get(t.Context(), election)
		if err != nil || l.Holder.ID != "pod-1" || l.Epoch <= was.Epoch {
			t.Errorf("after epoch %d the elector's register is %+v, %v", was.Epoch, l, err)
		}
		c.elect("pod-2", addr, true)
		c.join("node-b", open(t, addr), quickLock())
		c.renewals(addr, "pod-1")
	})

	t.Run("an_elector_takes_over_from_a_member_that_is_cut_off", func(t *testing.T) {
		t.Parallel()
		addr := fresh(t, s)
		c := newCandidates(t)
		d := newDialer()
		c.join("node-a", openOver(t, s, addr, d), quickLock())
		c.worksAs("node-a")
		c.elect("pod-1", addr, true)
		c.renewals(addr, "node-a")
		d.set(hang)
		c.worksAs("pod-1")
		d.set(none)
	})

	t.Run("an_elector_does_not_take_a_Lease_that_is_kept_alive_by_another", func(t *testing.T) {
		t.Parallel()
		addr := fresh(t, s)
		c := newCandidates(t)
		c.join("node-a", open(t, addr), quick())
		c.worksAs("node-a")
		p := c.elect("pod-1", addr, true)
		// Its reads are half a second apart: many more than the lease of the member lasts.
		eventually(t, "the elector has tried often", func() bool { return p.reads.Load() > 20 })
		if id, _ := c.worker(); id != "node-a" {
			t.Errorf("%q works, although the member is alive", id)
		}

		c.leave("node-a")
		c.worksAs("pod-1")
	})
}

// TestLeaseWithForeignMetadata claims the Lease of another program, and keeps what that has put there.
func TestLeaseWithForeignMetadata(t *testing.T) {
	t.Parallel()
	srv := server(t)
	addr := fresh(t, srv)
	s := open(t, addr)
	client, err := coordination.NewForConfig(configOf(t, addr))
	if err != nil {
		t.Fatal(err)
	}
	leases := client.Leases(namespaceOf(addr))

	for i, labels := range []map[string]string{nil, {"team": "a"}} {
		lease := elector("", 3, 15, time.Now())
		lease.ObjectMeta = metav1.ObjectMeta{Name: "plain-" + string(rune('a'+i)), Labels: labels, Annotations: labels}
		if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		l, err := s.Get(t.Context(), lease.Name)
		if err != nil || !l.Vacant() || l.Epoch != 4 {
			t.Fatalf("%+v, %v", l, err)
		}

		claim := held(lease.Name, "node-a", 5)
		claim.Rev = l.Rev
		claim, err = s.Swap(t.Context(), claim)
		if err != nil {
			t.Fatal(err)
		}
		got, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
		if err != nil || got.Labels["team"] != labels["team"] || got.Annotations["team"] != labels["team"] ||
			value(got.Spec.HolderIdentity) != "node-a" || value(got.Spec.LeaseTransitions) != 4 {
			t.Errorf("after a claim the Lease is %v, %v", got, err)
		}

		claim.Next = "b" // an edit renews nothing
		if _, err := s.Swap(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		edited, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
		if err != nil || !edited.Spec.RenewTime.Equal(got.Spec.RenewTime) ||
			edited.ResourceVersion == got.ResourceVersion {
			t.Errorf("after an edit the Lease is %v, %v", edited, err)
		}
	}
}
