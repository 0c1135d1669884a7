package reaper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	// margin is how long reaping is still tried after the lease must have run out.
	margin = 5 * time.Second
	// atOnce is how many registers are reaped side by side.
	atOnce = 32
	// attempt is how long one connection to the store is given before another is made.
	attempt = 3 * time.Second
	// Opening the store is tried again after a tenth of a second, then after twice that.
	reopenFirst = 100 * time.Millisecond
	reopenMax   = 2 * time.Second
)

// bury ends what the dead process has left running, and then frees what it held: in this order, or two would work at once.
func (w *watch) bury(ctx context.Context) error {
	if w.idle() {
		return nil
	}
	began := time.Now()
	defer w.link.close()
	limit := boottime() + margin
	for _, l := range w.lines {
		limit = max(limit, l.KillAt+margin)
	}
	ctx, cancel := context.WithTimeout(ctx, limit-boottime())
	defer cancel()
	if err := w.sweep(ctx); err != nil {
		w.log.Error("its processes do not die: its seats are not freed, the lease has to run out", "error", err)
		return err
	}
	swept := time.Since(began)
	var wg sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	errs := make(chan error, len(w.lines))
	for _, l := range w.lines {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs <- w.link.reap(ctx, l)
		})
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	if err := errors.Join(all...); err != nil {
		w.log.Error("process is gone, but what it held could not be freed", "error", err)
		return err
	}
	w.log.Info("process is gone: freed what it held", "registers", len(w.lines), "groups", len(w.groups), "swept", swept, "took", time.Since(began))
	return nil
}

// sweep kills every group, and returns when the kernel shows none of it alive.
func (w *watch) sweep(ctx context.Context) error {
	all := slices.Collect(maps.Values(w.groups))
	if w.adopted != nil {
		all = append(all, *w.adopted)
	}
	errs := make(chan error, len(all))
	for _, b := range all {
		go func() {
			err := b.Kill(ctx)
			if err == nil {
				b.Remove()
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

// link is the reaper's own connection to the store.
type link struct {
	ctx     context.Context
	address string
	dial    func(context.Context, string) (driver.Store, error)
	log     *slog.Logger
	once    sync.Once

	mu    sync.Mutex
	store driver.Store
	err   error         // why there is none
	ready chan struct{} // closed once there is
}

// start opens the store, in the background, and tries until it succeeds.
func (l *link) start() { l.once.Do(func() { go l.open() }) }

func (l *link) open() {
	for wait := reopenFirst; ; wait = min(2*wait, reopenMax) {
		store, err := l.dial(l.ctx, l.address)
		l.mu.Lock()
		l.store, l.err = store, err
		if err == nil {
			close(l.ready)
			l.mu.Unlock()
			l.log.Debug("store is open")
			return
		}
		l.mu.Unlock()
		l.log.Warn("cannot open the store: trying again", "error", err)
		time.Sleep(wait)
	}
}

// renew replaces a connection that did not work.
func (l *link) renew(broken driver.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == broken && broken != nil {
		go broken.Close()
		l.store, l.ready = nil, make(chan struct{})
		go l.open()
	}
}

func (l *link) reap(ctx context.Context, dead line) error {
	l.start()
	var last error
	for {
		l.mu.Lock()
		ready := l.ready
		l.mu.Unlock()
		select {
		case <-ready:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			return fmt.Errorf("reap %s: %w", dead.Register, errors.Join(last, l.err, context.Cause(ctx)))
		}
		l.mu.Lock()
		store := l.store
		l.mu.Unlock()
		if store == nil {
			continue // it was found broken by another
		}
		one, cancel := context.WithTimeout(ctx, attempt)
		last = regent.Reap(one, store, dead.Register, dead.holder())
		cancel()
		if last == nil || ctx.Err() != nil {
			return last
		}
		l.renew(store)
	}
}

// close closes the store, and does not wait long for that.
func (l *link) close() {
	l.mu.Lock()
	store := l.store
	l.mu.Unlock()
	if store == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = store.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}
