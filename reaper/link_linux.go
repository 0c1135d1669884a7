package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	// attempt is how long one release may take before the store is opened again.
	attempt = 3 * time.Second
	// Opening the store is retried after a tenth of a second, then after twice that.
	reopenFirst = 100 * time.Millisecond
	reopenMax   = 2 * time.Second
	// warmLimit is how long the first requests on a new connection may take.
	warmLimit = 3 * time.Second
	// noRevision is a revision that no store gives to a record.
	noRevision = "no revision: a first request of the reaper"
)

// link is the companion's own connection to the store.
type link struct {
	ctx     context.Context
	address string
	dial    Opener
	log     *slog.Logger
	once    sync.Once

	mu    sync.Mutex
	first string // the register of the first requests; empty once a release has begun
	store driver.Store
	err   error         // why store is nil
	ready chan struct{} // closed when store is set
}

func newLink(ctx context.Context, open Opener, address string, log *slog.Logger) *link {
	return &link{ctx: ctx, address: address, dial: open, log: log, ready: make(chan struct{})}
}

// prepare opens the store while the process lives, and makes the first requests, about a register that the process
// holds.
func (l *link) prepare(register string) {
	l.mu.Lock()
	l.first = register
	l.mu.Unlock()

	l.start()
}

// start opens the store, in the background, and tries until it succeeds.
func (l *link) start() { l.once.Do(func() { go l.open() }) }

func (l *link) open() {
	for wait := reopenFirst; ; wait = min(2*wait, reopenMax) {
		store, err := l.dial(l.ctx, l.address)
		if err == nil && store == nil {
			err = errors.New("the function given to reaper.Main returned no store and no error")
		}

		l.mu.Lock()
		l.store = store
		l.err = err
		if err == nil {
			close(l.ready)
			l.mu.Unlock()
			l.warm(store)
			l.log.Debug("store is open")
			return
		}
		l.mu.Unlock()

		l.log.Warn("cannot open the store: trying again", "error", err)
		time.Sleep(wait)
	}
}

// warm makes the first two requests on a new connection, so that a release finds its statements prepared and its
// caches filled: on PostgreSQL that is 10 ms. The swap names a revision that does not exist, so it changes nothing. A
// failure means nothing: the process may live for long, and a release opens the store again if it fails too.
func (l *link) warm(store driver.Store) {
	l.mu.Lock()
	register := l.first
	l.mu.Unlock()

	if register == "" {
		return
	}

	ctx, cancel := context.WithTimeout(l.ctx, warmLimit)
	defer cancel()

	record, err := store.Get(ctx, register)
	if err == nil {
		record.Rev = noRevision
		_, err = store.Swap(ctx, record)
	}

	if !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrNotFound) {
		l.log.Debug("the first requests to the store failed", "error", err)
	}
}

// renew replaces a connection that has failed.
func (l *link) renew(broken driver.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.store == broken && broken != nil {
		go broken.Close()
		l.store = nil
		l.ready = make(chan struct{})
		go l.open()
	}
}

// release vacates the register of a dead process. It retries until that is done or ctx ends, and opens the store again
// if an attempt fails.
func (l *link) release(ctx context.Context, dead line) error {
	l.mu.Lock()
	l.first = ""
	l.mu.Unlock()

	l.start()
	var last error
	for wait := time.Duration(0); ; wait = reopenFirst {
		store, err := l.opened(ctx)
		if err != nil {
			return fmt.Errorf("release %s: %w", dead.Register, errors.Join(last, err))
		}

		if store == nil {
			continue // another release has found that it failed
		}

		one, cancel := context.WithTimeout(ctx, attempt)
		last = regent.ReapAs(one, store, dead.Register, dead.holder(), dead.reason())
		cancel()
		if last == nil || ctx.Err() != nil {
			return last
		}

		l.renew(store)
		if wait > 0 { // the store was opened again before, and it did not help
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
		}
	}
}

// opened waits until the store is open, or ctx ends. It returns nil if the store has failed meanwhile.
func (l *link) opened(ctx context.Context) (driver.Store, error) {
	l.mu.Lock()
	ready := l.ready
	l.mu.Unlock()

	select {
	case <-ready:
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.store, nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, errors.Join(l.err, context.Cause(ctx))
	}
}

// close closes the store, and waits at most a second for that.
func (l *link) close() {
	l.mu.Lock()
	store := l.store
	l.mu.Unlock()

	if store == nil {
		return
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = store.Close()
	}()

	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
