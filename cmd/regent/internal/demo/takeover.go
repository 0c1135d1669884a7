package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// changedLocked wakes those who wait for another leader, or for none.
func (c *cluster) changedLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until a condition holds, which is called with the mutex.
func (c *cluster) await(ctx context.Context, what string, good func() bool) error {
	limit := time.NewTimer(timeout)
	defer limit.Stop()
	for {
		c.mu.Lock()
		done, changed := good(), c.changed
		failed := c.failed
		c.mu.Unlock()
		switch {
		case failed != nil:
			return failed
		case done:
			return nil
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-limit.C:
			return fmt.Errorf("waited %v for %s", timeout, what)
		}
	}
}

// takeover waits until another term has begun, and says how long that took. Nobody takes over a paused election.
func (c *cluster) takeover(ctx context.Context, before uint64, since time.Time) error {
	if c.paused(ctx) {
		c.screen.say("nobody takes over: the election is paused; resume it")
		return nil
	}
	if err := c.await(ctx, "another leader", func() bool { return c.epoch > before }); err != nil {
		return err
	}
	took := time.Since(since)

	c.mu.Lock()
	leader, epoch := c.leader, c.epoch
	c.mu.Unlock()
	c.screen.report("%s leads, epoch %d: %s later", leader, epoch, milliseconds(took))
	return nil
}

// paused reports whether the election is paused, as a node knows it that no fault ends.
func (c *cluster) paused(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pausedTimeout)
	defer cancel()
	s, err := c.at(c.nodes[3]).LocalStatus(ctx)
	return err == nil && s.Paused
}

// leading returns the process that leads, and its epoch.
func (c *cluster) leading(ctx context.Context) (p *process, epoch uint64, err error) {
	c.mu.Lock()
	nobody := c.leader == ""
	c.mu.Unlock()
	if nobody && c.paused(ctx) {
		return nil, 0, errors.New("nobody leads, and the election is paused: resume it first")
	}

	err = c.await(ctx, "a leader", func() bool {
		for _, n := range c.nodes {
			if n.name == c.leader && n.state == "leads" {
				p, epoch = n, c.epoch
				return true
			}
		}
		return false
	})
	return p, epoch, err
}
