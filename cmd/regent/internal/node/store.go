package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/regentd/regent"
)

// Store is a store that is opened in the background, and again until that succeeds: a node whose store is not there yet says so, and waits.
// It also remembers when the store last answered, which is what readiness goes by.
type Store struct {
	open func(context.Context) (regent.Store, error)
	now  func() time.Time

	mu       sync.Mutex
	store    regent.Store
	closed   bool
	opening  error // why it is not open
	answered time.Time
	failed   error // the last failure, until the next answer
	ready    chan struct{}
	begun    chan struct{} // closed when it may be contacted
	begin    sync.Once
}

var (
	_ regent.Store     = (*Store)(nil)
	_ regent.Waker     = (*Store)(nil)
	_ regent.Batcher   = (*Store)(nil)
	_ regent.Refresher = (*Store)(nil)
	_ regent.Witness   = (*Store)(nil)
)

// errNotOpen says that the store has not been reached yet.
var errNotOpen = errors.New("store is not open yet")

// openAgain is the wait between two tries to open the store.
const openAgain = time.Second

// NewStore returns a store that open opens. Run must run for that, and Begin have been called.
func NewStore(open func(context.Context) (regent.Store, error)) *Store {
	return &Store{open: open, now: time.Now, opening: errNotOpen, ready: make(chan struct{}), begun: make(chan struct{})}
}

// Begin lets Run contact the store: the start-up jitter has passed. Before that nothing does, whoever asks.
func (s *Store) Begin() { s.begin.Do(func() { close(s.begun) }) }

// Run opens the store once it may be contacted, tells failed of each try that fails, and returns when it is open or ctx has
// ended.
func (s *Store) Run(ctx context.Context, failed func(error)) {
	select {
	case <-s.begun:
	case <-ctx.Done():
		return
	}
	for {
		store, err := s.open(ctx)
		s.mu.Lock()
		switch {
		case err != nil:
			s.opening, s.failed = err, err
		case s.closed:
			s.mu.Unlock()
			_ = store.Close()
			return
		default:
			s.store, s.opening, s.failed, s.answered = store, nil, nil, s.now()
			close(s.ready)
		}
		s.mu.Unlock()
		if err == nil || ctx.Err() != nil {
			return
		}
		failed(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(openAgain):
		}
	}
}

// Seen returns when the store last answered, and how it has failed since; a zero time if it never did.
func (s *Store) Seen() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered, s.failed
}

// current returns the open store. It waits for it, as long as ctx lets it.
func (s *Store) current(ctx context.Context) (regent.Store, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, regent.ErrClosed
	case s.store == nil:
		return nil, fmt.Errorf("%w: %w", errNotOpen, s.opening)
	}
	return s.store, nil
}

// note takes in the outcome of a request. A conflict and a register that is not there are answers.
func (s *Store) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || errors.Is(err, regent.ErrConflict) || errors.Is(err, regent.ErrNotFound) {
		s.answered, s.failed = s.now(), nil
	} else if !errors.Is(err, context.Canceled) {
		s.failed = err
	}
	return err
}

// Get implements [regent.Store].
func (s *Store) Get(ctx context.Context, name string) (regent.Lease, error) {
	store, err := s.current(ctx)
	if err != nil {
		return regent.Lease{}, err
	}
	l, err := store.Get(ctx, name)
	return l, s.note(err)
}

// Swap implements [regent.Store].
func (s *Store) Swap(ctx context.Context, l regent.Lease) (regent.Lease, error) {
	store, err := s.current(ctx)
	if err != nil {
		return regent.Lease{}, err
	}
	l, err = store.Swap(ctx, l)
	return l, s.note(err)
}

// List implements [regent.Store].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[regent.Lease, error] {
	return func(yield func(regent.Lease, error) bool) {
		store, err := s.current(ctx)
		if err != nil {
			yield(regent.Lease{}, err)
			return
		}
		for l, err := range store.List(ctx, prefix) {
			if !yield(l, s.note(err)) {
				return
			}
		}
	}
}

// SwapAll implements [regent.Batcher], one by one where the store itself does not.
func (s *Store) SwapAll(ctx context.Context, ls []regent.Lease) []regent.Outcome {
	store, err := s.current(ctx)
	if batcher, ok := store.(regent.Batcher); ok && err == nil {
		out := batcher.SwapAll(ctx, ls)
		for _, o := range out {
			_ = s.note(o.Err)
		}
		return out
	}
	out := make([]regent.Outcome, len(ls))
	for i, l := range ls {
		out[i].Lease, out[i].Err = s.Swap(ctx, l)
	}
	return out
}

// Refresh implements [regent.Refresher], one by one where the store itself does not.
func (s *Store) Refresh(ctx context.Context, known []regent.Lease) []regent.Outcome {
	store, err := s.current(ctx)
	if refresher, ok := store.(regent.Refresher); ok && err == nil {
		out := refresher.Refresh(ctx, known)
		for _, o := range out {
			_ = s.note(o.Err)
		}
		return out
	}
	out := make([]regent.Outcome, len(known))
	for i, l := range known {
		out[i].Lease, out[i].Err = s.Get(ctx, l.Name)
	}
	return out
}

// Wake implements [regent.Waker]. It hints once when the store is open, and then whenever the store does.
func (s *Store) Wake(ctx context.Context, prefix string) <-chan regent.Lease {
	hints := make(chan regent.Lease, 1)
	go func() {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return
		}
		store, err := s.current(ctx)
		waker, ok := store.(regent.Waker)
		if err != nil || !ok {
			return
		}
		from := waker.Wake(ctx, prefix)
		regent.Hint(hints, regent.Lease{})
		for {
			select {
			case l := <-from:
				regent.Hint(hints, l)
			case <-ctx.Done():
				return
			}
		}
	}()
	return hints
}

// Gone implements [regent.Witness].
func (s *Store) Gone(ctx context.Context, l regent.Lease) bool {
	store, err := s.current(ctx)
	witness, ok := store.(regent.Witness)
	return err == nil && ok && witness.Gone(ctx, l)
}

// Close implements [regent.Store].
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
