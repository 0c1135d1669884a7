package nats

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/regentd/regent/driver"
)

// buffered is how many notifications may wait. If there are more, some are dropped, and every subscriber reads.
const buffered = 4096

// notifier holds the subscriptions.
//
// The stream publishes every message that it has stored once more, to a subject of its own, with its sequence number.
// That is what is subscribed to: by the name of a register, or all members, or all. Unlike a consumer of JetStream,
// such a subscription is no state of the cluster, sends no heartbeats, and moves with the client to another server.
type notifier struct {
	s        *Store
	messages chan *nats.Msg
	changed  chan struct{} // receives when there are subscriptions to begin or to end

	mu      sync.Mutex
	topics  driver.Topics
	active  map[driver.Topic]*nats.Subscription
	last    map[string]driver.Record // what decides whether a change is notable, by register
	started bool
	warned  bool
}

func (p *notifier) init(s *Store) {
	p.s = s
	p.messages = make(chan *nats.Msg, buffered)
	p.changed = make(chan struct{}, 1)
	p.active = map[driver.Topic]*nats.Subscription{}
	p.last = map[string]driver.Record{}
}

// Subscribe implements [driver.Notifier] with a subscription for each register that is followed by its name, or one for
// all if there are many.
func (s *Store) Subscribe(ctx context.Context, to *driver.Interest) <-chan driver.Record {
	return to.Subscription(ctx, s.notifier.apply)
}

// apply takes in a change of what a subscription follows.
func (p *notifier) apply(change driver.InterestChange, c chan driver.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Apply(change, c)
	p.wake()
	if !p.started && !p.topics.Closed() {
		p.started = true
		p.s.start(func() { p.listen(p.s.ctx) })
		p.s.start(func() { p.keep(p.s.ctx) })
	}
}

func (p *notifier) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Close()
}

// wake makes keep begin and end subscriptions.
func (p *notifier) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// wakeAll notifies every subscriber that anything may have changed.
func (p *notifier) wakeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.last)
	p.topics.NotifyAll()
}

// lost takes in that the connection is lost. The client subscribes again by itself once it is back.
func (p *notifier) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.last)
	p.topics.LostAll()
}

// denied takes in that the server has refused a subscription.
func (p *notifier) denied(subject string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.HasPrefix(subject, p.s.addr.changes()) && !p.warned {
		p.warned = true
		p.s.warn(fmt.Sprintf("%s: changes are found by polling alone: %v", p.s, err))
	}
}

// subjectOf returns what is subscribed to for a topic.
func (p *notifier) subjectOf(t driver.Topic) string {
	switch t {
	case driver.AllTopic:
		return p.s.addr.changes() + ">"
	case driver.MembersTopic:
		return p.s.addr.changes() + encodeName(strings.TrimSuffix(driver.MemberPrefix, "/")) + ".>"
	}
	return p.s.addr.changes() + encodeName(t.Name)
}

// keep begins and ends subscriptions until ctx ends.
func (p *notifier) keep(ctx context.Context) {
	for failed := 0; ; {
		var again <-chan time.Time
		if failed > 0 {
			again = time.After(min(time.Duration(failed)*50*time.Millisecond, maxPause))
		}
		select {
		case <-p.changed:
		case <-again:
		case <-ctx.Done():
			return
		}

		if p.step(ctx) {
			failed = 0
		} else {
			failed++
		}
	}
}

// step begins and ends subscriptions until they are what subscribers need, and reports whether they are.
func (p *notifier) step(ctx context.Context) bool {
	for ctx.Err() == nil && p.s.conn.IsConnected() {
		p.mu.Lock()
		begin, end := p.topics.Next()
		p.endLocked(end)
		p.endUnusedLocked()
		err := p.beginLocked(begin)
		p.mu.Unlock()
		if len(begin)+len(end) == 0 {
			return true
		}

		if err == nil && len(begin) > 0 {
			err = p.confirm(ctx)
		}
		p.settle(begin, err)
		if err != nil {
			return false
		}
	}
	return false
}

func (p *notifier) beginLocked(topics []driver.Topic) error {
	for _, t := range topics {
		if p.active[t] != nil {
			continue // the client has kept it over a lost connection
		}
		p.s.sent.Add("subscribe")
		sub, err := p.s.conn.ChanSubscribe(p.subjectOf(t), p.messages)
		if err != nil {
			return err
		}
		p.active[t] = sub
	}
	return nil
}

func (p *notifier) endLocked(topics []driver.Topic) {
	for _, t := range topics {
		if sub := p.active[t]; sub != nil {
			_ = sub.Unsubscribe() // it fails if the connection is closed
			delete(p.active, t)
		}
		p.forgetLocked(t)
	}
}

// endUnusedLocked ends the subscriptions that the client has kept over a lost connection, and that were given up
// meanwhile.
func (p *notifier) endUnusedLocked() {
	for t := range p.active {
		if !p.topics.Asked(t) {
			p.endLocked([]driver.Topic{t})
		}
	}
}

// forgetLocked forgets what the registers of a topic have shown: they may have changed while nobody followed them, and
// back since.
func (p *notifier) forgetLocked(t driver.Topic) {
	if t.Name != "" {
		delete(p.last, t.Name)
	} else {
		clear(p.last)
	}
}

// confirm waits until the server that leads the stream knows of the subscriptions. They travel ahead of the barrier,
// over the same connections.
func (p *notifier) confirm(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	_, err := p.s.barrier(short)
	return err
}

// settle reports what has become of subscriptions.
func (p *notifier) settle(topics []driver.Topic, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range topics {
		if err != nil {
			p.topics.Lost(t)
		} else {
			p.forgetLocked(t)
			p.topics.Confirmed(t)
		}
	}
}

// listen turns messages into notifications until ctx ends.
func (p *notifier) listen(ctx context.Context) {
	for {
		select {
		case m := <-p.messages:
			p.publish(m)
		case <-ctx.Done():
			return
		}
	}
}

// publish notifies of a change, if it is notable.
func (p *notifier) publish(m *nats.Msg) {
	name, ok := decodeName(strings.TrimPrefix(m.Subject, p.s.addr.changes()))
	message, numbered := parseStored(m)
	if !ok || !numbered {
		return
	}

	l, err := message.decode(name)
	if err != nil {
		l = driver.Record{Name: name}
	}
	if !message.removed {
		p.s.known.add(name, message.revision())
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if message.removed { // nobody waits for a vacant register
		delete(p.last, name)
		return
	}
	last, seen := p.last[name]
	p.last[name] = driver.Record{Holder: l.Holder, Epoch: l.Epoch, Next: l.Next, Paused: l.Paused}
	if seen && !l.Notable(last) {
		return
	}
	for c := range p.topics.Matching(name) {
		driver.Notify(c, l)
	}
}
