package reaper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// margin is how long a release is still retried after the lease must have expired.
	margin = 5 * time.Second
	// releasesAtOnce is how many registers are released concurrently.
	releasesAtOnce = 32
)

// release kills what the dead process has left running, and then releases what it held. In the other order two
// processes could work at once.
func (c *companion) release(ctx context.Context) error {
	if c.idle() {
		return nil
	}

	began := time.Now()
	defer c.link.close()

	limit := boottime() + margin
	for _, l := range c.lines {
		limit = max(limit, l.KillAt+margin)
	}

	ctx, cancel := context.WithTimeout(ctx, limit-boottime())
	defer cancel()

	if err := c.killTrees(ctx); err != nil {
		c.log.Error("what the process had started does not die: nothing is released, the lease has to expire", "error",
			err)
		return err
	}

	killed := time.Since(began)

	if err := c.releaseAll(ctx); err != nil {
		c.log.Error("process is gone, but what it held could not be released", "error", err)
		return err
	}

	c.log.Info("process is gone: released what it held",
		"registers", len(c.lines), "trees", len(c.trees), "killed", killed, "took", time.Since(began))
	return nil
}

// killTrees kills every process tree, and returns when the kernel shows that none of it lives.
func (c *companion) killTrees(ctx context.Context) error {
	all := slices.Collect(maps.Values(c.trees))
	if c.adopted != nil {
		all = append(all, *c.adopted)
	}

	errs := make(chan error, len(all))
	for _, t := range all {
		go func() {
			err := t.Kill(ctx)
			if err == nil {
				t.Remove()
			}
			errs <- err
		}()
	}

	var failed []error
	for range all {
		failed = append(failed, <-errs)
	}

	return errors.Join(failed...)
}

// releaseAll releases every register that the process held.
func (c *companion) releaseAll(ctx context.Context) error {
	var wg sync.WaitGroup
	permits := make(chan struct{}, releasesAtOnce)
	errs := make(chan error, len(c.lines))
	for _, l := range c.lines {
		l.killed = c.killed
		permits <- struct{}{}
		wg.Go(func() {
			defer func() { <-permits }()
			errs <- c.link.release(ctx, l)
		})
	}

	wg.Wait()
	close(errs)

	var all []error
	for err := range errs {
		all = append(all, err)
	}

	return errors.Join(all...)
}
