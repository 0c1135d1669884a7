// Package storetest is the conformance suite of stores: it tests what [driver.Store] requires of a driver. A driver's
// test file is one call of [Run], and tests of what only that store can show:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Open {
//			s := memstore.New()
//			return func() (driver.Store, error) { return s.Client(t.Name(), memstore.Faults{}), nil }
//		})
//	}
//
// The suite assumes a backing store that works and that nobody else uses. An answer that takes half a minute, a lost
// notification, or registers of an earlier test count as failures, although the protocol tolerates them. The suite
// cannot show what takes a crash, a partition or a second machine; package memstore simulates those for the protocol.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// Open opens another client of one backing store, as another process would. The suite closes it.
type Open func() (driver.Store, error)

// Run runs the suite. It calls fresh for every test: fresh prepares an empty backing store that lasts as long as its t,
// and returns a function that opens clients of it. To simulate a restart, Run closes clients and opens others, so the
// registers must outlive the clients. Optional interfaces (Notifier, Batcher, Refresher, Skimmer, Ranger, Remover,
// Witness, Counter) are tested if the clients implement them. Run counts goroutines, so no other test should run at
// the same time.
func Run(t *testing.T, fresh func(t *testing.T) Open) {
	t.Helper()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) { c.run(newRig(t, fresh(t), 30*time.Second)) })
	}
}

// check is one fact about a store. It takes a rig instead of a *testing.T so that the tests of this package can observe
// its failure.
type check struct {
	name string
	run  func(r *rig)
}

func checks() []check {
	var all []check
	for _, group := range [][]check{
		registerChecks, recordChecks, revisionChecks, expiryChecks, raceChecks,
		contextChecks, closeChecks, listChecks, notifyChecks, batchChecks, refreshChecks, removeChecks,
		skimChecks, rangeChecks, countChecks, leakChecks,
	} {
		all = append(all, group...)
	}
	return all
}

// rig is what a check uses.
type rig struct {
	testing.TB
	ctx     context.Context
	cancel  context.CancelFunc
	open    Open
	timeout time.Duration // of anything that a check waits for
}

func newRig(t testing.TB, open Open, timeout time.Duration) *rig {
	ctx, cancel := context.WithTimeout(t.Context(), 10*timeout)
	t.Cleanup(cancel)
	return &rig{TB: t, ctx: ctx, cancel: cancel, open: open, timeout: timeout}
}

// client opens a client that is closed with the test.
func (r *rig) client() driver.Store {
	r.Helper()
	s, err := r.open()
	if err != nil {
		r.Fatalf("open a client: %v", err)
	}

	r.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.Errorf("close a client: %v", err)
		}
	})

	return s
}

func (r *rig) clients(n int) []driver.Store {
	r.Helper()
	all := make([]driver.Store, n)
	for i := range all {
		all[i] = r.client()
	}
	return all
}

func (r *rig) get(s driver.Store, name string) driver.Record {
	r.Helper()
	l, err := s.Get(r.ctx, name)
	if err != nil {
		r.Fatalf("Get(%q): %v", name, err)
	}
	return l
}

func (r *rig) swap(s driver.Store, l driver.Record) driver.Record {
	r.Helper()
	got, err := s.Swap(r.ctx, l)
	if err != nil {
		r.Fatalf("Swap(%q at revision %q): %v", l.Name, l.Rev, err)
	}
	return got
}

// wantConflict swaps l and wants a conflict that leaves the register unchanged.
func (r *rig) wantConflict(s driver.Store, l driver.Record) {
	r.Helper()
	before, missing := s.Get(r.ctx, l.Name)
	if _, err := s.Swap(r.ctx, l); !errors.Is(err, driver.ErrConflict) {
		r.Errorf("Swap(%q at revision %q) = %v, want ErrConflict", l.Name, l.Rev, err)
	}

	after, err := s.Get(r.ctx, l.Name)
	if missing != nil {
		if !errors.Is(err, driver.ErrNotFound) {
			r.Errorf("after a refused swap Get(%q) = %+v, %v, want ErrNotFound", l.Name, after, err)
		}
		return
	}

	if diff := differ(before, after); diff != "" || before.Rev != after.Rev {
		r.Errorf("a refused swap changed register %q (revision %q to %q) %s", l.Name, before.Rev, after.Rev, diff)
	}
}

// list returns the registers below prefix by name, and fails if a name comes twice.
func (r *rig) list(s driver.Store, prefix string) map[string]driver.Record {
	r.Helper()
	all := map[string]driver.Record{}
	for l, err := range s.List(r.ctx, prefix) {
		if err != nil {
			r.Fatalf("List(%q): %v", prefix, err)
		}
		if _, twice := all[l.Name]; twice {
			r.Errorf("List(%q) yields register %q twice", prefix, l.Name)
		}
		all[l.Name] = l
	}
	return all
}

// mustReturn runs f, and fails if it does not return in time. A Fatalf in f ends the test as well.
func (r *rig) mustReturn(what string, f func()) {
	r.Helper()
	done, returned := make(chan struct{}), false
	go func() {
		defer close(done)
		f()
		returned = true
	}()

	select {
	case <-done:
		if !returned {
			r.FailNow()
		}
	case <-time.After(r.timeout):
		r.Errorf("%s: not done after %v", what, r.timeout)
		r.cancel() // f must report its errors before the test is over
		select {
		case <-done:
		case <-time.After(r.timeout):
		}
		r.FailNow()
	}
}

// together runs f(0) to f(n-1) at once, and waits for all.
func (r *rig) together(n int, f func(i int)) {
	r.Helper()
	r.mustReturn(fmt.Sprintf("%d calls at once", n), func() {
		var all sync.WaitGroup
		start := make(chan struct{})
		for i := range n {
			all.Go(func() {
				<-start
				f(i)
			})
		}

		close(start)
		all.Wait()
	})
}

// fill creates registers, many at a time.
func (r *rig) fill(s driver.Store, names []string) {
	r.Helper()
	const width = 16
	r.together(width, func(i int) {
		for ; i < len(names); i += width {
			if _, err := s.Swap(r.ctx, taken(names[i], 1)); err != nil {
				r.Errorf("create %q: %v", names[i], err)
				return
			}
		}
	})
}

// taken returns a simple record that somebody holds, and that does not expire during a test.
func taken(name string, nonce uint64) driver.Record {
	return driver.Record{
		Name: name, Holder: driver.Identity{ID: "a", Incarnation: "a1"}, Addr: "127.0.0.1:7000",
		Epoch: 1, Nonce: nonce, Duration: time.Hour,
	}
}

// renewed returns l as its holder writes it at the next heartbeat.
func renewed(l driver.Record) driver.Record {
	l.Nonce++
	return l
}

// released returns l as its holder releases it.
func released(l driver.Record) driver.Record {
	return driver.Record{Name: l.Name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce + 1, Duration: l.Duration,
		Data: l.Data, Past: l.Past}
}

// handed returns l with another holder.
func handed(l driver.Record, id string) driver.Record {
	l.Holder = driver.Identity{ID: id, Incarnation: id + "1"}
	l.Epoch++
	l.Nonce++
	return l
}
