package sqlite

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/regentd/regent/driver"
)

// wakeSuffix is the suffix of the file that a process opens for writing and closes after a notable change. The file
// stays empty: the database says what has changed, in the column moved. So its content cannot be stale or torn,
// whenever a process dies.
const wakeSuffix = "-wake"

// notifier holds the subscriptions, and sends their notifications. One goroutine (listen) serves them all. Every change
// of the file wakes every process that listens, which asks the database what has changed: an index has the answer,
// whatever is followed.
type notifier struct {
	mu      sync.Mutex
	subs    driver.Fanout[*subscription]
	watcher *watcher // nil if the host does not support it: then only changes through this Store notify

	unwatched driver.InterestChange // what came to be followed, and whose holders are not watched yet
	watching  bool                  // a goroutine does that
}

type subscription struct {
	c     chan driver.Record
	since int64 // the value of moved when the subscription began
}

// Subscribe implements [driver.Notifier]. It also notifies when a process dies that holds a register that is followed.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	sub := &subscription{c: make(chan driver.Record, 1)}
	if ctx.Err() != nil || !s.startListening(ctx) {
		return sub.c
	}

	p := &s.notifier
	var first driver.InterestChange
	later := false
	stop := to.Observe(func(change driver.InterestChange) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.subs.Apply(change, sub)
		if later && !change.Gone {
			s.watchLaterLocked(change)
		}
		if !later {
			first = change
		}
		later = true
	})

	context.AfterFunc(ctx, stop)
	newest, err := s.newest(ctx)
	if err != nil {
		driver.Notify(sub.c, driver.Record{}) // changes may have been missed
	}

	p.mu.Lock()
	sub.since = newest
	w := p.watcher
	p.mu.Unlock()

	if s.watchHolders(ctx, w, first) {
		driver.Notify(sub.c, driver.Record{})
	}
	return sub.c
}

// startListening starts the listener with the first subscription, and reports whether the store is still open.
func (s *Store) startListening(ctx context.Context) bool {
	p := &s.notifier
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.subs.Closed() {
		return false
	}
	if p.watcher != nil {
		return true
	}

	p.watcher, _ = newWatcher(s.path+wakeSuffix, s.self)
	if p.watcher == nil {
		return true
	}

	newest, err := s.newest(ctx)
	if err != nil {
		newest = 0 // every register is taken for changed
	}

	s.goroutines.Add(1)
	go s.listen(p.watcher, newest)
	return true
}

// watchLaterLocked watches the holders of what has come to be followed, in the background.
func (s *Store) watchLaterLocked(change driver.InterestChange) {
	p := &s.notifier
	if p.subs.Closed() || p.watcher == nil {
		return
	}

	p.unwatched.Names = append(p.unwatched.Names, change.Names...)
	p.unwatched.Prefixes = append(p.unwatched.Prefixes, change.Prefixes...)
	if !p.watching {
		p.watching = true
		s.goroutines.Go(s.watchAdded)
	}
}

func (s *Store) watchAdded() {
	p := &s.notifier
	for {
		p.mu.Lock()
		added := p.unwatched
		w := p.watcher
		p.unwatched = driver.InterestChange{}
		p.watching = len(added.Names)+len(added.Prefixes) > 0 && !p.subs.Closed()
		done := !p.watching
		p.mu.Unlock()

		if done {
			return
		}
		if s.watchHolders(background, w, added) {
			p.notifyAll()
		}
	}
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.subs.Close()
	if p.watcher != nil {
		p.watcher.close() // makes listen return
		p.watcher = nil
	}
}

// notify notifies every subscription to name that began before the change. It reports whether name has any
// subscription.
func (p *notifier) notify(name string, moved int64, notice driver.Record) (any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for sub := range p.subs.Matching(name) {
		any = true
		if moved > sub.since {
			driver.Notify(sub.c, notice)
		}
	}
	return any
}

// everyChange is later than every change.
const everyChange = math.MaxInt64

// announce caches what was written, and notifies subscribers and other processes. It runs before the writer gets its
// answer, because the writer may exit at once.
func (s *Store) announce(applied []written) {
	notable := false
	for _, w := range applied {
		s.remember(w.known)
		notable = notable || w.moved
	}

	if !notable {
		return
	}

	touch(s.path + wakeSuffix)
	s.notifier.mu.Lock()
	alone := s.notifier.watcher == nil && !s.notifier.subs.Empty()
	s.notifier.mu.Unlock()

	if !alone {
		return
	}

	for _, w := range applied {
		if w.moved {
			s.notifier.notify(w.lease.Name, everyChange, driver.Record{Name: w.lease.Name})
		}
	}
}

// listen turns events of the kernel into notifications. It sleeps while nothing changes and no holder dies.
func (s *Store) listen(w *watcher, seen int64) {
	defer s.goroutines.Done()

	for {
		touched, died, err := w.wait()
		if err != nil {
			return
		}

		if touched {
			seen = s.notifyChanges(w, seen)
		}

		for _, writer := range died {
			s.notifyDeath(writer)
		}
	}
}

// newest returns the number of the latest notable change.
func (s *Store) newest(ctx context.Context) (moved int64, err error) {
	err = s.read(ctx, func() error {
		return s.readers.QueryRowContext(ctx,
			`SELECT CAST(coalesce(max(moved), 0) AS INTEGER) FROM regent_lease WHERE moved < `+maxMoved).Scan(&moved)
	})
	return moved, err
}

// notifyChanges notifies the subscribers of every register that has changed since seen, and watches the new holders.
func (s *Store) notifyChanges(w *watcher, seen int64) int64 {
	newest, err := s.newest(background)
	if err == nil && newest < seen {
		s.databaseRestored(w, newest)
		return newest
	}
	if err == nil {
		err = s.eachRow(background, func(name, writer string, moved int64) {
			seen = max(seen, moved)
			if !s.notifier.notify(name, moved, driver.Record{Name: name}) {
				return
			}
			if w.watch(writer) {
				s.notifier.notify(name, everyChange, driver.Record{})
			}
		}, `SELECT name, writer, moved FROM regent_lease WHERE moved > ? AND moved < `+maxMoved+` ORDER BY moved`, seen)
	}

	if err != nil {
		s.notifier.notifyAll()
	}
	return seen
}

// databaseRestored notifies all subscribers after an older copy was written into the file: any register may show an old
// record, and its holder must be watched.
func (s *Store) databaseRestored(w *watcher, newest int64) {
	s.watchHolders(background, w, s.notifier.rewind(newest))
	s.notifier.notifyAll() // last, because a holder may be dead already
}

// rewind makes subscriptions receive changes after newest, and returns what they follow.
func (p *notifier) rewind(newest int64) (all driver.InterestChange) {
	p.mu.Lock()
	defer p.mu.Unlock()

	for prefix, sub := range p.subs.All() {
		all.Prefixes = append(all.Prefixes, prefix)
		sub.since = min(sub.since, newest)
	}
	for name, sub := range p.subs.AllNamed() {
		all.Names = append(all.Names, name)
		sub.since = min(sub.since, newest)
	}

	slices.Sort(all.Prefixes)
	all.Prefixes = slices.Compact(all.Prefixes)
	return all
}

// notifyDeath notifies the subscribers of registers that the dead process holds.
func (s *Store) notifyDeath(writer string) {
	err := s.eachRow(background, func(name, _ string, _ int64) {
		s.notifier.notify(name, everyChange,
			driver.Record{})
	},
		`SELECT name, '', 0 FROM regent_lease WHERE writer = ?`, writer)
	if err != nil {
		s.notifier.notifyAll()
	}
}

// notifyAll notifies all subscribers, because it is not known what has changed.
func (p *notifier) notifyAll() {
	p.mu.Lock()
	defer p.mu.Unlock()

	all := map[*subscription]bool{}
	for _, sub := range p.subs.All() {
		all[sub] = true
	}
	for _, sub := range p.subs.AllNamed() {
		all[sub] = true
	}

	for sub := range all {
		driver.Notify(sub.c, driver.Record{})
	}
}

// namesAtOnce is how many names one query asks for.
const namesAtOnce = 500

// watchHolders watches every process that holds one of the registers, and reports whether one of them is dead already.
func (s *Store) watchHolders(ctx context.Context, w *watcher, of driver.InterestChange) (dead bool) {
	if w == nil || s.self == (process{}) {
		return false
	}

	watch := func(writer, _ string, _ int64) { dead = w.watch(writer) || dead }
	const holders = `SELECT DISTINCT writer, '', 0 FROM regent_lease WHERE writer <> '' AND `
	for _, prefix := range of.Prefixes {
		_ = s.eachRow(ctx, watch, holders+`name >= ? AND name < ?`, prefix, prefix+"\xff")
	}

	for names := range slices.Chunk(of.Names, namesAtOnce) {
		args := make([]any, len(names))
		for i, name := range names {
			args[i] = name
		}
		_ = s.eachRow(ctx, watch, holders+`name IN (?`+strings.Repeat(",?", len(names)-1)+`)`, args...)
	}
	return dead
}

// eachRow calls each for every row of two texts and a number. It skips rows with other types.
func (s *Store) eachRow(ctx context.Context, each func(string, string, int64), query string, args ...any) error {
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
