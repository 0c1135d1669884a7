package redis

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// This file is the subscriptions in a cluster: each over the connection of all other calls to the node that has the
// channel. While these calls are answered, no published message is lost.

// subscribeShards subscribes to what topics asks for, until nothing is followed any more.
func (p *notifier) subscribeShards() {
	ctx, cancel := context.WithCancel(p.s.ctx)
	defer cancel()

	receiving := map[driver.Topic]context.CancelFunc{}
	for {
		subscribe, unsubscribe := p.next()
		for _, t := range unsubscribe {
			receiving[t]()
			delete(receiving, t)
		}

		for _, t := range subscribe {
			one, end := context.WithCancel(ctx)
			receiving[t] = end
			p.s.goroutines.Go(func() { p.receive(one, t) })
		}

		if p.rest() {
			p.lostAll()
			return
		}

		select {
		case <-p.work:
		case <-ctx.Done():
			return
		}
	}
}

// receive turns the messages of one channel into notifications, until ctx ends.
func (p *notifier) receive(ctx context.Context, t driver.Topic) {
	s := p.s
	channel := s.channelOf(t)
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "ssubscribe" || sub.Kind == "subscribe" {
			p.confirmed(t)
		}
	})

	ctx = rueidis.WithOnReceiveReturnHook(ctx, func(err error, c rueidis.CommandClient) error {
		if ctx.Err() != nil && !s.closed.Load() { // it is given up
			bye, cancel := context.WithTimeout(s.ctx, time.Second)
			defer cancel()
			if t.Name != "" {
				c.Do(bye, c.B().Sunsubscribe().Channel(channel).Build())
			} else {
				c.Do(bye, c.B().Unsubscribe().Channel(channel).Build())
			}
		}
		return err
	})

	for failed := 0; ctx.Err() == nil; failed++ {
		began := time.Now()
		command := s.client.B().Subscribe().Channel(channel).Build()
		if t.Name != "" {
			command = s.client.B().Ssubscribe().Channel(channel).Build()
		}

		err := s.client.Receive(ctx, command, func(m rueidis.PubSubMessage) { p.publish(m.Message) })
		if ctx.Err() != nil {
			return
		}

		p.interrupted(t)
		if t.Name != "" {
			p.shareOnly(err)
		}

		if time.Since(began) > time.Minute {
			failed = 0
		}
		p.pause(ctx, failed)
	}
}

// interrupted takes in that a subscription has ended, and that it is made again.
func (p *notifier) interrupted(t driver.Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Interrupted(t)
	poke(p.work)
}
