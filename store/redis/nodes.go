package redis

import (
	"context"
	"errors"
	"time"

	"github.com/regentd/regent/driver"
)

// This file handles lost nodes of a cluster. A node that fails over may lose a claim without any notification.

const (
	// nodeRetry is how often a lost node, or its successor, is tried.
	nodeRetry = 250 * time.Millisecond
	// nodeNames is how many registers are read for that. Their names spread them over the nodes.
	nodeNames = 256
)

// nodeLost waits in the background until all nodes of the cluster answer, and then notifies all subscribers.
func (s *Store) nodeLost() {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	if !s.notifier.topics.Empty() && !s.awaitingNodes.Swap(true) {
		s.goroutines.Go(s.awaitNodes)
	}
}

func (s *Store) awaitNodes() {
	tick := time.NewTicker(nodeRetry)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}

		s.awaitingNodes.Store(false) // a node that is lost from here on is awaited again
		if s.nodesAnswer() {
			s.notifier.notifyAll()
			return
		}

		if s.awaitingNodes.Swap(true) {
			return // another goroutine waits
		}
	}
}

// nodesAnswer reports whether registers that were written through this Store can be read.
func (s *Store) nodesAnswer() bool {
	var names []string
	s.mu.Lock()
	for name := range s.indexed { // in random order
		names = append(names, name)
		if len(names) == nodeNames {
			break
		}
	}
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(s.ctx, dialTimeout)
	defer cancel()

	for _, o := range s.readEach(ctx, named(names)) {
		if o.Err != nil && !errors.Is(o.Err, driver.ErrNotFound) && !errors.Is(o.Err, errUnreadable) {
			return false
		}
	}

	return true
}
