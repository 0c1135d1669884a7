package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/etcdtest"
	"github.com/regentd/regent/storetest"
	"google.golang.org/grpc/connectivity"
)

// behind opens a store behind a proxy, with a subscription and a record, and another store that goes directly.
func behind(t *testing.T) (p *drivertest.Proxy, far, near *Store, woken <-chan driver.Record, l driver.Record) {
	t.Helper()
	addr := fresh()
	p = drivertest.StartProxy(t, shared[0].Addr())
	far, near = open(t, p.Through(addr)), open(t, addr)
	woken = far.Subscribe(t.Context(), driver.Prefix(""))
	l = storetest.Swap(t, far, held("a", "x", 1))
	drivertest.Listens(t, far, woken)
	return p, far, near, woken, l
}

func TestHungServer(t *testing.T) {
	t.Parallel()
	p, far, _, woken, l := behind(t)
	p.Set(drivertest.Faults{Hold: true})
	for range 3 {
		drivertest.Unknown(t, far, l)
	}
	p.Set(drivertest.Faults{})
	drivertest.Settled(t, far, "a")
	drivertest.Listens(t, far, woken)
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	p, far, near, woken, l := behind(t)
	p.Set(drivertest.Faults{NoAnswers: true})
	next := l
	next.Nonce = 77
	drivertest.Unknown(t, far, next)
	p.Cut()
	p.Set(drivertest.Faults{})
	drivertest.Zero(t, woken)

	got := drivertest.Settled(t, far, "a")
	if got.Nonce != 77 {
		t.Errorf("the register shows nonce %d: the swap whose answer was lost was sent", got.Nonce)
	}
	if _, err := far.Swap(t.Context(), l); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a swap on the revision before: %v, want ErrConflict", err)
	}
	got.Nonce++
	storetest.Swap(t, near, got)
	drivertest.Listens(t, far, woken)
}

func TestLostRequests(t *testing.T) {
	t.Parallel()
	p, far, near, woken, l := behind(t)
	p.Set(drivertest.Faults{NoRequests: true})
	next := l
	next.Nonce = 77
	drivertest.Unknown(t, far, next)
	p.Cut()
	p.Set(drivertest.Faults{})

	if got := drivertest.Settled(t, far, "a"); got.Rev != l.Rev {
		t.Errorf("the register has moved to %s, although the request was lost", got.Rev)
	}
	l.Nonce++
	storetest.Swap(t, near, l)
	drivertest.Listens(t, far, woken)
}

func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	p, far, _, woken, l := behind(t)
	p.Set(drivertest.Faults{Refuse: true})
	p.Cut()
	drivertest.Eventually(t, "the connection is known to be lost", func() bool {
		far.client.ActiveConnection().Connect()
		return far.client.ActiveConnection().GetState() == connectivity.TransientFailure
	})
	drivertest.Eventually(t, "an error that says why", func() bool {
		_, err := far.Swap(drivertest.Short(t), l)
		if err == nil || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrRefused) {
			t.Fatalf("a swap without a connection: %v, want an unknown outcome", err)
		}
		return !errors.Is(err, context.DeadlineExceeded)
	})
	p.Set(drivertest.Faults{})
	drivertest.Settled(t, far, "a")
	drivertest.Listens(t, far, woken)
}

func TestSlowServer(t *testing.T) {
	t.Parallel()
	p, far, _, woken, l := behind(t)
	p.Set(drivertest.Faults{Delay: 100 * time.Millisecond})
	for range 5 {
		l.Nonce++
		l = storetest.Swap(t, far, l)
	}
	drivertest.Listens(t, far, woken)
}

func TestServerRestarted(t *testing.T) {
	t.Parallel()
	all := cluster(t, 1)
	s := open(t, etcdtest.Address(all, ""))
	drivertest.Restart(t, s, storetest.Swap(t, s, held("a", "x", 1)), all[0].Kill, all[0].Start)
}

// TestOpenOfAHungServer opens a store where nobody answers: with and without a log-in.
func TestOpenOfAHungServer(t *testing.T) {
	t.Parallel()
	p := drivertest.StartProxy(t, shared[0].Addr())
	p.Set(drivertest.Faults{Hold: true})
	for _, user := range []string{"", "u:s3cret@"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		began := time.Now()
		s, err := Open(ctx, "etcd://"+user+p.Addr(), Options{})
		cancel()
		if err == nil || errors.Is(err, driver.ErrRefused) {
			t.Errorf("Open where nobody answers: %v, %v", s, err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %v to return after its context had ended", took)
		}
	}
}
