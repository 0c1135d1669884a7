package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/kubetest"
	"github.com/regentd/regent/storetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// unknown swaps l, and fails if the outcome is anything but unknown.
func unknown(t *testing.T, s *Store, l driver.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	_, err := s.Swap(ctx, l)
	if err == nil || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrRefused) {
		t.Errorf("a swap while the server is away: %v, want an unknown outcome", err)
	}
}

// answered reads a register until the store answers.
func answered(t *testing.T, s *Store, name string) driver.Record {
	t.Helper()
	for end := time.Now().Add(within); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		l, err := s.Get(ctx, name)
		cancel()
		if err == nil {
			return l
		}
		if time.Now().After(end) {
			t.Fatalf("a read does not succeed again: %v", err)
		}
	}
}

// notified changes a register until a subscription receives that.
func notified(t *testing.T, s *Store, woken <-chan driver.Record) {
	t.Helper()
	const name = "probe"
	eventually(t, "a change is notified", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		l, err := s.Get(ctx, name)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			return false
		}
		l.Name = name
		l.Epoch++ // notable
		if _, err := s.Swap(ctx, l); err != nil {
			return false
		}

		wait := time.NewTimer(200 * time.Millisecond)
		defer wait.Stop()
		for {
			select {
			case got := <-woken:
				if got.Name == name {
					return true
				}
			case <-wait.C:
				return false
			}
		}
	})
}

// anything waits for the notification that anything may have changed.
func anything(t *testing.T, woken <-chan driver.Record) {
	t.Helper()
	eventually(t, "a notification that anything may have changed", func() bool {
		select {
		case got := <-woken:
			return got.Name == ""
		default:
			return false
		}
	})
}

// TestFaultsOfConnections makes faults of the connections of a store, each of which leaves open what became of a swap.
func TestFaultsOfConnections(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		fault   fault
		applied bool // the swap was
		late    bool // or may be later
	}{
		"a_server_that_hangs":     {fault: hang, late: true},
		"lost_requests":           {fault: loseRequests},
		"lost_answers":            {fault: loseAnswers, applied: true},
		"no_connections_any_more": {fault: refuseConnects},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			srv := server(t)
			addr := fresh(t, srv)
			d := newDialer()
			far, near := openOver(t, srv, addr, d), open(t, addr)
			woken := far.Subscribe(t.Context(), driver.Prefix(""))
			l := storetest.Swap(t, far, held("a", "x", 1))
			notified(t, far, woken)

			d.set(c.fault)
			if c.fault == refuseConnects {
				d.cut()
			}
			next := l
			next.Nonce = 77
			unknown(t, far, next)
			d.cut()
			d.set(none)

			got := answered(t, far, "a")
			if !c.late && (got.Nonce == 77) != c.applied {
				t.Errorf("the register shows nonce %d", got.Nonce)
			}
			_, err := far.Swap(t.Context(), l)
			if c.applied && !errors.Is(err, driver.ErrConflict) {
				t.Errorf("a swap on the revision before: %v, want ErrConflict", err)
			}
			if !c.applied && !c.late && err != nil {
				t.Errorf("a swap on the revision that was never replaced: %v", err)
			}
			anything(t, woken)
			answered(t, near, "a")
			notified(t, far, woken)
		})
	}
}

func TestSlowConnections(t *testing.T) {
	t.Parallel()
	srv := server(t)
	addr := fresh(t, srv)
	d := newDialer()
	s := openOver(t, srv, addr, d)
	woken := s.Subscribe(t.Context(), driver.Names("probe"))
	d.set(slowDown)
	l := storetest.Swap(t, s, held("a", "x", 1))
	for range 5 {
		l.Nonce++
		l = storetest.Swap(t, s, l)
	}
	notified(t, s, woken)
}

// TestServerFrozenAndRestarted stops an API server without ending it, and then kills it.
func TestServerFrozenAndRestarted(t *testing.T) {
	t.Parallel()
	srv := own(t)
	addr := fresh(t, srv)
	s := open(t, addr)
	woken := s.Subscribe(t.Context(), driver.Prefix(""))
	l := storetest.Swap(t, s, held("a", "x", 1))
	notified(t, s, woken)

	if err := srv.Freeze(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		unknown(t, s, l)
	}
	if err := srv.Thaw(); err != nil {
		t.Fatal(err)
	}
	anything(t, woken)
	l = answered(t, s, "a") // a swap that was not answered may have been applied
	notified(t, s, woken)

	srv.Kill()
	unknown(t, s, l)
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := answered(t, s, "a"); got.Rev != l.Rev {
		t.Errorf("after a restart the register has revision %s, want %s", got.Rev, l.Rev)
	}
	anything(t, woken)
	notified(t, s, woken)
}

// TestWatchesThatTheServerEnds follows registers on an API server that ends every watch after a second or two.
func TestWatchesThatTheServerEnds(t *testing.T) {
	t.Parallel()
	srv := own(t, "--min-request-timeout=1")
	s := open(t, fresh(t, srv))
	all := s.Subscribe(t.Context(), driver.Prefix(""))
	one := s.Subscribe(t.Context(), driver.Names("probe"))
	for range 3 {
		notified(t, s, all)
		before := s.Requests()["watch"]
		eventually(t, "watches begin anew", func() bool { return s.Requests()["watch"] > before+2 })
	}
	notified(t, s, all)
	notified(t, s, one)

	if err := expired(apierrors.NewResourceExpired("too old resource version")); err != nil {
		t.Errorf("a watch that was too slow counts as failed: %v", err)
	}
	if err := expired(apierrors.NewInternalError(errors.New("x"))); !away(err) {
		t.Errorf("an answer that cannot be read counts as one of the server: %v", err)
	}
}

// snapshot stops an API server and its etcd, copies the files, and starts both. It returns a function that brings the
// copy back, as a disk that is restored does.
func snapshot(t *testing.T, srv *kubetest.Server) (restore func()) {
	t.Helper()
	saved := filepath.Join(t.TempDir(), "saved")
	move := func(from, to string) {
		t.Helper()
		srv.Kill()
		srv.Etcd().Kill()
		err := os.RemoveAll(to)
		if err == nil {
			err = os.CopyFS(to, os.DirFS(from))
		}
		if err == nil {
			err = srv.Etcd().Start()
		}
		if err == nil {
			err = srv.Restart()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	move(srv.Etcd().Data(), saved)
	return func() { move(saved, srv.Etcd().Data()) }
}

// TestRevisionsAfterARollback brings a register to the resourceVersion that it had before its etcd was set back, with
// another record. What was read before must not fit.
func TestRevisionsAfterARollback(t *testing.T) {
	t.Parallel()
	srv := own(t)
	addr := fresh(t, srv)
	s, other := open(t, addr), open(t, addr)
	storetest.Swap(t, s, held("a", "x", 1))
	restore := snapshot(t, srv)
	lost := held("a", "lost", 2)
	lost.Rev = answered(t, s, "a").Rev
	lost = storetest.Swap(t, s, lost)
	was, _ := parseRevision(lost.Rev)

	for again := range 2 { // gone back, and gone back once more
		restore()
		answered(t, s, "a")
		l := answered(t, other, "a")
		// The API server writes Leases of its own, so the same resourceVersion cannot be brought about. A swap with the
		// current one and the stamp of the lost write is what would be sent if it came.
		l.Nonce = 99
		l = storetest.Swap(t, other, l)
		now, _ := parseRevision(l.Rev)
		now.stamp = was.stamp
		forged := lost
		forged.Rev = now.String()
		if _, err := s.Swap(t.Context(), forged); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a swap from before the rollback that has met the resourceVersion: %v", again, err)
		}
		if _, err := s.Swap(t.Context(), lost); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a swap from before the rollback: %v, want ErrConflict", again, err)
		}
		if err := s.Remove(t.Context(), lost); !errors.Is(err, driver.ErrConflict) {
			t.Errorf("time %d: a removal from before the rollback: %v, want ErrConflict", again, err)
		}
	}
}

// TestMembersAfterARollback sets the etcd of an API server back under members that remember more than it shows.
func TestMembersAfterARollback(t *testing.T) {
	t.Parallel()
	srv := own(t)
	addr := fresh(t, srv)
	c := newCandidates(t)
	m := c.join("a", open(t, addr), quick())
	c.beyond(0)
	restore := snapshot(t, srv)
	epoch := c.beyond(0)
	for range 2 { // these terms will be lost
		if err := m.StepDown(t.Context(), election); err != nil {
			t.Fatal(err)
		}
		epoch = c.beyond(epoch)
	}

	for range 2 { // gone back, and gone back once more; candidates checks that epochs increase
		before := c.happened(regent.EventStoreRegressed)
		restore()
		eventually(t, "the member says that the store has lost writes", func() bool {
			return c.happened(regent.EventStoreRegressed) > before
		})
		epoch = c.beyond(epoch)
	}
}

// TestLeasesDeleted deletes all Leases under two members. They say so, wait, and lead beyond the epoch that they have
// seen.
func TestLeasesDeleted(t *testing.T) {
	t.Parallel()
	srv := server(t)
	addr := fresh(t, srv)
	c := newCandidates(t)
	c.join("a", open(t, addr), quick())
	epoch := c.beyond(0)
	c.join("b", open(t, addr), quick())
	eventually(t, "the standby knows the leader", func() bool { return c.happened(regent.EventLeaderChanged) > 0 })

	client, err := coordination.NewForConfig(configOf(t, addr))
	if err != nil {
		t.Fatal(err)
	}
	err = client.Leases(namespaceOf(addr)).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "somebody says that the Leases are gone", func() bool {
		return c.happened(regent.EventStoreRegressed) > 0
	})
	c.beyond(epoch)
}
