package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// fullStore is a store with every optional interface except Witness.
type fullStore interface {
	driver.Store
	driver.Notifier
	driver.Batcher
	driver.Refresher
	driver.Remover
}

// brokenStore is a client of a correct store in which some calls were replaced.
type brokenStore struct {
	fullStore
	get       func(ctx context.Context, name string) (driver.Record, error)
	swap      func(ctx context.Context, l driver.Record) (driver.Record, error)
	list      func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error]
	swapAll   func(ctx context.Context, ls []driver.Record) []driver.Outcome
	refresh   func(ctx context.Context, known []driver.Record) []driver.Outcome
	remove    func(ctx context.Context, l driver.Record) error
	subscribe func(ctx context.Context, to *driver.Interest) <-chan driver.Record
	close     func() error
	gone      bool
}

func (t *brokenStore) Get(ctx context.Context, name string) (driver.Record, error) {
	return t.get(ctx, name)
}
func (t *brokenStore) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	return t.swap(ctx, l)
}
func (t *brokenStore) SwapAll(ctx context.Context, l []driver.Record) []driver.Outcome {
	return t.swapAll(ctx, l)
}
func (t *brokenStore) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	return t.refresh(ctx, known)
}
func (t *brokenStore) Remove(ctx context.Context, l driver.Record) error { return t.remove(ctx, l) }
func (t *brokenStore) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return t.subscribe(ctx, to)
}
func (t *brokenStore) Close() error                             { return t.close() }
func (t *brokenStore) Gone(context.Context, driver.Record) bool { return t.gone }
func (t *brokenStore) List(ctx context.Context, p string) iter.Seq2[driver.Record, error] {
	return t.list(ctx, p)
}

// breakStore opens clients of a correct store that were all broken in the same way.
func breakStore(how func(t *brokenStore)) Open {
	s := memstore.New()
	return func() (driver.Store, error) {
		c := s.Client("", memstore.Faults{})
		t := &brokenStore{
			fullStore: c, get: c.Get, swap: c.Swap, list: c.List, swapAll: c.SwapAll, refresh: c.Refresh,
			remove: c.Remove, subscribe: c.Subscribe, close: c.Close,
		}
		how(t)
		return t, nil
	}
}

// plainStore is a small store without notifications and batches, with any kind of revisions.
type plainStore struct {
	mu   sync.Mutex
	regs map[string]driver.Record
}

type plainClient struct {
	*plainStore
	rev    func(l driver.Record) string
	closed atomic.Bool
}

// openPlain opens clients of a plainStore. revs is called for every client.
func openPlain(revs func() func(driver.Record) string) Open {
	p := &plainStore{regs: map[string]driver.Record{}}
	return func() (driver.Store, error) { return &plainClient{plainStore: p, rev: revs()}, nil }
}

// counter returns revisions that are numbers.
func counter() func(driver.Record) string {
	var n int
	return func(driver.Record) string { n++; return fmt.Sprint(n) }
}

func (c *plainClient) ended(ctx context.Context) error {
	if c.closed.Load() {
		return driver.ErrClosed
	}
	return ctx.Err()
}

func (c *plainClient) Get(ctx context.Context, name string) (driver.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.ended(ctx); err != nil {
		return driver.Record{}, err
	}

	l, ok := c.regs[name]
	if !ok {
		return driver.Record{}, driver.ErrNotFound
	}
	return l, nil
}

func (c *plainClient) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if err := c.ended(ctx); err != nil {
		return driver.Record{}, err
	}

	if c.regs[l.Name].Rev != l.Rev {
		return driver.Record{}, driver.ErrConflict
	}

	l.Rev = c.rev(l)
	c.regs[l.Name] = l
	return l, nil
}

func (c *plainClient) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		c.mu.Lock()
		err := c.ended(ctx)
		var ls []driver.Record
		for name, l := range c.regs {
			if err == nil && strings.HasPrefix(name, prefix) {
				ls = append(ls, l)
			}
		}
		c.mu.Unlock()

		for _, l := range ls {
			if !yield(l, nil) {
				return
			}
		}

		if err != nil {
			yield(driver.Record{}, err)
		}
	}
}

func (c *plainClient) Close() error {
	c.closed.Store(true)
	return nil
}

// expiry makes a store that expires records by itself. The fields are its faults.
type expiry struct {
	edits  bool // edits keep a record alive
	via    bool // records with Via expire too
	epoch  bool // the epoch is lost
	delete bool // the record is lost
	unseen bool // a refresh ignores the time

	mu      sync.Mutex
	written map[string]write
}

type write struct {
	nonce uint64
	at    time.Time
}

// lapse makes a register vacant if it has expired.
func (e *expiry) lapse(c fullStore, name string) (gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	l, err := c.Get(context.Background(), name)
	if err != nil || l.Vacant() || l.Via != "" && !e.via || time.Since(e.written[name].at) < l.Duration {
		return false
	}

	if e.delete {
		return true
	}

	vacant := driver.Record{Name: name, Rev: l.Rev, Epoch: l.Epoch, Nonce: l.Nonce, Past: l.Past}
	if e.epoch {
		vacant.Epoch = 0
	}

	c.Swap(context.Background(), vacant)
	return false
}

func (e *expiry) open() Open {
	e.written = map[string]write{}
	return breakStore(func(t *brokenStore) {
		t.get = func(ctx context.Context, name string) (driver.Record, error) {
			if e.lapse(t.fullStore, name) {
				return driver.Record{}, driver.ErrNotFound
			}
			return t.fullStore.Get(ctx, name)
		}

		t.swap = func(ctx context.Context, l driver.Record) (driver.Record, error) {
			if e.lapse(t.fullStore, l.Name) {
				return driver.Record{}, driver.ErrConflict
			}

			e.mu.Lock()
			defer e.mu.Unlock()

			got, err := t.fullStore.Swap(ctx, l)
			if err == nil && (e.edits || l.Nonce != e.written[l.Name].nonce || l.Rev == "") {
				e.written[l.Name] = write{l.Nonce, time.Now()}
			}
			return got, err
		}

		t.swapAll = func(ctx context.Context, ls []driver.Record) []driver.Outcome {
			outs := make([]driver.Outcome, len(ls))
			for i, l := range ls {
				outs[i].Record, outs[i].Err = t.swap(ctx, l)
			}
			return outs
		}

		t.refresh = func(ctx context.Context, known []driver.Record) []driver.Outcome {
			for _, l := range known {
				if !e.unseen {
					e.lapse(t.fullStore, l.Name)
				}
			}
			return t.fullStore.Refresh(ctx, known)
		}

		t.list = func(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
			for l := range t.fullStore.List(context.Background(), prefix) {
				e.lapse(t.fullStore, l.Name)
			}
			return t.fullStore.List(ctx, prefix)
		}
	})
}

var errBroken = errors.New("broken")
