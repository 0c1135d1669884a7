package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// lineage is one leader after another.
type lineage struct {
	breed  breed
	dir    string
	count  int
	leader *node

	most    time.Duration // how long a waiter may take to lead
	unwoken int           // waiters that did not lead although nobody else did
}

func newLineage(b breed, dir string) (*lineage, error) {
	g := &lineage{breed: b, dir: dir, most: patience}
	n, err := g.start()
	if err != nil {
		return nil, err
	}
	if _, err := n.await(b.leads); err != nil {
		return nil, errors.Join(err, n.stop())
	}
	g.leader = n
	return g, nil
}

func (g *lineage) start() (*node, error) {
	g.count++
	// Names come again, as those of hosts do, or the store would keep a register of each.
	cmd := g.breed.command(fmt.Sprintf("node-%d", g.count%4))
	cmd.Dir = g.dir
	return startNode(cmd)
}

// succeed sends a signal to the leader while a standby waits, and returns how long it took until that says that it leads.
func (g *lineage) succeed(ctx context.Context, sig syscall.Signal) (time.Duration, error) {
	next, err := g.start()
	if err != nil {
		return 0, err
	}
	fail := func(err error) (time.Duration, error) { return 0, errors.Join(err, next.stop()) }
	if _, err := next.await(g.breed.waits); err != nil {
		return fail(err)
	}
	// At any time since the last renewal, and between two polls of those that poll. By then the leader's reaper, if it has one, is ready.
	most := 300 * time.Millisecond
	if g.breed.byLease && sig == syscall.SIGKILL {
		most += g.breed.ttl / 3
	}
	if err := pause(ctx, 50*time.Millisecond, most); err != nil {
		return fail(err)
	}
	began := time.Now()
	if err := g.leader.cmd.Process.Signal(sig); err != nil {
		return fail(err)
	}
	led, err := next.awaitIn(g.most, g.breed.leads)
	if err != nil {
		if again := g.replace(next, err); again != nil {
			return 0, again
		}
		return g.succeed(ctx, sig)
	}
	err = g.leader.gone()
	g.leader = next
	if err == nil && led.at.Before(began) { // its lease had run out before it was told anything: another round
		return g.succeed(ctx, sig)
	}
	return led.at.Sub(began), err
}

// replace has a new process lead in place of a waiter that did not, so that the round can be repeated. A peer's waiter may
// miss the change that it waits for, and then waits for ever. Regent's may not: err is returned.
func (g *lineage) replace(waiter *node, err error) error {
	g.unwoken++
	if !g.breed.byLease || g.unwoken > maxUnwoken {
		return errors.Join(err, waiter.stop())
	}
	if err := errors.Join(waiter.stop(), g.leader.gone()); err != nil {
		return err
	}

	fresh, err := g.start()
	if err != nil {
		return err
	}
	if _, err := fresh.await(g.breed.leads); err != nil {
		return errors.Join(err, fresh.stop())
	}
	g.leader = fresh
	return nil
}

func (g *lineage) close() { _ = g.leader.stop() }

// maxUnwoken is how many waiters of a peer may miss that the lock is free.
const maxUnwoken = 3
