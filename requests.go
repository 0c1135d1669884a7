package regent

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/regentd/regent/driver"
)

// This file is how an engine asks its store: each request has its own limit of time, and what it shows of epochs is remembered.

func (e *engine) get(ctx context.Context, name string) (driver.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	began := e.now()
	l, err := e.store.Get(ctx, name)
	e.heard(name, l, err, began)
	return l, err
}

func (e *engine) swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	began := e.now()
	got, err := e.store.Swap(ctx, l)
	e.heard(l.Name, got, err, e.swapped(l, err, began))
	return got, err
}

// swapped takes in what a swap tells of the record that it was to replace: if it was applied, or met another one, the
// store no longer shows that record, even if a read that was sent later has shown it. Should it come back, the store has
// gone back, and it is watched anew (rule 2). It returns from when on the answer counts: as newer than any read of that
// record.
func (e *engine) swapped(l driver.Record, err error, began moment) moment {
	if err != nil && !errors.Is(err, driver.ErrConflict) {
		return began
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.sights[l.Name]
	if h == nil || !h.seen || h.lease.Rev != l.Rev {
		return began
	}
	h.moved = e.moment().order
	if h.began.order > began.order {
		return h.began
	}
	return began
}

// heard notes that the store has answered a request about a register, which was sent at began.
func (e *engine) heard(name string, l driver.Record, err error, began moment) {
	if err != nil && !errors.Is(err, driver.ErrNotFound) && !errors.Is(err, driver.ErrConflict) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answered = e.clock.Now()
	switch {
	case err == nil:
		e.sawLocked(l, began)
	case errors.Is(err, driver.ErrNotFound):
		e.sawLocked(driver.Record{Name: name}, began)
	}
}

// sawLocked takes in a record that the store has shown, in answer to whatever request of this member. Several of its loops
// and calls read one register, and what any of them is shown counts: for the epochs of an election (rule 5), and for how
// long a heartbeat has been watched (rule 2).
func (e *engine) sawLocked(l driver.Record, began moment) {
	if s := e.seats[l.Name]; s != nil {
		e.m.learn(l.Name, l.Epoch)
		if l.Epoch > s.shown {
			s.shown = l.Epoch
			s.shownAt = e.moment().order
			s.stale = s.stale || s.seen && s.lease.Epoch < l.Epoch
		}
	}
	if h := e.sights[l.Name]; h != nil {
		h.see(l, began, e.clock.Now())
	}
}

// errShortBatch says that a store did not tell what became of a swap.
var errShortBatch = errors.New("the store gave no outcome for a swap of a batch")

// batch is how many swaps go to the store at once.
const batch = 1000

// swapAll sends swaps in batches where the store takes them, else a few at a time.
func (e *engine) swapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	out := make([]driver.Outcome, 0, len(ls))
	if e.batcher != nil && len(ls) > 1 {
		for part := range slices.Chunk(ls, batch) {
			ctx, cancel := context.WithTimeout(ctx, e.patience)
			began := e.now()
			got := e.batcher.SwapAll(ctx, part)
			cancel()
			for i, l := range part {
				o := driver.Outcome{Err: errShortBatch} // unless there is one for this very swap
				if i < len(got) && (got[i].Err != nil || got[i].Record.Name == l.Name) {
					o = got[i]
				}
				e.heard(l.Name, o.Record, o.Err, e.swapped(l, o.Err, began))
				out = append(out, o)
			}
		}
		return out
	}
	out = out[:len(ls)]
	if len(ls) == 1 {
		out[0].Record, out[0].Err = e.swap(ctx, ls[0])
		return out
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range ls {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			out[i].Err = protect(func() (err error) { out[i].Record, err = e.swap(ctx, ls[i]); return err })
		})
	}
	wg.Wait()
	return out
}

func (e *engine) gone(ctx context.Context, l driver.Record) bool {
	return e.witness != nil && !l.Vacant() && e.witness.Gone(ctx, l)
}
