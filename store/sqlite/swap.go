package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent/driver"
)

// request is one call of Swap, SwapAll or Remove on its way through drain.
type request struct {
	ctx    context.Context
	remove bool
	in     []driver.Record
	out    []driver.Outcome // drain's, until done receives
	done   chan struct{}    // has room for one
}

// verb is what the request does, for errors.
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
		return driver.Record{}, fmt.Errorf("swap %q: %w", l.Name, err) // r is still drain's
	}
	out := r.out[0]
	r.ctx, r.in[0], r.out[0] = nil, driver.Record{}, driver.Outcome{}
	s.requests.Put(r)
	return out.Record, out.Err
}

// SwapAll implements [driver.Batcher]: one transaction, one fsync.
func (s *Store) SwapAll(ctx context.Context, ls []driver.Record) []driver.Outcome {
	if len(ls) == 0 {
		return nil
	}
	// A copy, since the caller may be gone before drain is done with it.
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

// submit hands a request to drain and waits, but not longer than its context: a disk that hangs must not keep a leader from
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
		s.work.Add(1)
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

// drain writes what is queued and ends when nothing is. Whatever has gathered during one commit shares the next.
func (s *Store) drain() {
	defer s.work.Done()
	for attempt := 0; ; {
		s.mu.Lock()
		batch, closed := s.queue, s.closed
		s.queue, s.spare = s.spare[:0], batch
		s.draining = len(batch) > 0
		s.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		batch = waiting(batch, closed)
		if len(batch) == 0 {
			continue
		}
		again, err := false, s.usable()
		if err == nil {
			again, err = s.write(batch)
		}
		if s.blocked.Store(again); again {
			s.mu.Lock()
			s.queue = append(slices.Clone(batch), s.queue...)
			s.mu.Unlock()
			time.Sleep(pause(attempt))
			attempt++
			continue
		}
		attempt = 0
		answer(batch, s.located(err))
		clear(batch)
	}
}

// waiting drops the requests that nobody waits for any more.
func waiting(batch []*request, closed bool) []*request {
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

// answer gives every swap of the batch its outcome. If the transaction failed, that is unknown for all of them, even for one
// that was refused: perhaps because of another in the same transaction.
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

// write applies the batch: one statement that commits by itself for a single swap, else a transaction. Again says that nothing
// was done because of somebody's lock.
func (s *Store) write(batch []*request) (again bool, err error) {
	defer func() {
		// After any other error the state of the connection is anybody's guess. The next write opens a new one.
		if err != nil && !again && s.w != nil {
			_ = s.w.close()
			s.w = nil
		}
	}()
	if s.w == nil {
		// Whatever it was that failed, the file may have changed: an older copy may have been
		// restored into it.
		if err := prepareFile(background, s.path); err != nil {
			return busy(err), err
		}
		if s.w, err = openWriter(s.path); err != nil {
			return busy(err), err
		}
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
	for _, r := range batch {
		for i, l := range r.in {
			var n written
			var err error
			if r.remove {
				err = s.remove(&removed, l)
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
				return single && busy(err), err
			}
		}
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

// written is a swap that was applied.
type written struct {
	known
	moved bool
}

// swap writes one record on the writer's connection. What the old record was decides only whether others are told and whose
// name stays on it; whether it is replaced is decided by the statement itself.
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

// revisions makes revisions that never come twice, for any register: not after a restart, not after
// somebody has removed the whole file, and not after an older copy of it was restored, when a
// number that is kept in the file would begin again. Each is of a random number of its Store and of
// a time that grows with every one.
type revisions struct {
	store string
	last  int64
}

func newRevisions() revisions { return revisions{store: strconv.FormatUint(rand.Uint64(), 36)} }

// next returns a revision, and its time in microseconds. The colon keeps SQLite from taking one for
// a number.
func (r *revisions) next(now time.Time) (string, int64) {
	r.last = max(r.last+1, now.UnixMicro())

	var buf [32]byte
	b := append(buf[:0], r.store...)
	b = append(b, ':')
	b = strconv.AppendInt(b, r.last, 36)
	return string(b), r.last
}

// known is what the driver remembers of a revision. A revision's record never changes, so that this cannot be out of date.
type known struct {
	rev    string
	writer string
	lease  driver.Record // what Notable, Gone and this driver look at, without the weight
}

// maxKnown bounds the memory of it.
const maxKnown = 1 << 15

func newKnown(rev, writer string, l driver.Record) known {
	l.Data, l.Past = nil, nil
	return known{rev, writer, l}
}

func (s *Store) remember(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[k.lease.Name] = k
}

// recall returns what was in name at rev, from memory or from the database.
func (s *Store) recall(name, rev string) (known, error) {
	s.mu.Lock()
	k := s.known[name]
	s.mu.Unlock()
	if k.rev == rev {
		return k, nil
	}
	row, err := s.w.read(name)
	if err != nil {
		return known{}, err
	}
	if now, ok := revision(row[0]); ok && now != rev || row[0] == nil {
		return known{}, driver.ErrConflict
	}
	l, err := s.parse(name, row[0], row[1], bytesOf(row[2]))
	return newKnown(rev, textOf(row[1]), l), err
}

var background = context.Background()
