package sqlite

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/regentd/regent/driver"
)

// wakeSuffix names the file that a process opens for writing and closes after a change of hands. It stays empty: what has changed
// is in the database, in the column moved. So nothing in it can be stale, torn or too long, whoever dies when.
const wakeSuffix = "-wake"

// push is who wants to be woken. One goroutine (listen) serves them all, while there are any.
type push struct {
	mu      sync.Mutex
	stopped bool
	subs    driver.Fanout[*subscription]
	watcher *watcher // nil where the host has none: then only this Store's own changes are told
}

type subscription struct {
	c     chan driver.Record
	since int64 // moved, when it began
}

// Wake implements [driver.Waker]. It also receives when a process dies that holds a register below prefix.
func (s *Store) Wake(ctx context.Context, prefix string) <-chan driver.Record {
	sub := &subscription{c: make(chan driver.Record, 1)}
	if ctx.Err() != nil {
		return sub.c
	}
	p := &s.push
	// The lock is held over the query: what fires before it is not news to this subscription, what fires after it is.
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return sub.c
	}
	first := p.watcher == nil
	if first {
		p.watcher, _ = newWatcher(s.path+wakeSuffix, s.self)
	}
	newest, err := s.newest(ctx)
	if err != nil {
		driver.Hint(sub.c, driver.Record{}) // nobody knows what it has missed
	}
	sub.since = newest
	if first && p.watcher != nil {
		s.work.Add(1)
		go s.listen(p.watcher, sub.since)
	}
	p.subs.Add(prefix, sub)
	context.AfterFunc(ctx, func() { p.remove(prefix, sub) })
	if s.watchHolders(ctx, p.watcher, prefix) {
		driver.Hint(sub.c, driver.Record{})
	}
	return sub.c
}

// remove ends a subscription. What listens stays until Close: the next subscription is seldom far, and closing an
// inotify instance is slow.
func (p *push) remove(prefix string, sub *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs.Remove(prefix, sub)
}

func (p *push) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.subs.Clear()
	p.end()
}

// end lets listen return.
func (p *push) end() {
	if p.watcher != nil {
		p.watcher.close()
		p.watcher = nil
	}
}

// fire hints every subscription above name that began before its change, and reports whether there is any above it at all.
func (p *push) fire(name string, moved int64, hint driver.Record) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sub := range p.subs.Matching(name) {
		if any = true; moved > sub.since {
			driver.Hint(sub.c, hint)
		}
	}
	return any
}

// always is later than every change.
const always = math.MaxInt64

// announce remembers what was written, and tells whom it may concern, before the writer is told: it may exit at once.
func (s *Store) announce(applied []written) {
	told := false
	for _, w := range applied {
		s.remember(w.known)
		told = told || w.moved
	}
	if !told {
		return
	}
	touch(s.path + wakeSuffix)
	s.push.mu.Lock()
	alone := s.push.watcher == nil && !s.push.subs.Empty()
	s.push.mu.Unlock()
	if !alone {
		return
	}
	for _, w := range applied {
		if w.moved {
			s.push.fire(w.lease.Name, always, driver.Record{Name: w.lease.Name})
		}
	}
}

// listen turns what the kernel tells into hints. It sleeps while nothing changes hands and nobody dies.
func (s *Store) listen(w *watcher, seen int64) {
	defer s.work.Done()
	for {
		touched, died, err := w.wait()
		if err != nil {
			return
		}
		if touched {
			seen = s.tell(w, seen)
		}
		for _, writer := range died {
			s.tellDeath(writer)
		}
	}
}

// newest returns the latest change of hands.
func (s *Store) newest(ctx context.Context) (moved int64, err error) {
	err = s.read(ctx, func() error {
		return s.readers.QueryRowContext(ctx,
			`SELECT CAST(coalesce(max(moved), 0) AS INTEGER) FROM regent_lease WHERE moved < `+maxMoved).Scan(&moved)
	})
	return moved, err
}

// tell hints everybody below whom something has moved since seen, and watches the new holders.
func (s *Store) tell(w *watcher, seen int64) int64 {
	newest, err := s.newest(background)
	if err == nil && newest < seen {
		s.restored(w, newest)
		return newest
	}
	if err == nil {
		err = s.names(background, func(name, writer string, moved int64) {
			seen = max(seen, moved)
			if !s.push.fire(name, moved, driver.Record{Name: name}) {
				return
			}
			if w.watch(writer) {
				s.push.fire(name, always, driver.Record{})
			}
		}, `SELECT name, writer, moved FROM regent_lease WHERE moved > ? AND moved < `+maxMoved+` ORDER BY moved`, seen)
	}
	if err != nil {
		s.push.fireAll()
	}
	return seen
}

// restored hints everybody after an older copy was written into the file: any register may show
// what it showed long ago, and who holds it then is to be watched.
func (s *Store) restored(w *watcher, newest int64) {
	for _, prefix := range s.push.rewind(newest) {
		s.watchHolders(background, w, prefix)
	}
	s.push.fireAll() // last, since a holder that is dead already is then found out
}

// rewind makes what moves from now on news to all subscriptions, and returns their prefixes.
func (p *push) rewind(newest int64) (prefixes []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for prefix, sub := range p.subs.All() {
		if !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
		sub.since = min(sub.since, newest)
	}
	return prefixes
}

// tellDeath hints everybody who waits for something that the dead process holds.
func (s *Store) tellDeath(writer string) {
	err := s.names(background, func(name, _ string, _ int64) { s.push.fire(name, always, driver.Record{}) },
		`SELECT name, '', 0 FROM regent_lease WHERE writer = ?`, writer)
	if err != nil {
		s.push.fireAll()
	}
}

// fireAll hints everybody, when it cannot be found out whom.
func (p *push) fireAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sub := range p.subs.All() {
		driver.Hint(sub.c, driver.Record{})
	}
}

// watchHolders watches every process that holds something below prefix, and reports whether one of them is dead already.
func (s *Store) watchHolders(ctx context.Context, w *watcher, prefix string) (dead bool) {
	if w == nil || s.self == (process{}) {
		return false
	}
	_ = s.names(ctx, func(writer, _ string, _ int64) {
		dead = w.watch(writer) || dead
	}, `SELECT DISTINCT writer, '', 0 FROM regent_lease WHERE name >= ? AND name < ? AND writer <> ''`, prefix, prefix+"\xff")
	return dead
}

// names calls each for every row of two texts and a number. A row that holds something else is left
// out.
func (s *Store) names(ctx context.Context, each func(string, string, int64), query string, args ...any) error {
	type row struct {
		a, b string
		n    int64
	}
	var found []row
	err := s.read(ctx, func() error {
		found = found[:0]
		rows, err := s.readers.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var a, b, n any
			if err := rows.Scan(&a, &b, &n); err != nil {
				return err
			}
			if n, ok := n.(int64); ok {
				found = append(found, row{textOf(a), textOf(b), n})
			}
		}
		return rows.Err()
	})
	if err != nil {
		return err
	}
	for _, r := range found {
		each(r.a, r.b, r.n)
	}
	return nil
}
