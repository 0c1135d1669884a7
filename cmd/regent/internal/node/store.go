package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

// Store is a store that is opened in the background, with retries until that succeeds: a node whose store is
// unreachable says so, and waits. It also records the outcomes of reads and writes, for the readiness of the node.
type Store struct {
	Log     *slog.Logger // gets the first failure of reads and of writes, and when they work again; may be nil
	Address string       // without secrets, for the log

	open func(context.Context) (driver.Store, error)
	now  func() time.Time

	mu      sync.Mutex
	store   driver.Store
	closed  bool
	opening error // why it is not open
	reads   access
	writes  access
	ready   chan struct{} // closed when it is open
	begun   chan struct{} // closed when it may be contacted
	begin   sync.Once
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Notifier  = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Remover   = (*Store)(nil)
	_ driver.Skimmer   = (*Store)(nil)
	_ driver.Ranger    = (*Store)(nil)
	_ driver.Witness   = (*Store)(nil)
	_ driver.Counter   = (*Store)(nil)
)

// errNotOpen is the error of requests before the store is open.
var errNotOpen = errors.New("store is not open yet")

// NotOpen returns what the log says of a store that could not be opened.
func NotOpen(err error) string {
	if errors.Is(err, driver.ErrCredentials) {
		return "store has no credentials"
	}
	return "store unreachable"
}

// openInterval is the time between two attempts to open the store.
const openInterval = time.Second

// NewStore returns a store that is opened by open. Requests wait until Run has opened it, for which Begin must be
// called.
func NewStore(open func(context.Context) (driver.Store, error)) *Store {
	return &Store{
		open:    open,
		now:     time.Now,
		opening: errNotOpen,
		reads:   access{requests: "reads"},
		writes:  access{requests: "writes"},
		ready:   make(chan struct{}),
		begun:   make(chan struct{}),
	}
}

// Begin lets Run contact the store: the start-up jitter has passed. Before that, no request is sent.
func (s *Store) Begin() { s.begin.Do(func() { close(s.begun) }) }

// Run opens the store after Begin, and returns when it is open or ctx has ended. It calls failed for each attempt that
// fails. It returns an error that is a [driver.ErrRefused] at once, since a retry would not help.
func (s *Store) Run(ctx context.Context, failed func(error)) error {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return nil
	}

	for {
		store, err := s.open(ctx)
		err = plain.Error(err)
		s.opened(store, err)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case errors.Is(err, driver.ErrRefused):
			return err
		}

		failed(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(openInterval):
		}
	}
}

// opened takes in the outcome of an attempt to open the store.
func (s *Store) opened(store driver.Store, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.opening = err
		s.reads.fail(s.now(), err)
	case s.closed:
		_ = store.Close()
	default:
		s.store = store
		s.opening = nil
		s.reads.succeed(s.now())
		close(s.ready)
	}
}

// current returns the open store. It waits until the store is open or ctx ends.
func (s *Store) current(ctx context.Context) (driver.Store, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, driver.ErrClosed
	case s.store == nil:
		return nil, fmt.Errorf("%w: %w", errNotOpen, s.opening)
	}
	return s.store, nil
}

// Get implements [driver.Store].
func (s *Store) Get(ctx context.Context, name string) (driver.Record, error) {
	store, err := s.current(ctx)
	if err != nil {
		return driver.Record{}, err
	}

	l, err := store.Get(ctx, name)
	return l, s.recordRead(err)
}

// Swap implements [driver.Store].
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	store, err := s.current(ctx)
	if err != nil {
		return driver.Record{}, err
	}

	l, err = store.Swap(ctx, l)
	return l, s.recordWrite(err)
}

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return s.list(ctx, func(store driver.Store) iter.Seq2[driver.Record, error] { return store.List(ctx, prefix) })
}

// ListBefore implements [driver.Ranger]. If the store is none, it is List.
func (s *Store) ListBefore(ctx context.Context, prefix, before string) iter.Seq2[driver.Record, error] {
	return s.list(ctx, func(store driver.Store) iter.Seq2[driver.Record, error] {
		return driver.ListBefore(ctx, store, prefix, before)
	})
}

// Skim implements [driver.Skimmer]. If the store is none, it is List.
func (s *Store) Skim(ctx context.Context, prefix string, age time.Duration) iter.Seq2[driver.Record, error] {
	return s.list(ctx, func(store driver.Store) iter.Seq2[driver.Record, error] {
		return driver.Skim(ctx, store, prefix, age)
	})
}

// list yields what a list of the store yields.
func (s *Store) list(
	ctx context.Context, list func(driver.Store) iter.Seq2[driver.Record, error],
) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		store, err := s.current(ctx)
		if err != nil {
			yield(driver.Record{}, err)
			return
		}

		for l, err := range list(store) {
			if !yield(l, s.recordRead(err)) {
				return
			}
		}
	}
}

// SwapAll implements [driver.Batcher], with one request for each record if the store is none.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	store, err := s.current(ctx)
	if batcher, ok := store.(driver.Batcher); ok && err == nil {
		return each(batcher.SwapAll(ctx, ls), s.recordWrite)
	}

	out := make([]driver.Outcome, len(ls))
	for i, l := range ls {
		out[i].Record, out[i].Err = s.Swap(ctx, l)
	}
	return out
}

// Refresh implements [driver.Refresher], with one request for each record if the store is none.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	store, err := s.current(ctx)
	if refresher, ok := store.(driver.Refresher); ok && err == nil {
		return each(refresher.Refresh(ctx, known), s.recordRead)
	}

	out := make([]driver.Outcome, len(known))
	for i, l := range known {
		out[i].Record, out[i].Err = s.Get(ctx, l.Name)
	}
	return out
}

// Remove implements [driver.Remover]. If the store is none, nothing is removed and never will be: the error is an
// [errors.ErrUnsupported] and a [driver.ErrConflict].
func (s *Store) Remove(ctx context.Context, l driver.Record) error {
	store, err := s.current(ctx)
	if err != nil {
		return err
	}

	remover, ok := store.(driver.Remover)
	if !ok {
		return fmt.Errorf("remove %q: the store cannot remove registers: %w (%w)", l.Name, errors.ErrUnsupported,
			driver.ErrConflict)
	}
	return s.recordWrite(remover.Remove(ctx, l))
}

// each calls a function with the error of each outcome, and returns the outcomes.
func each(out []driver.Outcome, record func(error) error) []driver.Outcome {
	for i := range out {
		out[i].Err = record(out[i].Err)
	}

	return out
}

// Subscribe implements [driver.Notifier]. It notifies once when the store is open, and then whenever the store does.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	notifications := make(chan driver.Record, 1)
	go s.passOn(ctx, to, notifications)
	return notifications
}

// passOn passes the notifications of the open store on, until ctx ends.
func (s *Store) passOn(ctx context.Context, to *driver.Interest, out chan driver.Record) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	store, err := s.current(ctx)
	notifier, ok := store.(driver.Notifier)
	if err != nil || !ok {
		return
	}

	from := notifier.Subscribe(ctx, to)
	driver.Notify(out, driver.Record{})
	for {
		select {
		case l := <-from:
			driver.Notify(out, l)
		case <-ctx.Done():
			return
		}
	}
}

// Gone implements [driver.Witness].
func (s *Store) Gone(ctx context.Context, l driver.Record) bool {
	store, err := s.current(ctx)
	witness, ok := store.(driver.Witness)
	return err == nil && ok && witness.Gone(ctx, l)
}

// Requests returns how many requests of each kind the store has sent, as far as it counts them.
func (s *Store) Requests() map[string]uint64 {
	s.mu.Lock()
	store := s.store
	s.mu.Unlock()
	if counter, ok := store.(driver.Counter); ok {
		return counter.Requests()
	}
	return nil
}

// Close implements [driver.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	store := s.store
	if store == nil && !s.closed {
		close(s.ready) // who waits for it to open waits no longer
	}
	s.closed = true
	s.mu.Unlock()

	if store == nil {
		return nil
	}
	return store.Close()
}
