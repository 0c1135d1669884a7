package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/drivertest"
	"github.com/regentd/regent/internal/natstest"
	"github.com/regentd/regent/storetest"
)

// wire is a store behind a proxy, with a subscription and a record, and another store that goes directly.
type wire struct {
	*drivertest.Proxy
	far, near *Store
	woken     <-chan driver.Record
	record    driver.Record
}

func newWire(t *testing.T) wire {
	t.Helper()
	addr := fresh()
	w := wire{Proxy: drivertest.StartProxy(t, shared[0].Addr())}
	w.far, w.near = open(t, w.Through(addr)), open(t, addr)
	w.woken = w.far.Subscribe(t.Context(), driver.Prefix(""))
	w.record = storetest.Swap(t, w.far, held("a", "x", 1))
	drivertest.Listens(t, w.far, w.woken)
	return w
}

// works checks that the store behind the proxy works again.
func (w wire) works(t *testing.T) {
	t.Helper()
	w.Set(drivertest.Faults{})
	drivertest.Settled(t, w.far, "a")
	drivertest.Listens(t, w.far, w.woken)
}

func TestHungServer(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{Hold: true})
	for range 3 {
		drivertest.Unknown(t, w.far, w.record)
	}
	w.works(t)
}

// TestHungServerThatReadsNothing sends a hung server more than the system keeps for it, so that a write to the
// connection does not return. The requests must return all the same, before the client gives up the write by itself.
func TestHungServerThatReadsNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{Hold: true})
	large := make([]driver.Record, 400)
	for i := range large {
		large[i] = held(fmt.Sprint("large", i), "x", 1)
		large[i].Data = make([]byte, driver.MaxData)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	for _, o := range w.far.SwapAll(ctx, large) {
		if o.Err == nil || errors.Is(o.Err, driver.ErrConflict) {
			t.Errorf("a swap while the server is away: %v, want an unknown outcome", o.Err)
		}
	}
	if took := time.Since(began); took >= nats.DefaultFlusherTimeout {
		t.Errorf("it took %v to return after its context had ended", took)
	}
	w.works(t)
}

func TestLostAnswers(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{NoAnswers: true})
	next := w.record
	next.Nonce = 77
	drivertest.Unknown(t, w.far, next)
	drivertest.Eventually(t, "the swap was applied", func() bool {
		return drivertest.Settled(t, w.near, "a").Nonce == 77
	})
	w.Cut()
	w.Set(drivertest.Faults{})
	drivertest.Zero(t, w.woken)

	if _, err := w.far.Swap(t.Context(), w.record); !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a swap on the revision before: %v, want ErrConflict", err)
	}
	got := drivertest.Settled(t, w.far, "a")
	got.Nonce++
	storetest.Swap(t, w.near, got)
	w.works(t)
}

func TestLostRequests(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{NoRequests: true})
	next := w.record
	next.Nonce = 77
	drivertest.Unknown(t, w.far, next)
	w.Cut()
	w.Set(drivertest.Faults{})

	if got := drivertest.Settled(t, w.far, "a"); got.Rev != w.record.Rev {
		t.Errorf("the register has moved to %s, although the request was lost", got.Rev)
	}
	w.record.Nonce++
	storetest.Swap(t, w.near, w.record)
	w.works(t)
}

// TestRefusedConnections checks that a request without a connection fails at once, and that it is not sent later.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{Refuse: true})
	w.Cut()
	drivertest.Eventually(t, "the connection is known to be lost", func() bool { return !w.far.conn.IsConnected() })

	next := w.record
	next.Nonce = 77
	_, err := w.far.Swap(t.Context(), next)
	if !errors.Is(err, errLinkLost) || errors.Is(err, driver.ErrRefused) {
		t.Errorf("a swap without a connection: %v, want that it was lost", err)
	}
	w.works(t)
	if got := drivertest.Settled(t, w.near, "a"); got.Nonce == 77 {
		t.Error("a swap that was made without a connection was sent later")
	}
}

// TestCutConnection checks that a request does not wait for an answer that cannot come.
func TestCutConnection(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{NoAnswers: true})
	before := w.far.Requests()["barrier"]
	failed := make(chan error)
	go func() {
		_, err := w.far.Get(context.WithoutCancel(t.Context()), "a")
		failed <- err
	}()
	drivertest.Eventually(t, "the read was sent", func() bool { return w.far.Requests()["barrier"] > before })
	w.Set(drivertest.Faults{NoAnswers: true, Refuse: true})
	w.Cut()
	select {
	case err := <-failed:
		if !errors.Is(err, errLinkLost) {
			t.Errorf("a read over a connection that was lost: %v", err)
		}
	case <-time.After(drivertest.Limit):
		t.Error("a read waits for an answer over a connection that was lost")
	}
	w.works(t)
}

func TestSlowServer(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.Set(drivertest.Faults{Delay: 100 * time.Millisecond})
	for range 3 {
		w.record.Nonce++
		w.record = storetest.Swap(t, w.far, w.record)
	}
	drivertest.Listens(t, w.far, w.woken)
}

func TestServerRestarted(t *testing.T) {
	t.Parallel()
	all := servers(t, 1, "")
	s := open(t, natstest.Address(all, ""))
	drivertest.Restart(t, s, storetest.Swap(t, s, held("a", "x", 1)), all[0].Kill, all[0].Start)
}

// TestSubscriptionThatIsOnItsWay follows a register while nothing gets to the server. The subscription counts from when
// the server knows of it: a change before that would be missed.
func TestSubscriptionThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	p := drivertest.StartProxy(t, shared[0].Addr())
	s := open(t, p.Through(fresh()))
	to := driver.Names("probe")
	woken := s.Subscribe(t.Context(), to)
	drivertest.Listens(t, s, woken)

	p.Set(drivertest.Faults{Hold: true})
	notified := false
	receive := func() {
		for len(woken) > 0 {
			l := <-woken // late ones are of the probe
			notified = notified || l.Name == "a"
		}
	}
	before := s.Requests()
	to.Add("a")
	drivertest.Eventually(t, "the client has subscribed, and asks whether the server knows", func() bool {
		receive()
		now := s.Requests()
		return now["subscribe"] > before["subscribe"] && now["barrier"] > before["barrier"] || notified
	})
	receive()
	if notified {
		t.Error("notified of what is followed before the server knows of the subscription")
	}

	p.Set(drivertest.Faults{})
	drivertest.Eventually(t, "what is followed is to be read", func() bool {
		l := <-woken
		return l.Name == "a" || l.Name == ""
	})
}

// TestSubscriptionsAreGivenUp counts the subscriptions of the client when registers are not followed any more: while
// the server is there, and while it is away and the client keeps what it will subscribe to again.
func TestSubscriptionsAreGivenUp(t *testing.T) {
	t.Parallel()
	all := servers(t, 1, "")
	s := open(t, natstest.Address(all, ""))
	to := driver.Names("probe")
	woken := s.Subscribe(t.Context(), to)
	drivertest.Listens(t, s, woken)
	least := 0
	drivertest.Eventually(t, "no read is under way", func() bool {
		before := least
		least = s.conn.NumSubscriptions()
		return before == least
	})
	become := func(n int) {
		t.Helper()
		drivertest.Eventually(t, fmt.Sprintf("the client has %d subscriptions", n), func() bool {
			return s.conn.NumSubscriptions() == n
		})
	}

	to.Add("a", "b")
	become(least + 2)
	to.Remove("a")
	become(least + 1)

	all[0].Kill()
	drivertest.Eventually(t, "the connection is lost", func() bool { return !s.conn.IsConnected() })
	to.Remove("b")
	if err := all[0].Start(); err != nil {
		t.Fatal(err)
	}
	drivertest.Listens(t, s, woken)
	become(least)
}

// TestOpenOfAHungServer opens a store where nobody answers.
func TestOpenOfAHungServer(t *testing.T) {
	t.Parallel()
	p := drivertest.StartProxy(t, shared[0].Addr())
	p.Set(drivertest.Faults{Hold: true})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	s, err := Open(ctx, "nats://u:s3cret@"+p.Addr(), Options{})
	if err == nil || errors.Is(err, driver.ErrRefused) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Open where nobody answers: %v, %v", s, err)
	}
	if took := time.Since(began); took > dialTimeout {
		t.Errorf("it took %v to return after its context had ended", took)
	}
}
