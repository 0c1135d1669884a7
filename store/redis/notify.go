package redis

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// notifier holds the subscriptions, and sends their notifications. The script that changes a register publishes the
// change. An expiry is not published: the notifier has a timer for each seat that was read, set to when the seat
// expires unless it is renewed. Renewals cost nothing.
type notifier struct {
	s  *Store
	mu sync.Mutex

	subs        driver.Fanout[chan driver.Record]
	unsubscribe context.CancelFunc // ends the subscription; nil if there is none
	listening   chan struct{}      // closed when the last subscription has ended

	expiry map[string]time.Time // by name: when seats with a subscription expire, as last read
	timer  *time.Timer          // for the first of them, or earlier
	at     time.Time            // when the timer fires
}

// maxWatched bounds how many seats have a timer. The expiry of the others is found by polling.
const maxWatched = 4096

// expiryMargin is added to an expiry. A lease is often a multiple of its renewal interval, so a read at the very end
// would come just before a renewal and would have to be repeated soon.
const expiryMargin = 250 * time.Millisecond

func (p *notifier) init(s *Store) {
	p.s, p.expiry = s, map[string]time.Time{}
	p.listening = make(chan struct{})
	close(p.listening)
}

// Wake implements [driver.Waker]. It also notifies when a seat below prefix that was read through this Store has
// expired, and with the zero Record when a lost node of a cluster, or its successor, answers again.
func (s *Store) Wake(ctx context.Context, prefix string) <-chan driver.Record {
	c := make(chan driver.Record, 1)
	p := &s.notifier

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.subs.Closed() || ctx.Err() != nil {
		return c
	}

	p.subs.Add(prefix, c)
	if p.unsubscribe == nil {
		p.listenLocked()
	}

	context.AfterFunc(ctx, func() { p.remove(prefix, c) })
	return c
}

func (p *notifier) remove(prefix string, c chan driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs.Remove(prefix, c) && p.subs.Empty() {
		p.endLocked()
	}
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subs.Close()
	p.endLocked()
}

// endLocked ends the subscription and the timer.
func (p *notifier) endLocked() {
	if p.unsubscribe != nil {
		p.unsubscribe()
		p.unsubscribe = nil
	}

	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}

	clear(p.expiry)
}

// listenLocked subscribes, after the subscription before has ended.
func (p *notifier) listenLocked() {
	ctx, cancel := context.WithCancel(p.s.ctx)
	before, done := p.listening, make(chan struct{})
	p.unsubscribe, p.listening = cancel, done
	p.s.goroutines.Go(func() {
		defer close(done)
		<-before
		p.s.receive(ctx)
	})
}

// receive turns published messages into notifications, until ctx ends. It uses the connection of all other calls: while
// they are answered, no published message is lost.
func (s *Store) receive(ctx context.Context) {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" {
			s.notifier.notifyAll() // messages may have been lost before
		}
	})

	ctx = rueidis.WithOnReceiveReturnHook(ctx, func(err error, c rueidis.CommandClient) error {
		if ctx.Err() != nil && !s.closed.Load() { // there are no subscriptions any more
			bye, cancel := context.WithTimeout(s.ctx, time.Second)
			defer cancel()
			c.Do(bye, c.B().Unsubscribe().Channel(s.channel).Build())
		}
		return err
	})

	for failed := 0; ctx.Err() == nil; failed++ {
		began := time.Now()
		_ = s.client.Receive(ctx, s.client.B().Subscribe().Channel(s.channel).Build(), func(m rueidis.PubSubMessage) {
			s.notifier.publish(m.Message)
		})

		if time.Since(began) > time.Minute {
			failed = 0
		}

		// The first retry is immediate, because it only finds that the old connection is dead.
		t := time.NewTimer(min(time.Duration(failed)*50*time.Millisecond, time.Second))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// nameOf returns the name of the seat with that key.
func (s *Store) nameOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, s.addr.prefix)
	if !ok || !strings.Contains(name, "%") {
		return name, ok && name != ""
	}
	name, err := url.PathUnescape(name)
	return name, err == nil
}

// publish turns a message into notifications. A message holds the key of a seat, and optionally its revision and
// record. Anybody who may publish could have sent it. So a record counts only under a revision with its digest, and a
// swap on that revision succeeds only if the register shows the record.
func (p *notifier) publish(message string) {
	key, news, _ := strings.Cut(message, "\n")
	name, ok := p.s.nameOf(key)
	if !ok {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	l := driver.Record{Name: name} // it has to be read, unless the message carries the record
	if rev, record, ok := strings.Cut(news, "\n"); ok && p.watchedLocked(name) {
		record := []byte(record)
		vouched := strings.HasSuffix(rev, string(appendDigest(nil, record)))
		marked := strings.ContainsAny(rev, marks) // the script does not compare what follows a mark
		if vouched && !marked {
			if got, err := driver.ParseRecord(name, rev, record); err == nil {
				l = got
			}
		}
	}

	for c := range p.subs.Matching(name) {
		driver.Hint(c, l)
	}
}

// notify tells the subscribers of name that the register has changed.
func (p *notifier) notify(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.subs.Matching(name) {
		driver.Hint(c, driver.Record{Name: name})
	}
}

// notifyAll tells all subscribers that anything may have changed.
func (p *notifier) notifyAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.subs.All() {
		driver.Hint(c, driver.Record{})
	}
}

// watchedLocked reports whether the register has a subscriber.
func (p *notifier) watchedLocked(name string) bool {
	for range p.subs.Matching(name) {
		return true
	}
	return false
}

// noteRead sets the timer of a seat that was read just now. There is no timer if left is negative: the server does not
// know when the seat expires, so its observers decide that by their own clocks.
func (p *notifier) noteRead(l driver.Record, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.subs.Empty() {
		return
	}

	foreign := l.Holder.Incarnation == foreignIncarnation
	if left < 0 || !foreign && !expires(l) || !p.watchedLocked(l.Name) {
		delete(p.expiry, l.Name)
		return
	}

	if _, ok := p.expiry[l.Name]; ok || len(p.expiry) < maxWatched {
		p.expectLocked(l.Name, time.Now().Add(left+expiryMargin))
	}
}

// noteWrite removes the timer of a seat that this Store has written: its own holder does not wait for its expiry.
func (p *notifier) noteWrite(l driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if _, ok := p.expiry[l.Name]; !ok {
		return
	}
	delete(p.expiry, l.Name)
}

// expectLocked sets the timer of a seat.
func (p *notifier) expectLocked(name string, at time.Time) {
	p.expiry[name] = at
	if p.timer == nil {
		p.at, p.timer = at, time.AfterFunc(time.Until(at), p.expire)
	} else if at.Before(p.at) {
		p.at = at
		p.timer.Reset(time.Until(at))
	}
}

// expire handles the seats whose timer has fired. Most were renewed meanwhile.
func (p *notifier) expire() {
	p.mu.Lock()
	var names []string
	now, next := time.Now(), time.Time{}
	for name, at := range p.expiry {
		switch {
		case !at.After(now):
			delete(p.expiry, name)
			if p.watchedLocked(name) {
				names = append(names, name)
			}
		case next.IsZero() || at.Before(next):
			next = at
		}
	}

	p.timer = nil
	if !next.IsZero() {
		p.at, p.timer = next, time.AfterFunc(time.Until(next), p.expire)
	}

	alone := len(p.expiry) == 0 && len(names) == 1
	p.mu.Unlock()

	if alone {
		// The subscriber reads the seat anyway, which sets the next timer. To read it here first would be a second
		// request for the same answer.
		p.notify(names[0])
		return
	}

	p.checkExpired(names)
}

// checkExpired reads seats whose timer has fired. To read one that was renewed sets its next timer.
func (p *notifier) checkExpired(names []string) {
	ctx, cancel := context.WithTimeout(p.s.ctx, dialTimeout)
	defer cancel()

	for len(names) > 0 {
		n := min(len(names), listPage)
		for i, o := range p.s.readEach(ctx, named(names[:n])) {
			switch {
			case o.Err == nil && o.Record.Vacant():
				p.notify(names[i])
			case o.Err != nil && !errors.Is(o.Err, driver.ErrNotFound):
				p.retryLater(names[i])
			}
		}

		names = names[n:]
	}
}

// retryLater reads a seat again in a second.
func (p *notifier) retryLater(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchedLocked(name) {
		p.expectLocked(name, time.Now().Add(time.Second))
	}
}
