package redis

import (
	"context"
	"errors"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is about the nodes of a cluster that come and go. The subscription is with one of them,
// and so says nothing about the others: a node that fails over may forget a claim, and nothing that
// is published tells of it.

const (
	// nodeRetry is how often a node that was lost, or its successor, is asked for.
	nodeRetry = 250 * time.Millisecond
	// nodeNames is how many registers are asked for. They are spread over the nodes by their names.
	nodeNames = 256
)

// nodeLost waits in the background until all nodes of the cluster answer, and then hints everybody.
func (s *Store) nodeLost() {
	s.push.mu.Lock()
	defer s.push.mu.Unlock()
	if !s.push.subs.Empty() && !s.absent.Swap(true) {
		s.work.Go(s.awaitNodes)
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
		s.absent.Store(false) // what is lost from here on is waited for anew
		if s.nodesAnswer() {
			s.push.fireAll()
			return
		}
		if s.absent.Swap(true) {
			return // somebody else waits
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
