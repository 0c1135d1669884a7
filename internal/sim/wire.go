package sim

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

// wire is a process's store: a client of the store in memory that writes down what passes, stands
// still while the process is frozen, and springs the traps that are set for it.
type wire struct {
	p      *process
	client *memstore.Client
	direct *memstore.Client // of the same name, without faults: how a held request gets there in the end
}

// pushed is a wire whose store has a push, takes batches, and reads many registers at once.
type pushed struct{ *wire }

// witnessed is a wire whose store can tell, since it runs on the same host, that a process has
// died.
type witnessed struct{ pushed }

func (w witnessed) Gone(_ context.Context, l driver.Record) bool {
	i := w.p.rec.owner(l.Holder.Incarnation, -1)
	return i >= 0 && w.p.sim.process(i).dead.Load()
}

// begin notes a request at the moment when its sender decides on it, and lets it go when the
// process is not frozen.
func (w *wire) begin(ctx context.Context, what string, swaps ...driver.Record) (began time.Duration, op Op) {
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

func (w *wire) Get(ctx context.Context, name string) (driver.Record, error) {
	began, _ := w.begin(ctx, "get"+name)
	var got driver.Record
	var err error
	if t := w.p.trap(ctx, trapRead, name); t != nil {
		w.p.spring(t)
		if t.panics {
			panic(errDriver)
		}

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
	if errors.Is(err, driver.ErrNotFound) {
		w.p.sawNothing(name, began)
		if ctx.Value(asAdmin{}) == nil {
			w.p.read(driver.Record{Name: name})
		}
	}

	if err != nil {
		return driver.Record{}, err
	}

	w.answered(ctx, got, began)
	return got, nil
}

// answered takes in the answer to a read. What somebody reads through a member counts for how long
// the member has watched a heartbeat, but prolongs no lease of its own.
func (w *wire) answered(ctx context.Context, l driver.Record, began time.Duration) {
	if ctx.Value(asAdmin{}) != nil && isMember(l.Name) {
		w.p.saw(l, began)
		return
	}

	w.p.rec.answered(w.p, l, began)
	w.p.read(l)
}

func (w *wire) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	began, op := w.begin(ctx, "swap"+l.Name, l)
	if w.p.dead.Load() {
		return driver.Record{}, driver.ErrClosed
	}

	var got driver.Record
	var err error
	if t := w.p.trap(ctx, op, l.Name); t != nil {
		w.p.spring(t)
		if t.panics {
			if !t.lose {
				_, _ = w.client.Swap(ctx, l)
			}

			panic(errDriver)
		}

		got, err = w.trapped(ctx, l, t)
	} else {
		got, err = w.client.Swap(ctx, l)
	}

	w.p.clock.thaw("swapped" + l.Name)
	if err != nil {
		return driver.Record{}, err
	}

	if ctx.Value(asAdmin{}) != nil && isMember(l.Name) {
		w.p.edited(got, began)
	} else {
		w.p.rec.answered(w.p, got, began)
	}

	return got, nil
}

// trapped sends a swap that one thing in particular happens to.
func (w *wire) trapped(ctx context.Context, l driver.Record, t *trap) (got driver.Record, err error) {
	if t.lose {
		return driver.Record{}, silence(ctx, t.timeout)
	}

	if t.late > 0 { // it gets there, but long after its sender has given up
		time.AfterFunc(t.late, func() { w.direct.Swap(context.Background(), l) })
		return driver.Record{}, silence(ctx, t.timeout)
	}

	if t.deaf {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*w.p.requestTimeout())
		defer cancel()
		defer func(ctx context.Context) {
			if ctx.Err() != nil && err == nil {
				w.p.sim.reach(AnsweredLate)
			}
		}(ctx)
		ctx = late
	}

	sent := time.Now()
	if err := sleep(ctx, t.request); err != nil {
		time.AfterFunc(t.request-time.Since(sent), func() { w.direct.Swap(context.Background(), l) })
		return driver.Record{}, err
	}

	got, err = w.client.Swap(ctx, l)
	if t.loseAnswer {
		return driver.Record{}, silence(ctx, t.timeout)
	}

	if err := sleep(ctx, t.answer); err != nil {
		return driver.Record{}, err
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

	return memstore.ErrNoAnswer
}

func (w *wire) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		began, _ := w.begin(ctx, "list"+prefix)
		var found []driver.Outcome
		var failed error
		for l, err := range w.client.List(ctx, prefix) {
			if err != nil && l.Name == "" {
				failed = err
				break
			}

			found = append(found, driver.Outcome{Record: l, Err: err})
		}

		w.p.clock.thaw("listed" + prefix)
		if failed == nil {
			w.p.missed(prefix, found, began)
		}

		for _, o := range found {
			if o.Err == nil {
				w.answered(ctx, o.Record, began)
			}

			if !yield(o.Record, o.Err) {
				return
			}
		}

		if failed != nil {
			yield(driver.Record{}, failed)
		}
	}
}

// missed takes in that registers which were known are not in a list.
func (p *process) missed(prefix string, found []driver.Outcome, began time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.heights {
		there := slices.ContainsFunc(found, func(o driver.Outcome) bool { return o.Record.Name == name })
		if strings.HasPrefix(name, prefix) && !there {
			p.measure(driver.Record{Name: name}, began)
		}
	}
}

// errDriver is what a driver panics with.
var errDriver = errors.New("the driver panics")

func (w *wire) Close() error { return w.client.Close() }

// SwapAll sends a batch.
func (w pushed) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	began, _ := w.begin(ctx, "all", ls...)
	outs := w.client.SwapAll(ctx, ls)
	w.p.clock.thaw("swapped all")
	for _, o := range outs {
		if o.Err == nil {
			w.p.rec.answered(w.p, o.Record, began)
		}
	}

	return outs
}

// Refresh reads many registers in one request.
func (w pushed) Refresh(ctx context.Context, known []driver.Record) []driver.Outcome {
	began, _ := w.begin(ctx, "refresh")
	outs := w.client.Refresh(ctx, known)
	w.p.clock.thaw("refreshed")
	for i, o := range outs {
		switch {
		case o.Err == nil:
			w.answered(ctx, o.Record, began)
		case errors.Is(o.Err, driver.ErrNotFound):
			w.p.sawNothing(known[i].Name, began)
			w.p.read(driver.Record{Name: known[i].Name})
		}
	}

	return outs
}

// Subscribe passes notices on, to a frozen process when it thaws.
func (w pushed) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	w.begin(ctx, "wake")
	in, out := w.client.Subscribe(ctx, to), make(chan driver.Record, 1)
	go func() {
		for {
			var l driver.Record
			select {
			case l = <-in:
			case <-ctx.Done():
				return
			}

			w.p.clock.thaw("woken" + to.String())
			w.p.heard(l)
			w.p.noticed(l)
			driver.Notify(out, l)
		}
	}()
	return out
}
