package elections

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// minInterval is the time from the end of one list to the next, at least.
	minInterval = time.Second

	// maxInterval is the same at most, if lists take long.
	maxInterval = 10 * time.Second

	// busyFactor is how many times as long as a list takes the store has rest from it.
	busyFactor = 9

	// listTimeout is how long a list may take.
	listTimeout = 10 * time.Second
)

// Shared lists elections for many at once: all who ask within a second get the same list. It is safe for concurrent
// use.
type Shared struct {
	lister   *Lister
	stopping <-chan struct{}

	mu    sync.Mutex
	list  *List
	err   error
	until time.Time     // when the result is too old
	runs  bool          // a list is being made
	ended chan struct{} // closed when the last list has ended
}

// NewShared returns a Shared. Lists end when stopping is closed.
func NewShared(l *Lister, stopping <-chan struct{}) *Shared {
	return &Shared{lister: l, stopping: stopping}
}

// List returns a list that began at most a few seconds ago: the last one, or the one that is made now.
func (s *Shared) List(ctx context.Context) (*List, error) {
	select {
	case <-s.fresh():
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list, s.err
}

// fresh returns a channel that is closed when there is a result that is not too old. It begins a list if it must.
func (s *Shared) fresh() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.runs && !time.Now().Before(s.until) {
		s.runs = true
		s.ended = make(chan struct{})
		go s.run()
	}

	return s.ended
}

// run makes one list.
func (s *Shared) run() {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()

	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()

	began := time.Now()
	list, err := s.try(ctx)
	took := time.Since(began)
	rest := min(max(minInterval, busyFactor*took), maxInterval)
	switch {
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		err = fmt.Errorf("the store has not listed its registers within %v: %w", listTimeout, err)
	case err != nil: // how long a failure took says nothing about the load, and it must not outlive its cause
		rest = minInterval
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = list
	s.err = err
	s.until = time.Now().Add(rest)
	s.runs = false
	close(s.ended)
}

// try makes a list. A driver that panics is an error: the node goes on.
func (s *Shared) try(ctx context.Context) (list *List, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the driver of the store panicked: %v", p)
		}
	}()

	return s.lister.List(ctx)
}
