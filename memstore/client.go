package memstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/regentd/regent/driver"
)

var (
	// ErrLost says that no answer came: the outcome is unknown.
	ErrLost = errors.New("no answer from the store")
	// ErrOutage says that the store is out of order.
	ErrOutage = errors.New("store is out of order")
	// ErrUnreadable says that a register does not hold a record.
	ErrUnreadable = errors.New("register is unreadable")
)

// Client is one process's connection to a Store. It is a store like any other, with faults of its
// own on top of the Store's.
type Client struct {
	dial
	hang
	tally
	name   string
	store  *Store
	closed atomic.Bool   // set under store.mu
	done   chan struct{} // closed with the client

	mu   sync.Mutex
	seen map[seenKey]uint64 // requests that met faults, by kind and register
}

type seenKey struct {
	kind Kind
	name string
}

var (
	_ driver.Store   = (*Client)(nil)
	_ driver.Waker   = (*Client)(nil)
	_ driver.Batcher = (*Client)(nil)
)

// Client returns another connection to the store. Names need not differ, but clients of one name
// and seed draw alike.
func (s *Store) Client(name string, f Faults) *Client {
	c := &Client{name: name, store: s, done: make(chan struct{})}
	c.SetFaults(f)
	return c
}

// Name returns the client's name.
func (c *Client) Name() string { return c.name }

// SetFaults replaces the client's faults, for requests and answers that set out from now on.
func (c *Client) SetFaults(f Faults) { c.Adjust(func(g *Faults) { *g = f }) }

// Adjust changes the client's faults, as one step: c.Adjust(func(f *Faults) { f.CutAnswers = true
// }).
func (c *Client) Adjust(change func(*Faults)) {
	if c.adjust(change).SpuriousHint > 0 {
		c.store.spurious.Store(true)
	}
}

// SetFaults replaces the faults that every client has on top of its own.
func (s *Store) SetFaults(f Faults) { s.Adjust(func(g *Faults) { *g = f }) }

// Adjust changes the faults that every client has on top of its own, as one step.
func (s *Store) Adjust(change func(*Faults)) {
	if s.adjust(change).SpuriousHint > 0 {
		s.spurious.Store(true)
	}
}

// Get returns the record, or driver.ErrNotFound.
func (c *Client) Get(ctx context.Context, name string) (driver.Record, error) {
	err := c.send(ctx, Get, name)
	var l driver.Record
	switch {
	case err != nil:
	case c.perfect():
		l, err = c.store.get(name)
	default:
		var o driver.Outcome
		o, err = carry(ctx, c, Get, name, func(Faults, dice) (o driver.Outcome) {
			o.Record, o.Err = c.store.get(name)
			return o
		})
		if err == nil {
			l, err = o.Record, o.Err
		}
	}
	if err != nil {
		return driver.Record{}, fmt.Errorf("get %q: %w", name, err)
	}
	return l, nil
}

// Swap writes l if the register's revision is still l.Rev.
func (c *Client) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	name := l.Name
	err := c.send(ctx, Swap, name)
	switch {
	case err != nil:
	case c.perfect():
		l, err = c.store.swap(l, c.name)
	default:
		l, err = c.swapFaulty(ctx, l)
	}
	if err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", name, err)
	}
	return l, nil
}

// swapFaulty is apart from Swap so that the closure puts its l, and not Swap's, on the heap.
func (c *Client) swapFaulty(ctx context.Context, l driver.Record) (driver.Record, error) {
	o, err := carry(ctx, c, Swap, l.Name, func(f Faults, d dice) (o driver.Outcome) {
		if d.clash < f.Conflict {
			o.Err = driver.ErrConflict
		} else {
			o.Record, o.Err = c.store.swap(l, c.name)
		}
		return o
	})
	if err != nil {
		return driver.Record{}, err
	}
	return o.Record, o.Err
}

// SwapAll swaps many registers in one request. The request travels as one, and each swap in it may
// still be lost, late or refused on its own, as by a store that spreads a batch over several
// machines.
func (c *Client) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	outs, err := c.swapAll(ctx, ls)
	if err != nil {
		outs = make([]driver.Outcome, len(ls))
	}
	for i := range outs {
		if outs[i].Err == nil {
			outs[i].Err = err
		}
		if outs[i].Err != nil {
			outs[i] = driver.Outcome{Err: fmt.Errorf("swap %q: %w", ls[i].Name, outs[i].Err)}
		}
	}
	return outs
}

func (c *Client) swapAll(ctx context.Context, ls []driver.Record) ([]driver.Outcome, error) {
	if len(ls) == 0 {
		return nil, nil
	}
	if err := c.send(ctx, SwapAll, ""); err != nil {
		return nil, err
	}
	if c.perfect() {
		outs := make([]driver.Outcome, len(ls))
		for i, l := range ls {
			outs[i].Record, outs[i].Err = c.store.swap(l, c.name)
		}
		return outs, nil
	}
	ls = append([]driver.Record(nil), ls...) // the request may arrive when the caller has its slice back
	return carry(ctx, c, SwapAll, "", func(f Faults, _ dice) []driver.Outcome {
		outs := make([]driver.Outcome, len(ls))
		for i, l := range ls {
			outs[i] = c.swapOne(l, f)
		}
		return outs
	})
}

// List yields the registers whose names begin with prefix, as they were at one moment, by name. One
// that cannot be read is yielded with its Name and an error, and the sequence goes on. An error
// without a Name ends it.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		found, err := c.list(ctx, prefix)
		for _, o := range found {
			if err = ctx.Err(); err != nil {
				break
			}
			if o.Err != nil {
				o.Err = fmt.Errorf("list %q: %q: %w", prefix, o.Record.Name, o.Err)
			}
			if !yield(o.Record, o.Err) {
				return
			}
		}
		if err != nil {
			yield(driver.Record{}, fmt.Errorf("list %q: %w", prefix, err))
		}
	}
}

func (c *Client) list(ctx context.Context, prefix string) ([]driver.Outcome, error) {
	if err := c.send(ctx, List, prefix); err != nil {
		return nil, err
	}
	if c.perfect() {
		return c.store.list(prefix)
	}
	a, err := carry(ctx, c, List, prefix, func(Faults, dice) (a answer[[]driver.Outcome]) {
		a.value, a.err = c.store.list(prefix)
		return a
	})
	if err != nil {
		return nil, err
	}
	return a.value, a.err
}

// Close closes this client alone: its calls fail with driver.ErrClosed, those that wait included,
// and its hints end. What it has sent may still arrive.
func (c *Client) Close() error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if c.closed.Swap(true) {
		return nil
	}
	close(c.done)
	c.store.forget(func(w *watcher) bool { return w.client == c })
	return nil
}
