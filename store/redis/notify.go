package redis

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

// notifier holds the subscriptions, and sends their notifications. The script that changes a register publishes the
// change: see channels.go. An expiry is not published: the notifier has a timer for each election that was read, set to
// when the election expires unless it is renewed. Renewals cost nothing.
type notifier struct {
	s  *Store
	mu sync.Mutex

	topics  driver.Topics
	running bool          // a goroutine subscribes to what topics asks for
	ended   chan struct{} // closed when the last such goroutine has returned
	work    chan struct{} // receives when topics has changed
	suspect chan struct{} // receives when another connection was lost
	proofs  time.Duration // how often a connection proves that its subscriptions are in force

	written driver.Record // the last vacant record that this Store has sent: its message need not be parsed

	expiry map[string]time.Time // by name: when elections with a subscription expire, as last read
	timer  *time.Timer          // for the first of them, or earlier
	at     time.Time            // when the timer fires
}

// maxWatched bounds how many elections have a timer. The expiry of the others is found by polling.
const maxWatched = 4096

// expiryMargin is added to an expiry. A lease is often a multiple of its renewal interval, so a read at the very end
// would come just before a renewal and would have to be repeated soon.
const expiryMargin = 250 * time.Millisecond

func (p *notifier) init(s *Store) {
	p.s, p.expiry = s, map[string]time.Time{}
	p.work, p.suspect = make(chan struct{}, 1), make(chan struct{}, 1)
	p.proofs = proofInterval
	p.ended = make(chan struct{})
	close(p.ended)
}

// Subscribe implements [driver.Notifier]. It also notifies when an election that is followed and was read through this
// Store has expired, and with the zero Record when a lost node of a cluster, or its successor, answers again.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return to.Subscription(ctx, s.notifier.apply)
}

// apply takes in a change of what a subscription follows.
func (p *notifier) apply(change driver.InterestChange, c chan driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topics.Closed() {
		return
	}

	p.topics.Apply(change, c)
	if p.topics.Empty() {
		p.endTimerLocked()
	}

	p.subscribeLocked()
}

// subscribeLocked has somebody subscribe to what topics asks for.
func (p *notifier) subscribeLocked() {
	poke(p.work)
	if p.running || p.topics.Empty() {
		return
	}

	p.running = true
	before, ended := p.ended, make(chan struct{})
	p.ended = ended
	p.s.goroutines.Go(func() {
		defer close(ended)
		<-before
		p.subscribe()
	})
}

// rest reports whether nothing is followed any more. Then the goroutine that calls it must return.
func (p *notifier) rest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = !p.topics.Empty() && !p.topics.Closed()
	return !p.running
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Close()
	p.endTimerLocked()
	poke(p.work)
}

func (p *notifier) endTimerLocked() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}

	clear(p.expiry)
}

// poke makes whoever receives from c check what it has to do.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// nameOf returns the name of the election with that key.
func (s *Store) nameOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, s.addr.prefix)
	if !ok || !strings.Contains(name, "%") {
		return name, ok && name != ""
	}
	name, err := url.PathUnescape(name)
	return name, err == nil
}

// publish turns a message into notifications. A message holds the key of an election, and optionally its revision and
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
	rev, record, ok := strings.Cut(news, "\n")
	switch {
	case !ok || !p.watchedLocked(name):
	case rev == p.written.Rev && name == p.written.Name:
		l = p.written // whoever has sent the message: this is what was written
	default:
		record := []byte(record)
		vouched := strings.HasSuffix(rev, string(appendDigest(nil, record)))
		marked := strings.ContainsAny(rev, marks) // the script does not compare what follows a mark
		if vouched && !marked {
			if got, err := driver.ParseRecord(name, rev, record); err == nil {
				l = got
			}
		}
	}

	for c := range p.topics.Matching(name) {
		driver.Notify(c, l)
	}
}

// notify tells the subscribers of name that the register has changed.
func (p *notifier) notify(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.topics.Matching(name) {
		driver.Notify(c, driver.Record{Name: name})
	}
}

// notifyAll tells all subscribers that anything may have changed.
func (p *notifier) notifyAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.NotifyAll()
}

// watchedLocked reports whether the register has a subscriber.
func (p *notifier) watchedLocked(name string) bool {
	for range p.topics.Matching(name) {
		return true
	}
	return false
}

// noteRead sets the timer of an election that was read just now. There is no timer if left is negative: the server does
// not know when the election expires, so its observers decide that by their own clocks.
func (p *notifier) noteRead(l driver.Record, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.topics.Empty() {
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

// expectMessage keeps a vacant record that is about to be written under a new revision. If that revision is published,
// the record is what was written, and need not be parsed.
func (p *notifier) expectMessage(l driver.Record, rev string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.topics.Empty() {
		return
	}

	l.Rev = rev
	p.written = l
}

// noteWrite removes the timer of an election that this Store has written: its own holder does not wait for its expiry.
func (p *notifier) noteWrite(l driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if _, ok := p.expiry[l.Name]; !ok {
		return
	}
	delete(p.expiry, l.Name)
}

// expectLocked sets the timer of an election.
func (p *notifier) expectLocked(name string, at time.Time) {
	p.expiry[name] = at
	if p.timer == nil {
		p.at, p.timer = at, time.AfterFunc(time.Until(at), p.expire)
	} else if at.Before(p.at) {
		p.at = at
		p.timer.Reset(time.Until(at))
	}
}

// expire handles the elections whose timer has fired. Most were renewed meanwhile.
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
		// The subscriber reads the election anyway, which sets the next timer. To read it here first would be a second
		// request for the same answer.
		p.notify(names[0])
		return
	}

	p.checkExpired(names)
}

// checkExpired reads elections whose timer has fired. To read one that was renewed sets its next timer.
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

// retryLater reads an election again in a second.
func (p *notifier) retryLater(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchedLocked(name) {
		p.expectLocked(name, time.Now().Add(time.Second))
	}
}
