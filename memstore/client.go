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
	// ErrNoAnswer is returned if no answer came: the outcome is unknown.
	ErrNoAnswer = errors.New("no answer from the store")
	// ErrOutage is returned while [Faults] has Outage: the request was not executed.
	ErrOutage = errors.New("store has an outage")
	// ErrUnreadable is returned for a register that [Store.SetUnreadable] names.
	ErrUnreadable = errors.New("register is unreadable")
)

// Client is one process's connection to a [Store]. It is a [driver.Store] with faults of its own, in addition to the
// Store's.
type Client struct {
	faultSetting
	hang
	requestCounter
	name   string
	store  *Store
	closed atomic.Bool   // set under store.mu
	done   chan struct{} // closed with the client

	mu   sync.Mutex
	seen map[seenKey]uint64 // by kind and register: requests that were sent with faults
}

type seenKey struct {
	kind Kind
	name string
}

var (
	_ driver.Store    = (*Client)(nil)
	_ driver.Notifier = (*Client)(nil)
	_ driver.Batcher  = (*Client)(nil)
)

// Client returns another connection to the store. Several clients may have one name, but then they draw the same random
// numbers if they have the same seed.
func (s *Store) Client(name string, f Faults) *Client {
	c := &Client{name: name, store: s, done: make(chan struct{})}
	c.SetFaults(f)
	return c
}

// Name returns the client's name.
func (c *Client) Name() string { return c.name }

// SetFaults replaces the client's faults, for requests and answers that are sent from now on.
func (c *Client) SetFaults(f Faults) { c.Adjust(func(g *Faults) { *g = f }) }

// Adjust changes the client's faults atomically: c.Adjust(func(f *Faults) { f.CutAnswers = true }).
func (c *Client) Adjust(change func(*Faults)) {
	if c.adjust(change).SpuriousNotice > 0 {
		c.store.spurious.Store(true)
	}
}

// SetFaults replaces the faults that every client has in addition to its own.
func (s *Store) SetFaults(f Faults) { s.Adjust(func(g *Faults) { *g = f }) }

// Adjust changes the faults that every client has in addition to its own, atomically.
func (s *Store) Adjust(change func(*Faults)) {
	if s.adjust(change).SpuriousNotice > 0 {
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
		o, err = transmit(ctx, c, Get, name, func(Faults, draws) (o driver.Outcome) {
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

// swapFaulty is a function of its own so that only its l, not that of Swap, is moved to the heap.
func (c *Client) swapFaulty(ctx context.Context, l driver.Record) (driver.Record, error) {
	o, err := transmit(ctx, c, Swap, l.Name, func(f Faults, d draws) (o driver.Outcome) {
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

// SwapAll swaps many registers in one request. Each swap in it may still be lost, late or refused on its own, as in a
// store that spreads a batch over several machines.
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

	ls = append([]driver.Record(nil), ls...) // the request may arrive after the caller has returned
	return transmit(ctx, c, SwapAll, "", func(f Faults, _ draws) []driver.Outcome {
		outs := make([]driver.Outcome, len(ls))
		for i, l := range ls {
			outs[i] = c.swapOne(l, f)
		}
		return outs
	})
}

// List yields the registers whose names begin with prefix, as they were at one moment, sorted by name. A register that
// cannot be read is yielded with its Name and an error, and the sequence goes on. An error without a Name ends it.
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

	a, err := transmit(ctx, c, List, prefix, func(Faults, draws) (a response[[]driver.Outcome]) {
		a.value, a.err = c.store.list(prefix)
		return a
	})
	if err != nil {
		return nil, err
	}

	return a.value, a.err
}

// Close closes this client only. Its calls fail with driver.ErrClosed, those that wait included, and its notifications
// end. Requests that it has sent may still arrive.
func (c *Client) Close() error {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()

	if c.closed.Swap(true) {
		return nil
	}
	close(c.done)
	c.store.forgetLocked(func(w *watcher) bool { return w.client == c })
	return nil
}
