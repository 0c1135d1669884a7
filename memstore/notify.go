package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/regentd/regent/driver"
)

// watcher is one subscription.
type watcher struct {
	client  *Client
	to      *driver.Interest
	notices chan driver.Record // has room for one: notifications are merged
	ended   func() bool        // reports whether the subscription has ended
	stop    func() bool        // cancels context.AfterFunc
}

// Subscribe returns a channel of notifications of the registers that are followed, each with the record. A notification
// is in the channel before its swap is answered, unless the client's faults delay or lose it.
func (c *Client) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	w := &watcher{client: c, to: to, notices: make(chan driver.Record, 1)}
	w.ended = func() bool { return ctx.Err() != nil || c.closed.Load() || c.store.closed.Load() }
	s := c.store

	s.mu.Lock()
	defer s.mu.Unlock()

	if w.ended() {
		return w.notices
	}

	// Not a goroutine: it would keep a synctest bubble, and a test for leaks, from ending.
	w.stop = context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forgetLocked(func(other *watcher) bool { return other == w })
	})

	s.watchers = append(s.watchers, w)
	return w.notices
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
		due := notable && w.to.Covers(l.Name)
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
		driver.Notify(w.notices, l)
	}
}

func (w *watcher) sendFaulty(l driver.Record, due bool) {
	f := w.client.faults()
	d := w.client.draws(f, notice, w.to.String()+"\x00"+l.Name)
	switch {
	case f.CutAnswers:
	case due && d.loseRequest < f.LoseNotice:
	case due || d.clash < f.SpuriousNotice:
		if !due || d.late < f.BareNotice {
			l = driver.Record{}
		}
		w.sendAfter(l, f.NoticeDelay.at(d.request))
		if due && d.apply < f.DoubleNotice {
			// At least a moment later, or it would merge with the first.
			w.sendAfter(l, f.NoticeDelay.at(d.request)+f.NoticeDelay.at(d.answer)+1)
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
