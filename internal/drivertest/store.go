package drivertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// Limit is how long a test waits for what must happen.
const Limit = 3 * time.Minute

// Eventually asks until what is true.
func Eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Limit); !f(); <-tick.C {
		if time.Now().After(end) || t.Failed() {
			t.Fatalf("not within %v: %s", Limit, what)
		}
	}
}

// Short returns a context for one request.
func Short(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// Unknown swaps l, and fails the test if the outcome is anything but unknown, or comes late.
func Unknown(t testing.TB, s driver.Store, l driver.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := s.Swap(ctx, l)
	if err == nil || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrRefused) {
		t.Errorf("a swap while the server is away: %v, want an unknown outcome", err)
	}
	if took := time.Since(began); took > Limit {
		t.Errorf("it took %v to return after its context had ended", took)
	}
}

// Unanswered freezes the server that a store asks, and has one swap go unanswered. If the store asks another server by
// then, the swap is answered: the server is thawed, and it is tried again.
func Unanswered(t testing.TB, s driver.Store, name string, freeze func() (thaw func() error)) {
	t.Helper()
	Eventually(t, "a swap goes unanswered", func() bool {
		l := Settled(t, s, name)
		l.Nonce++
		thaw := freeze()

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Swap(ctx, l)
		if errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrRefused) {
			t.Fatalf("a swap that is not answered: %v, want an unknown outcome", err)
		}
		if err == nil {
			if err := thaw(); err != nil {
				t.Fatal(err)
			}
		}
		return err != nil
	})
}

// Settled reads until the store answers, and returns what the register shows.
func Settled(t testing.TB, s driver.Store, name string) (l driver.Record) {
	t.Helper()
	Eventually(t, "a read succeeds again", func() bool {
		got, err := s.Get(Short(t), name)
		l = got
		return err == nil
	})
	return l
}

// Listens waits until a subscription receives what the store has changed.
func Listens(t testing.TB, s driver.Store, woken <-chan driver.Record) {
	t.Helper()
	end := time.After(Limit)
	for n := 0; ; n++ {
		l, err := s.Get(Short(t), "probe")
		if errors.Is(err, driver.ErrNotFound) {
			l, err = driver.Record{Name: "probe"}, nil
		}
		if err == nil {
			l.Holder = driver.Identity{ID: fmt.Sprint(n), Incarnation: "X"}
			l.Nonce++
			_, _ = s.Swap(Short(t), l)
		}

		for wait := time.After(200 * time.Millisecond); wait != nil; {
			select {
			case got := <-woken:
				if got.Name == "probe" {
					return
				}
			case <-wait:
				wait = nil
			case <-end:
				t.Fatal("notifications do not arrive again")
			}
		}
	}
}

// Zero waits for the notification that anything may have changed.
func Zero(t testing.TB, woken <-chan driver.Record) {
	t.Helper()
	for end := time.After(Limit); ; {
		select {
		case got := <-woken:
			if got.Name == "" {
				return
			}
		case <-end:
			t.Fatal("no notification that anything may have changed")
		}
	}
}

// Restart stops a server and starts it again under a store with a record and a subscription: the record is still there,
// no revision comes twice, and the subscription goes on.
func Restart(t testing.TB, s driver.Store, l driver.Record, stop func(), start func() error) {
	t.Helper()
	woken := s.(driver.Notifier).Subscribe(t.Context(), driver.Prefix(""))
	Listens(t, s, woken)
	stop()
	Unknown(t, s, l)
	if err := start(); err != nil {
		t.Fatal(err)
	}

	if got := Settled(t, s, l.Name); got.Rev != l.Rev {
		t.Errorf("after a restart the register has revision %s, want %s", got.Rev, l.Rev)
	}
	l.Nonce++
	if got, err := s.Swap(t.Context(), l); err != nil || got.Rev == l.Rev {
		t.Errorf("a swap after the restart: revision %s after %s, %v", got.Rev, l.Rev, err)
	}
	Zero(t, woken)
	Listens(t, s, woken)
}
