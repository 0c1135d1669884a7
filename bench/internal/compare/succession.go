package compare

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// succession is a series of leaders of one kind, each after the other.
type succession struct {
	kind   processKind
	dir    string
	count  int
	leader *node

	most    time.Duration // how long a waiter may take to lead
	unwoken int           // how many waiters did not lead although nobody else did
}

func newSuccession(b processKind, dir string) (*succession, error) {
	g := &succession{kind: b, dir: dir, most: waitLimit}
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

func (g *succession) start() (*node, error) {
	g.count++
	// Names are used again, as those of hosts are. Else the store would keep a register for each process.
	cmd := g.kind.command(fmt.Sprintf("node-%d", g.count%4))
	cmd.Dir = g.dir
	return startNode(cmd)
}

// succeed sends a signal to the leader while a standby waits, and returns how long it took until the standby led.
func (g *succession) succeed(ctx context.Context, sig syscall.Signal) (time.Duration, error) {
	next, err := g.start()
	if err != nil {
		return 0, err
	}

	fail := func(err error) (time.Duration, error) { return 0, errors.Join(err, next.stop()) }
	if _, err := next.await(g.kind.waits); err != nil {
		return fail(err)
	}

	// At a random time since the last renewal, and between two polls. By then the reaper of the leader, if any, is
	// ready.
	most := 300 * time.Millisecond

	if g.kind.byLease && sig == syscall.SIGKILL {
		most += g.kind.ttl / 3
	}
	if err := pause(ctx, 50*time.Millisecond, most); err != nil {
		return fail(err)
	}

	began := time.Now()
	if err := g.leader.cmd.Process.Signal(sig); err != nil {
		return fail(err)
	}

	led, err := next.awaitIn(g.most, g.kind.leads)
	if err != nil {
		if again := g.replace(next, err); again != nil {
			return 0, again
		}
		return g.succeed(ctx, sig)
	}

	err = g.leader.gone()
	g.leader = next

	if err == nil && led.at.Before(began) { // the lease had expired before the signal: another round
		return g.succeed(ctx, sig)
	}

	return led.at.Sub(began), err
}

// replace starts a leader in place of a waiter that did not lead, so that the round can be repeated. A waiter of a peer
// may miss the change that it waits for, and then waits for ever. One of Regent may not: replace returns err.
func (g *succession) replace(waiter *node, err error) error {
	g.unwoken++
	if !g.kind.byLease || g.unwoken > maxUnwoken {
		return errors.Join(err, waiter.stop())
	}
	if err := errors.Join(waiter.stop(), g.leader.gone()); err != nil {
		return err
	}

	fresh, err := g.start()
	if err != nil {
		return err
	}
	if _, err := fresh.await(g.kind.leads); err != nil {
		return errors.Join(err, fresh.stop())
	}

	g.leader = fresh
	return nil
}

func (g *succession) close() { _ = g.leader.stop() }

// maxUnwoken is how many waiters of a peer may miss that the lock is free.
const maxUnwoken = 3
