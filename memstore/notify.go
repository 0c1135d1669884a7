package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// watcher is one subscription.
type watcher struct {
	client *Client
	prefix string
	hints  chan driver.Record // has room for one: notifications are merged
	ended  func() bool        // reports whether the subscription has ended
	stop   func() bool        // cancels context.AfterFunc
}

// Wake returns a channel of notifications for the registers below prefix, each with the record. A notification is in
// the channel before its swap is answered, unless the client's faults delay or lose it.
func (c *Client) Wake(ctx context.Context, prefix string) <-chan driver.Record {
	w := &watcher{client: c, prefix: prefix, hints: make(chan driver.Record, 1)}
	w.ended = func() bool { return ctx.Err() != nil || c.closed.Load() || c.store.closed.Load() }
	s := c.store

	s.mu.Lock()
	defer s.mu.Unlock()

	if w.ended() {
		return w.hints
	}

	// Not a goroutine: it would keep a synctest bubble, and a test for leaks, from ending.
	w.stop = context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forgetLocked(func(other *watcher) bool { return other == w })
	})

	s.watchers = append(s.watchers, w)
	return w.hints
}

// forgetLocked removes watchers.
func (s *Store) forgetLocked(these func(*watcher) bool) {
	s.watchers = slices.DeleteFunc(s.watchers, func(w *watcher) bool {
		if !these(w) {
			return false
		}
		w.stop()
		return true
	})
}

// notifyLocked notifies the watchers of a register of a notable change, and other watchers spuriously.
func (s *Store) notifyLocked(l driver.Record, notable bool) {
	for _, w := range s.watchers {
		due := notable && strings.HasPrefix(l.Name, w.prefix)
		switch {
		case !w.client.perfect():
			w.sendFaulty(l, due)
		case due:
			w.send(l)
		}
	}
}

func (w *watcher) send(l driver.Record) {
	if !w.ended() {
		driver.Hint(w.hints, l)
	}
}

func (w *watcher) sendFaulty(l driver.Record, due bool) {
	f := w.client.faults()
	d := w.client.draws(f, hint, w.prefix+"\x00"+l.Name)
	switch {
	case f.CutAnswers:
	case due && d.loseRequest < f.LoseHint:
	case due || d.clash < f.SpuriousHint:
		if !due || d.late < f.BareHint {
			l = driver.Record{}
		}
		w.sendAfter(l, f.HintDelay.at(d.request))
		if due && d.apply < f.DoubleHint {
			// At least a moment later, or it would merge with the first.
			w.sendAfter(l, f.HintDelay.at(d.request)+f.HintDelay.at(d.answer)+1)
		}
	}
}

func (w *watcher) sendAfter(l driver.Record, d time.Duration) {
	if d <= 0 {
		w.send(l)
		return
	}
	time.AfterFunc(d, func() { w.send(l) })
}
