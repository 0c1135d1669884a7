package redis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// This file is the connection for notifications of one server, or of a primary that sentinels name. It carries nothing
// else, so that a notification waits for no answer and no answer for a notification.

const (
	// proofInterval is how often a connection proves that its subscriptions are in force.
	proofInterval = 30 * time.Second
	// proofTimeout is how long an answer over the connection may take.
	proofTimeout = 2 * time.Second
	// channelsAtOnce is how many channels one command names.
	channelsAtOnce = 128
	// proofChannel follows the name of the shared channel. Nothing is published there.
	proofChannel = "proof"
)

var (
	errDropped      = errors.New("the server has dropped subscriptions")
	errOtherPrimary = errors.New("another server may be the primary")
)

// push is one connection for notifications.
type push struct {
	p     *notifier
	wire  rueidis.DedicatedClient
	count int        // how many channels the connection has subscribed to
	proof chan int64 // receives how many channels the server counts
}

// listen subscribes over one connection to what topics asks for, until the connection is lost or nothing is followed
// any more.
func (p *notifier) listen(ctx context.Context) error {
	wire, err := p.s.dedicate(ctx)
	if err != nil {
		return err
	}

	select {
	case <-p.suspect: // of the connection before, or older than this one
	default:
	}

	c := &push{p: p, wire: wire, proof: make(chan int64, 1)}
	defer p.lostAll()
	defer wire.Close()

	lost := wire.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { p.publish(m.Message) },
		OnSubscription: c.confirmed,
	})

	prove := time.NewTicker(p.proofs)
	defer prove.Stop()

	if err := c.prove(ctx); err != nil {
		return err
	}

	p.s.direct.open() // whoever waits for a notification may have to claim an election next

	for {
		if err := c.follow(ctx); err != nil {
			return err
		}
		if p.idle() {
			return nil
		}

		select {
		case <-p.work:
		case <-prove.C:
			if err := c.prove(ctx); err != nil {
				return err
			}
		case err := <-lost:
			return err
		case <-p.suspect:
			if err := c.doubt(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// idle reports whether nothing is followed any more.
func (p *notifier) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics.Empty()
}

func (p *notifier) lostAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.LostAll()
}

// dedicate returns a connection. It returns when ctx ends, which the client's own function does not.
func (s *Store) dedicate(ctx context.Context) (rueidis.DedicatedClient, error) {
	done := make(chan rueidis.DedicatedClient, 1)
	go func() {
		wire, _ := s.client.Dedicate()
		done <- wire
	}()

	select {
	case wire := <-done:
		return wire, nil
	case <-ctx.Done():
		go func() { (<-done).Close() }()
		return nil, ctx.Err()
	}
}

// follow subscribes and unsubscribes.
func (c *push) follow(ctx context.Context) error {
	subscribe, unsubscribe := c.p.next()
	for len(subscribe) > 0 {
		n := min(len(subscribe), channelsAtOnce)
		if err := c.ask(ctx, c.wire.B().Subscribe().Channel(c.channels(subscribe[:n])...).Build()); err != nil {
			c.p.shareOnly(err)
			return err
		}
		c.count += n
		subscribe = subscribe[n:]
	}

	for len(unsubscribe) > 0 {
		n := min(len(unsubscribe), channelsAtOnce)
		if err := c.ask(ctx, c.wire.B().Unsubscribe().Channel(c.channels(unsubscribe[:n])...).Build()); err != nil {
			return err
		}
		c.count -= n
		unsubscribe = unsubscribe[n:]
	}

	return nil
}

func (c *push) channels(topics []driver.Topic) []string {
	channels := make([]string, len(topics))
	for i, t := range topics {
		channels[i] = c.p.s.channelOf(t)
	}
	return channels
}

// ask sends one command, and closes a connection over which no answer comes.
func (c *push) ask(ctx context.Context, command rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, proofTimeout)
	defer cancel()
	return c.wire.Do(ctx, command).Error()
}

// confirmed takes in a confirmation of the server.
func (c *push) confirmed(s rueidis.PubSubSubscription) {
	if s.Kind != "subscribe" {
		return
	}

	if s.Channel == c.p.s.channel+proofChannel {
		select {
		case c.proof <- s.Count:
		default:
		}
		return
	}

	if t, ok := c.p.s.topicOf(s.Channel); ok {
		c.p.confirmed(t)
	}
}

// doubt is called when another connection of the store was lost. What has broken it may have broken this one as well,
// and where sentinels name the primary, another server may be the primary now.
func (c *push) doubt(ctx context.Context) error {
	if !c.p.s.conns.single {
		return errOtherPrimary
	}
	if err := c.prove(ctx); err != nil {
		return err
	}

	c.p.notifyAll() // messages may have been lost on the way
	return nil
}

// prove subscribes to a channel of its own, again and again. The answer says how many channels the connection has
// subscribed to as far as the server knows: fewer than expected if the server, or a proxy, has dropped some.
func (c *push) prove(ctx context.Context) error {
	err := c.ask(ctx, c.wire.B().Subscribe().Channel(c.p.s.channel+proofChannel).Build())
	if err != nil {
		return err
	}

	t := time.NewTimer(proofTimeout)
	defer t.Stop()

	select {
	case got := <-c.proof:
		if got < int64(c.count)+1 {
			return errDropped
		}
		return nil
	case <-t.C:
		return context.DeadlineExceeded
	case <-ctx.Done():
		return ctx.Err()
	}
}
