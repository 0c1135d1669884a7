package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// Store is a store that is opened in the background, and again until that succeeds: a node whose store is not there yet says so, and waits.
// It also remembers what became of reads and of writes, which is what readiness goes by.
type Store struct {
	Log *slog.Logger // gets the first failure of reads and of writes, and when they work again; may be nil

	open func(context.Context) (driver.Store, error)
	now  func() time.Time

	mu      sync.Mutex
	store   driver.Store
	closed  bool
	opening error // why it is not open
	reads   access
	writes  access
	ready   chan struct{}
	begun   chan struct{} // closed when it may be contacted
	begin   sync.Once
}

var (
	_ driver.Store     = (*Store)(nil)
	_ driver.Waker     = (*Store)(nil)
	_ driver.Batcher   = (*Store)(nil)
	_ driver.Refresher = (*Store)(nil)
	_ driver.Witness   = (*Store)(nil)
	_ driver.Counter   = (*Store)(nil)
)

// errNotOpen says that the store has not been reached yet.
var errNotOpen = errors.New("store is not open yet")

// openAgain is the wait between two tries to open the store.
const openAgain = time.Second

// NewStore returns a store that open opens. Run must run for that, and Begin have been called.
func NewStore(open func(context.Context) (driver.Store, error)) *Store {
	return &Store{open: open, now: time.Now, opening: errNotOpen, ready: make(chan struct{}), begun: make(chan struct{})}
}

// Begin lets Run contact the store: the start-up jitter has passed. Before that nothing does, whoever asks.
func (s *Store) Begin() { s.begin.Do(func() { close(s.begun) }) }

// Run opens the store once it may be contacted, tells failed of each try that fails, and returns when it is open or ctx has
// ended. It gives up with an error that is a [driver.ErrRefused]: to try again is of no use then.
func (s *Store) Run(ctx context.Context, failed func(error)) error {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return nil
	}

	for {
		store, err := s.open(ctx)
		s.mu.Lock()
		switch {
		case err != nil:
			s.opening = err
			s.reads.fail(s.now(), err)
		case s.closed:
			s.mu.Unlock()
			_ = store.Close()
			return nil
		default:
			s.store, s.opening = store, nil
			s.reads.succeed(s.now())
			close(s.ready)
		}
		s.mu.Unlock()
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
		case <-time.After(openAgain):
		}
	}
}

// current returns the open store. It waits for it, as long as ctx lets it.
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
	return l, s.noteRead(err)
}

// Swap implements [driver.Store].
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	store, err := s.current(ctx)
	if err != nil {
		return driver.Record{}, err
	}
	l, err = store.Swap(ctx, l)
	return l, s.noteWrite(err)
}

// List implements [driver.Store].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		store, err := s.current(ctx)
		if err != nil {
			yield(driver.Record{}, err)
			return
		}
		for l, err := range store.List(ctx, prefix) {
			if !yield(l, s.noteRead(err)) {
				return
			}
		}
	}
}

// SwapAll implements [driver.Batcher], one by one where the store itself does not.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	store, err := s.current(ctx)
	if batcher, ok := store.(driver.Batcher); ok && err == nil {
		out := batcher.SwapAll(ctx, ls)
		for _, o := range out {
			_ = s.noteWrite(o.Err)
		}
		return out
	}
	out := make([]driver.Outcome, len(ls))
	for i, l := range ls {
		out[i].Record, out[i].Err = s.Swap(ctx, l)
	}
	return out
}

// Refresh implements [driver.Refresher], one by one where the store itself does not.
func (s *Store) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	store, err := s.current(ctx)
	if refresher, ok := store.(driver.Refresher); ok && err == nil {
		out := refresher.Refresh(ctx, known)
		for _, o := range out {
			_ = s.noteRead(o.Err)
		}
		return out
	}
	out := make([]driver.Outcome, len(known))
	for i, l := range known {
		out[i].Record, out[i].Err = s.Get(ctx, l.Name)
	}
	return out
}

// Wake implements [driver.Waker]. It hints once when the store is open, and then whenever the store does.
func (s *Store) Wake(ctx context.Context, prefix string) <-chan driver.Record {
	hints := make(chan driver.Record, 1)
	go func() {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return
		}
		store, err := s.current(ctx)
		waker, ok := store.(driver.Waker)
		if err != nil || !ok {
			return
		}
		from := waker.Wake(ctx, prefix)
		driver.Hint(hints, driver.Record{})
		for {
			select {
			case l := <-from:
				driver.Hint(hints, l)
			case <-ctx.Done():
				return
			}
		}
	}()
	return hints
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
	s.closed = true
	s.mu.Unlock()
	if store == nil {
		return nil
	}
	return store.Close()
}
