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

// push is who wants to be woken, and when. Changes of hands are published by the script that makes
// them. An expiry nobody publishes, but whoever has read a seat knows when it will come unless it
// is renewed, so there is a timer for it. Renewals cost nothing.
type push struct {
	s  *Store
	mu sync.Mutex

	stopped   bool
	subs      driver.Fanout[chan driver.Record]
	unlisten  context.CancelFunc // ends the subscription; nil if there is none
	listening chan struct{}      // closed when the last one has ended

	expiry map[string]time.Time // when watched seats expire, as last seen
	timer  *time.Timer          // for the first of them, or earlier
	at     time.Time            // when it fires
}

// maxWatched bounds how many seats have a time of expiry. The others are found by polling.
const maxWatched = 4096

// late is added to an expiry. A lease is often a multiple of the interval at which it is renewed:
// who looks at its very end comes just before a renewal, and has to look again that much sooner.
const late = 250 * time.Millisecond

func (p *push) init(s *Store) {
	p.s, p.expiry = s, map[string]time.Time{}
	p.listening = make(chan struct{})
	close(p.listening)
}

// Wake implements [driver.Waker]. It also receives when a seat below prefix, which was read through
// this Store, has expired; and the zero Lease when a node of a cluster that was lost, or its
// successor, answers again.
func (s *Store) Wake(ctx context.Context, prefix string) <-chan driver.Record {
	c := make(chan driver.Record, 1)
	p := &s.push
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped || ctx.Err() != nil {
		return c
	}
	p.subs.Add(prefix, c)
	if p.unlisten == nil {
		p.listen()
	}
	context.AfterFunc(ctx, func() { p.remove(prefix, c) })
	return c
}

func (p *push) remove(prefix string, c chan driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs.Remove(prefix, c) && p.subs.Empty() {
		p.end()
	}
}

func (p *push) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.subs.Clear()
	p.end()
}

// end frees what nobody needs any more. The mutex is held.
func (p *push) end() {
	if p.unlisten != nil {
		p.unlisten()
		p.unlisten = nil
	}
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	clear(p.expiry)
}

// listen subscribes, after the subscription before has ended. The mutex is held.
func (p *push) listen() {
	ctx, cancel := context.WithCancel(p.s.ctx)
	before, done := p.listening, make(chan struct{})
	p.unlisten, p.listening = cancel, done
	p.s.work.Go(func() {
		defer close(done)
		<-before
		p.s.receive(ctx)
	})
}

// receive turns what is published into hints, until ctx ends. It uses the connection of all other
// calls: while they are answered, nothing that is published is lost.
func (s *Store) receive(ctx context.Context) {
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "subscribe" {
			s.push.fireAll() // something may have been missed before
		}
	})
	ctx = rueidis.WithOnReceiveReturnHook(ctx, func(err error, c rueidis.CommandClient) error {
		if ctx.Err() != nil && !s.closed.Load() { // nobody listens any more
			bye, cancel := context.WithTimeout(s.ctx, time.Second)
			defer cancel()
			c.Do(bye, c.B().Unsubscribe().Channel(s.channel).Build())
		}
		return err
	})
	for failed := 0; ctx.Err() == nil; failed++ {
		began := time.Now()
		_ = s.client.Receive(ctx, s.client.B().Subscribe().Channel(s.channel).Build(), func(m rueidis.PubSubMessage) {
			s.push.hear(m.Message)
		})
		if time.Since(began) > time.Minute {
			failed = 0
		}
		// At once the first time, since that only finds the old connection dead.
		t := time.NewTimer(min(time.Duration(failed)*50*time.Millisecond, time.Second))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
	}
}

// nameOf returns the name whose seat has that key.
func (s *Store) nameOf(key string) (string, bool) {
	name, ok := strings.CutPrefix(key, s.addr.prefix)
	if !ok || !strings.Contains(name, "%") {
		return name, ok && name != ""
	}
	name, err := url.PathUnescape(name)
	return name, err == nil
}

// hear turns a message into hints: the key of a seat, and maybe its revision and record after it.
// Whoever may publish could have sent it: a record counts only under a revision with its digest,
// and then only a register that shows it can be claimed.
func (p *push) hear(message string) {
	key, news, _ := strings.Cut(message, "\n")
	name, ok := p.s.nameOf(key)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := driver.Record{Name: name} // it has to be read, unless the message brings its record
	if rev, record, ok := strings.Cut(news, "\n"); ok && p.watched(name) {
		record := []byte(record)
		vouched := strings.HasSuffix(rev, string(appendDigest(nil, record)))
		marked := strings.ContainsAny(rev, marks) // the script would not compare what follows a mark
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

// fire tells everybody above name that its register has to be read.
func (p *push) fire(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.subs.Matching(name) {
		driver.Hint(c, driver.Record{Name: name})
	}
}

// fireAll tells everybody that anything may have changed.
func (p *push) fireAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.subs.All() {
		driver.Hint(c, driver.Record{})
	}
}

// watched reports whether anybody subscribes to the register. The mutex is held.
func (p *push) watched(name string) bool {
	for range p.subs.Matching(name) {
		return true
	}
	return false
}

// read takes in how a seat stands that was read just now. It has no timer if left is negative: the
// server does not know when it expires, so that it is for the reader to say.
func (p *push) read(l driver.Record, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.subs.Empty() {
		return
	}
	foreign := l.Holder.Incarnation == foreigner
	if left < 0 || !foreign && !expires(l) || !p.watched(l.Name) {
		delete(p.expiry, l.Name)
		return
	}
	if _, ok := p.expiry[l.Name]; ok || len(p.expiry) < maxWatched {
		p.expect(l.Name, time.Now().Add(left+late))
	}
}

// wrote takes in a swap that was made just now. Its own seat nobody watches for its expiry, but may
// have before.
func (p *push) wrote(l driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.expiry[l.Name]; !ok {
		return
	}
	delete(p.expiry, l.Name)
}

// expect sets the time of a seat. The mutex is held.
func (p *push) expect(name string, at time.Time) {
	p.expiry[name] = at
	if p.timer == nil {
		p.at, p.timer = at, time.AfterFunc(time.Until(at), p.due)
	} else if at.Before(p.at) {
		p.at = at
		p.timer.Reset(time.Until(at))
	}
}

// due looks after the seats whose time has come. Most were renewed meanwhile.
func (p *push) due() {
	p.mu.Lock()
	var names []string
	now, next := time.Now(), time.Time{}
	for name, at := range p.expiry {
		switch {
		case !at.After(now):
			delete(p.expiry, name)
			if p.watched(name) {
				names = append(names, name)
			}
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	if p.timer = nil; !next.IsZero() {
		p.at, p.timer = next, time.AfterFunc(time.Until(next), p.due)
	}
	alone := len(p.expiry) == 0 && len(names) == 1
	p.mu.Unlock()
	if alone {
		// Whoever is hinted reads the seat anyway, which sets its next time. To look first would be
		// a second request for the same answer.
		p.fire(names[0])
		return
	}
	p.check(names)
}

// check asks for seats whose time has come. Reading one that was renewed sets its next time.
func (p *push) check(names []string) {
	ctx, cancel := context.WithTimeout(p.s.ctx, dialTimeout)
	defer cancel()
	for len(names) > 0 {
		n := min(len(names), listPage)
		for i, o := range p.s.readEach(ctx, named(names[:n])) {
			switch {
			case o.Err == nil && o.Record.Vacant():
				p.fire(names[i])
			case o.Err != nil && !errors.Is(o.Err, driver.ErrNotFound):
				p.again(names[i])
			}
		}
		names = names[n:]
	}
}

// again tries in a second what could not be read.
func (p *push) again(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.watched(name) {
		p.expect(name, time.Now().Add(time.Second))
	}
}
