// Package memstore is a store in memory with injectable faults, for tests, simulations and demonstrations.
//
// It serves one process: nothing is shared with another, and nothing outlives it. A [Store] stands for the backing
// store, and every [Client] for one process's connection to it, with faults of its own: delays, lost requests and
// answers, swaps applied after their caller has given up, partitions, outages, a store that hangs, registers that
// cannot be read, rollbacks, and lost, late, doubled or spurious notifications. A client without faults never waits.
//
// A store may be used in a [testing/synctest] bubble if it was created in that bubble. It has no goroutine: waits are
// timers and channels of the caller, and what outlives a call (a late swap, a late notification) is a timer.
//
//	s := memstore.New()
//	a := s.Client("a", memstore.Faults{})
//	b := s.Client("b", memstore.Faults{Seed: 7, LoseAnswer: 0.1, Answer: memstore.Delay{Max: 10 * time.Millisecond}})
package memstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/regentd/regent/driver"
)

// Store is a set of registers in memory. It is a [driver.Store] itself, through a client without a name.
//
// Set the hooks before the store is used. They must not call it.
type Store struct {
	// OnSwap is called for every swap that is applied, in order, under the store's lock. If the register was never
	// written, old has only its Name.
	OnSwap func(old, new driver.Record, client string)
	// OnRemove is called for every removal that is applied, in order with OnSwap, under the store's lock.
	OnRemove func(old driver.Record, client string)
	// OnRollback is called for every rollback and flush, in order with OnSwap, under the store's lock. It gets every
	// register that has changed, sorted by name.
	OnRollback func([]Change)
	// OnRequest is called when a client sends a request, whether or not it arrives. No lock is held.
	OnRequest func(Request)

	faultSetting // faults of every client
	hang         // of every client
	requestCounter
	mu         sync.Mutex
	regs       map[string]*driver.Record
	log        []replaced      // the swaps that can be undone, oldest first
	logged     int             // how many are kept; 0 for none
	unreadable map[string]bool // see SetUnreadable
	rev        uint64          // the last revision; it only increases, so none is used twice
	watchers   []*watcher
	spurious   atomic.Bool   // the faults of some client include spurious notifications, or did
	closed     atomic.Bool   // set under mu
	done       chan struct{} // closed with the store
	self       *Client
}

var (
	_ driver.Store    = (*Store)(nil)
	_ driver.Notifier = (*Store)(nil)
	_ driver.Batcher  = (*Store)(nil)
)

// New returns an empty store.
func New() *Store {
	s := &Store{regs: map[string]*driver.Record{}, done: make(chan struct{})}
	s.self = s.Client("", Faults{})
	return s
}

// Get returns the record, or driver.ErrNotFound.
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	return s.self.Get(ctx, name)
}

// Swap writes l if the register's revision is still l.Rev.
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return s.self.Swap(ctx, l)
}

// List yields the registers whose names begin with prefix, sorted by name.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return s.self.List(ctx, prefix)
}

// SwapAll swaps many registers in one request.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	return s.self.SwapAll(ctx, ls)
}

// Subscribe returns a channel of notifications of the registers that are followed.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return s.self.Subscribe(ctx, to)
}

// Close closes the store and with it every client. Late swaps that have not arrived are dropped.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed.Swap(true) {
		return nil
	}

	close(s.done)
	for _, w := range s.watchers {
		w.stop()
	}

	s.watchers = nil
	return nil
}

func (s *Store) nextRevLocked() string {
	s.rev++
	return strconv.FormatUint(s.rev, 10)
}

func (s *Store) get(name string) (driver.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed.Load() {
		return driver.Record{}, driver.ErrClosed
	}

	if s.unreadable[name] {
		return driver.Record{}, ErrUnreadable
	}

	l := s.regs[name]
	if l == nil {
		return driver.Record{}, driver.ErrNotFound
	}

	return *l, nil
}

// swap applies l for client, or returns why not. The name is checked only if the register is new: an existing one has a
// valid name.
func (s *Store) swap(l driver.Record, client string) (driver.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed.Load() {
		return driver.Record{}, driver.ErrClosed
	}

	if s.unreadable[l.Name] {
		return driver.Record{}, ErrUnreadable
	}

	reg := s.regs[l.Name]
	var old driver.Record
	switch {
	case reg != nil:
		old = *reg
	case driver.ValidName(l.Name):
		old.Name = l.Name
	default:
		return driver.Record{}, errName
	}

	if old.Rev != l.Rev {
		return driver.Record{}, driver.ErrConflict
	}

	l.Rev = s.nextRevLocked()
	if reg == nil {
		reg = new(driver.Record)
		s.regs[l.Name] = reg
	}

	*reg = l
	s.logLocked(old)
	if s.OnSwap != nil {
		s.OnSwap(old, l, client)
	}

	if notable := l.Notable(old); notable || s.spurious.Load() {
		s.notifyLocked(l, notable)
	}
	return l, nil
}

// list copies the registers below prefix, sorted by name, so that a simulation replays.
func (s *Store) list(prefix string) ([]driver.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.closed.Load() {
		return nil, driver.ErrClosed
	}

	var found []driver.Outcome
	for name, l := range s.regs {
		switch {
		case !strings.HasPrefix(name, prefix):
		case s.unreadable[name]:
			found = append(found, driver.Outcome{Record: driver.Record{Name: name}, Err: ErrUnreadable})
		default:
			found = append(found, driver.Outcome{Record: *l})
		}
	}

	slices.SortFunc(found, func(a, b driver.Outcome) int { return cmp.Compare(a.Record.Name, b.Record.Name) })
	return found, nil
}

// SetUnreadable sets the registers that cannot be read or written from now on, and replaces those set before. Requests
// for them fail with ErrUnreadable. All other registers work.
func (s *Store) SetUnreadable(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.unreadable = nil
	for _, name := range names {
		if s.unreadable == nil {
			s.unreadable = map[string]bool{}
		}
		s.unreadable[name] = true
	}
}

var errName = errors.New("a register name must be 1 to 250 bytes of UTF-8 without control characters")
