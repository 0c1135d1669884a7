package redis

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/regentd/regent/driver"
)

// This file is the channels of notifications. The script that changes a register publishes that on a channel of the
// register, and on the shared channels: see swap.lua. In a cluster the channel of a register is a shard channel: it is
// in the hash slot of the register, so only the nodes of that slot know of the message. A client subscribes to the
// channels of the registers that it follows, or to a shared one if they are more than driver.MaxTopics.

// membersChannel follows the name of the shared channel, and makes it that of the member registers.
const membersChannel = "members"

// channelOf returns the channel of a topic.
func (s *Store) channelOf(t driver.Topic) string {
	switch t {
	case driver.AllTopic:
		return s.channel
	case driver.MembersTopic:
		return s.channel + membersChannel
	}
	return string(append(s.appendKey(append([]byte(s.channel), '{'), t.Name), '}'))
}

// topicOf is the inverse of channelOf.
func (s *Store) topicOf(channel string) (driver.Topic, bool) {
	rest, ok := strings.CutPrefix(channel, s.channel)
	switch {
	case !ok:
		return driver.Topic{}, false
	case rest == "":
		return driver.AllTopic, true
	case rest == membersChannel:
		return driver.MembersTopic, true
	case !strings.HasPrefix(rest, "{") || !strings.HasSuffix(rest, "}"):
		return driver.Topic{}, false
	}

	name, ok := s.nameOf(rest[1 : len(rest)-1])
	return driver.Topic{Name: name}, ok
}

// channelsLua is what swap.lua has to know of the channels.
func (s *Store) channelsLua() string {
	return "local channel, publish, members = " + luaString(s.channel) + ", " + luaString(s.publishCommand()) + ", " +
		luaString(s.addr.prefix+memberPrefix) + "\n"
}

// publishCommand returns the command that publishes on the channel of a register.
func (s *Store) publishCommand() string {
	if s.cluster {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// next returns the topics to subscribe to, and those to unsubscribe from.
func (p *notifier) next() (subscribe, unsubscribe []driver.Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.topics.Next()
}

// confirmed takes in that the server has confirmed a subscription.
func (p *notifier) confirmed(t driver.Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.Confirmed(t)
	poke(p.work)
}

// shareOnly takes in an answer to a subscription to the channel of a register. A server without shard channels, or
// one that does not permit these channels, leaves the shared channels.
func (p *notifier) shareOnly(err error) {
	if re, ok := rueidis.IsRedisErr(err); !noShards(err) && (!ok || !strings.HasPrefix(re.Error(), "NOPERM")) {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.topics.SharedOnly = true
	poke(p.work)
}

// noShards reports whether a server has no shard channels: a cluster before Redis 7.
func noShards(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(re.Error(), "unknown command")
}

// subscribe subscribes to what topics asks for, until nothing is followed any more.
func (p *notifier) subscribe() {
	if p.s.cluster {
		p.subscribeShards()
		return
	}

	for failed := 0; !p.rest(); failed++ {
		began := time.Now()
		_ = p.listen(p.s.ctx)
		if p.s.ctx.Err() != nil {
			return
		}

		if time.Since(began) > time.Minute {
			failed = 0
		}
		p.pause(p.s.ctx, failed)
	}
}

// pause waits before the next attempt. The first is immediate, because it often only finds that a connection is dead.
func (p *notifier) pause(ctx context.Context, failed int) {
	t := time.NewTimer(min(time.Duration(failed)*50*time.Millisecond, time.Second))
	defer t.Stop()

	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
