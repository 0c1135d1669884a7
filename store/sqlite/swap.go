package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// request is a call of Swap, SwapAll or Remove in the queue of drain.
type request struct {
	ctx    context.Context
	remove bool
	in     []driver.Record
	out    []driver.Outcome // belongs to drain until done receives
	done   chan struct{}    // has room for one
}

// verb returns the name of the operation, for errors.
func (r *request) verb() string {
	if r.remove {
		return "remove"
	}
	return "swap"
}

// Swap implements [driver.Store].
func (s *Store) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	r, _ := s.requests.Get().(*request)
	if r == nil {
		r = &request{in: make([]driver.Record, 1), out: make([]driver.Outcome, 1), done: make(chan struct{}, 1)}
	}

	r.ctx, r.in[0] = ctx, l
	s.sent.Add("swap")
	if err := s.submit(r); err != nil {
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, err) // drain still has r
	}

	out := r.out[0]
	r.ctx = nil
	r.in[0] = driver.Record{}
	r.out[0] = driver.Outcome{}
	s.requests.Put(r)

	return out.Record, out.Err
}

// SwapAll implements [driver.Batcher] in one transaction with one fsync.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	if len(ls) == 0 {
		return nil
	}

	// A copy, because the caller may return before drain has used it.
	r := &request{ctx: ctx, in: slices.Clone(ls), out: make([]driver.Outcome, len(ls)), done: make(chan struct{}, 1)}
	s.sent.Add("swap")
	err := s.submit(r)
	if err == nil {
		return r.out
	}

	out := make([]driver.Outcome, len(ls))
	for i, l := range ls {
		out[i].Err = fmt.Errorf("swap %q: %w", l.Name, err)
	}

	return out
}

// submit queues a request and waits until it is done or its context ends: a disk that hangs must not keep a leader from
// stepping down.
func (s *Store) submit(r *request) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}

	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return driver.ErrClosed
	}

	s.queue = append(s.queue, r)
	if !s.draining {
		s.draining = true
		s.goroutines.Add(1)
		go s.drain()
	}
	s.mu.Unlock()

	select {
	case <-r.done:
		return nil
	case <-r.ctx.Done():
		if s.blocked.Load() {
			return fmt.Errorf("%w while another process held the write lock of %s", r.ctx.Err(), s.path)
		}
		return r.ctx.Err()
	}
}

// drain writes the queue, and ends when it is empty. Requests that arrive during one commit share the next.
func (s *Store) drain() {
	defer s.goroutines.Done()

	for attempt := 0; ; {
		s.mu.Lock()
		batch, closed := s.queue, s.closed
		s.queue, s.spare = s.spare[:0], batch
		s.draining = len(batch) > 0
		s.mu.Unlock()

		if len(batch) == 0 {
			return
		}

		batch = dropEnded(batch, closed)
		if len(batch) == 0 {
			continue
		}

		again, err := false, s.checkFile()
		if err == nil {
			again, err = s.write(batch)
		}

		s.blocked.Store(again)
		if again {
			s.mu.Lock()
			s.queue = append(slices.Clone(batch), s.queue...)
			s.mu.Unlock()

			time.Sleep(pause(attempt))
			attempt++
			continue
		}

		attempt = 0
		answer(batch, s.withPath(err))
		clear(batch)
	}
}

// dropEnded answers the requests whose context has ended, and returns the others.
func dropEnded(batch []*request, closed bool) []*request {
	keep := batch[:0]
	for _, r := range batch {
		err := r.ctx.Err()
		if closed {
			err = driver.ErrClosed
		}

		if err != nil {
			answer([]*request{r}, err)
			continue
		}

		keep = append(keep, r)
	}

	return keep
}

// answer completes the requests of a batch. If the transaction failed, the outcome of all its swaps is unknown, even of
// a conflict: it may be due to another swap in the same transaction.
func answer(batch []*request, err error) {
	for _, r := range batch {
		for i := range r.out {
			if err != nil {
				r.out[i] = driver.Outcome{Err: fmt.Errorf("%s %q: %w", r.verb(), r.in[i].Name, err)}
			}
		}
		r.done <- struct{}{}
	}
}

// write applies the batch: a single swap as one statement that commits by itself, otherwise as a transaction. again
// means that nothing was done because another connection holds a lock.
func (s *Store) write(batch []*request) (again bool, err error) {
	defer func() {
		// After any other error the state of the connection is unknown. The next write opens a new one.
		if err != nil && !again && s.w != nil {
			_ = s.w.close()
			s.w = nil
		}
	}()

	if err := s.ensureWriter(); err != nil {
		return busy(err), err
	}

	single := len(batch) == 1 && len(batch[0].in) == 1 && !batch[0].remove
	if !single {
		if _, err := s.w.begin.ExecContext(background, nil); err != nil {
			return busy(err), err
		}
	}

	applied := s.w.applied[:0]
	defer func() { clear(applied) }()

	var removed removal
	if applied, err = s.execute(batch, &removed, applied); err != nil {
		return single && busy(err), err
	}
	if err := removed.end(s); err != nil {
		return false, err
	}

	if !single {
		if _, err := s.w.commit.ExecContext(background, nil); err != nil {
			return false, err
		}
	}

	removed.committed(s)
	s.announce(applied)
	if cap(applied) <= maxKept {
		s.w.applied = applied
	}

	return false, nil
}

// ensureWriter opens the writer's connection again, if an error has closed it.
func (s *Store) ensureWriter() error {
	if s.w != nil {
		return nil
	}

	// Whatever has failed, the file may have changed: an older copy may have been restored into it.
	if err := prepareFile(background, s.path); err != nil {
		return err
	}

	w, err := openWriter(s.path)
	if err == nil {
		s.w = w
	}
	return err
}

// execute runs the requests of a batch, and sets their outcomes. It appends the swaps to applied. It returns an error
// of SQLite, after which the outcome of the whole batch is unknown.
func (s *Store) execute(batch []*request, removed *removal, applied []written) ([]written, error) {
	for _, r := range batch {
		for i, l := range r.in {
			var n written
			var err error
			if r.remove {
				err = s.remove(removed, l)
			} else {
				n, err = s.swap(l)
			}

			switch {
			case err == nil && r.remove:
				r.out[i] = driver.Outcome{}
			case err == nil:
				applied = append(applied, n)
				l.Rev = n.rev
				r.out[i] = driver.Outcome{Record: l}
			case code(err) == 0: // a conflict, or a record that cannot be read
				r.out[i] = driver.Outcome{Err: fmt.Errorf("%s %q at revision %q: %w", r.verb(), l.Name, l.Rev, err)}
			default:
				return applied, err
			}
		}
	}
	return applied, nil
}

// written is a swap that was applied.
type written struct {
	known
	moved bool
}

// swap writes one record on the writer's connection. The old record decides only whether others are notified and which
// writer is recorded. The statement itself decides whether the record is replaced.
func (s *Store) swap(l driver.Record) (written, error) {
	writer := s.writer
	if l.Vacant() {
		writer = ""
	}

	rev, at := s.revs.next(time.Now())
	if l.Rev == "" {
		err := s.w.exec(s.w.insert, l.Name, rev, writer, s.w.record(l), at)
		return written{newKnown(rev, writer, l), true}, err
	}

	old, err := s.recall(l.Name, l.Rev)
	if err != nil {
		return written{}, err
	}

	if old.lease.Nonce == l.Nonce && !l.Vacant() {
		writer = old.writer
	}

	n := written{newKnown(rev, writer, l), writer != old.writer || l.Notable(old.lease)}
	if record := s.w.record(l); n.moved {
		err = s.w.exec(s.w.move, rev, writer, record, at, l.Name, l.Rev)
	} else {
		err = s.w.exec(s.w.renew, rev, record, l.Name, l.Rev)
	}

	return n, err
}

var background = context.Background()
