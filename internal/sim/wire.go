package sim

import (
	"context"
	"iter"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
)

// wire is a process's store: a client of the store in memory that writes down what passes, stands still while the process is frozen,
// and springs the traps that are set for it.
type wire struct {
	p      *process
	client *memstore.Client
	direct *memstore.Client // of the same name, without faults: how a held request gets there in the end
}

// pushed is a wire whose store has a push and takes batches.
type pushed struct{ *wire }

// witnessed is a wire whose store can tell, since it runs on the same host, that a process has died.
type witnessed struct{ pushed }

func (w witnessed) Gone(_ context.Context, l regent.Lease) bool {
	i := w.p.rec.owner(l.Holder.Incarnation, -1)
	return i >= 0 && w.p.sim.process(i).dead.Load()
}

// begin notes a request at the moment when its sender decides on it, and lets it go when the process is not frozen.
func (w *wire) begin(ctx context.Context, what string, swaps ...regent.Lease) (began time.Duration, op Op) {
	if ctx.Value(asAdmin{}) == nil && w.p.asked.CompareAndSwap(false, true) {
		w.p.rec.add(w.p, Event{Kind: Request})
	}
	began = w.p.clock.Now()
	for _, l := range swaps {
		op = w.p.rec.sending(w.p, l)
	}
	w.p.clock.thaw(what)
	return began, op
}

func (w *wire) Get(ctx context.Context, name string) (regent.Lease, error) {
	began, _ := w.begin(ctx, "get"+name)
	var got regent.Lease
	var err error
	if t := w.p.trap(trapRead, name); t != nil {
		w.p.spring(t)
		if err = sleep(ctx, t.request); err == nil {
			got, err = w.client.Get(ctx, name)
		}
		if err == nil {
			err = sleep(ctx, t.answer)
		}
	} else {
		got, err = w.client.Get(ctx, name)
	}
	w.p.clock.thaw("got" + name)
	if err != nil {
		return regent.Lease{}, err
	}
	w.p.rec.answered(w.p, got, began)
	return got, nil
}

func (w *wire) Swap(ctx context.Context, l regent.Lease) (regent.Lease, error) {
	began, op := w.begin(ctx, "swap"+l.Name, l)
	if w.p.dead.Load() {
		return regent.Lease{}, regent.ErrClosed
	}
	var got regent.Lease
	var err error
	if t := w.p.trap(op, l.Name); t != nil {
		w.p.spring(t)
		got, err = w.trapped(ctx, l, t)
	} else {
		got, err = w.client.Swap(ctx, l)
	}
	w.p.clock.thaw("swapped" + l.Name)
	if err != nil {
		return regent.Lease{}, err
	}
	w.p.rec.answered(w.p, got, began)
	return got, nil
}

// trapped sends a swap that one thing in particular happens to.
func (w *wire) trapped(ctx context.Context, l regent.Lease, t *trap) (regent.Lease, error) {
	if t.lose {
		return regent.Lease{}, silence(ctx, t.timeout)
	}
	if t.late > 0 { // it gets there, but long after its sender has given up
		time.AfterFunc(t.late, func() { w.direct.Swap(context.Background(), l) })
		return regent.Lease{}, silence(ctx, t.timeout)
	}
	sent := time.Now()
	if err := sleep(ctx, t.request); err != nil {
		time.AfterFunc(t.request-time.Since(sent), func() { w.direct.Swap(context.Background(), l) })
		return regent.Lease{}, err
	}
	got, err := w.client.Swap(ctx, l)
	if t.loseAnswer {
		return regent.Lease{}, silence(ctx, t.timeout)
	}
	if err := sleep(ctx, t.answer); err != nil {
		return regent.Lease{}, err
	}
	return got, err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silence is how long a caller waits for an answer that never comes.
func silence(ctx context.Context, d time.Duration) error {
	if err := sleep(ctx, d); err != nil {
		return err
	}
	return memstore.ErrLost
}

func (w *wire) List(ctx context.Context, prefix string) iter.Seq2[regent.Lease, error] {
	return func(yield func(regent.Lease, error) bool) {
		began, _ := w.begin(ctx, "list"+prefix)
		var found []regent.Lease
		var failed error
		for l, err := range w.client.List(ctx, prefix) {
			if failed = err; err == nil {
				found = append(found, l)
			}
		}
		w.p.clock.thaw("listed" + prefix)
		for _, l := range found {
			w.p.rec.answered(w.p, l, began)
			if !yield(l, nil) {
				return
			}
		}
		if failed != nil {
			yield(regent.Lease{}, failed)
		}
	}
}

func (w *wire) Close() error { return w.client.Close() }

// SwapAll sends a batch.
func (w pushed) SwapAll(ctx context.Context, ls []regent.Lease) []regent.Outcome {
	began, _ := w.begin(ctx, "all", ls...)
	outs := w.client.SwapAll(ctx, ls)
	w.p.clock.thaw("swapped all")
	for _, o := range outs {
		if o.Err == nil {
			w.p.rec.answered(w.p, o.Lease, began)
		}
	}
	return outs
}

// Wake passes hints on, to a frozen process when it thaws.
func (w pushed) Wake(ctx context.Context, prefix string) <-chan regent.Lease {
	w.begin(ctx, "wake")
	in, out := w.client.Wake(ctx, prefix), make(chan regent.Lease, 1)
	go func() {
		for {
			var l regent.Lease
			select {
			case l = <-in:
			case <-ctx.Done():
				return
			}
			w.p.clock.thaw("woken" + prefix)
			w.p.heard(l)
			regent.Hint(out, l)
		}
	}()
	return out
}
