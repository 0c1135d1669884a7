package shell

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// This file is the loop's subscriptions: to the elections that somebody is interested in, and to the members that hold
// them. There are two, so that the release of an election is not merged with the news that its holder has left.

const (
	// maxUnused is how many registers stay followed although the core is not interested in them any more.
	maxUnused = 64
	// maxUnwanted is how many notifications of such a register may come. The first are often those of this member's own
	// release.
	maxUnwanted = 8
	// followDelay is how long a register is of interest before it is followed, unless it is read before that.
	followDelay = 50 * time.Millisecond
)

// subscription is to registers by their names. A register stays followed until some notifications have come that nobody
// wants, or until there are too many such registers: a member that leads now and then subscribes once.
//
// A register is followed from when it is first read. An election that is claimed without a read is followed only if the
// term lasts: a member that leads again and again in short terms would be notified of its own changes alone.
type subscription struct {
	interest *driver.Interest
	wanted   map[string]bool // the names that the core is interested in
	unused   map[string]int  // the names that are followed although it is not: how many notifications have come since
	all      string          // a prefix that is followed instead, if it is not empty

	later map[string]core.Time // the wanted names that are not followed yet, or as unused ones: when they will be
	next  core.Time            // when the first of them will be, or earlier

	// Set once, by whoever steps the core.
	notices atomic.Pointer[<-chan driver.Record]
}

func (s *subscription) init() {
	s.interest = driver.Names()
	s.wanted = map[string]bool{}
	s.unused = map[string]int{}
	s.later = map[string]core.Time{}
	s.next = core.Never
}

// follow takes in that the core is interested in a register.
func (s *subscription) follow(name string, now core.Time) {
	s.wanted[name] = true
	if s.all == "" {
		s.later[name] = now.Add(followDelay)
		s.next = min(s.next, s.later[name])
	}
}

// reads takes in that a register is about to be read. If it is of interest, it is followed before that, so that no
// change is missed.
func (s *subscription) reads(name string) {
	if _, ok := s.later[name]; !ok {
		return
	}

	delete(s.later, name)
	if len(s.later) == 0 {
		s.next = core.Never
	}

	if _, ok := s.unused[name]; ok {
		delete(s.unused, name)
	} else if s.all == "" {
		s.interest.Add(name)
	}
}

// followDue follows the registers that have been of interest for long enough.
func (s *subscription) followDue(now core.Time) {
	if now < s.next {
		return
	}

	s.next = core.Never
	for name, at := range s.later {
		if at <= now {
			s.reads(name)
		}
	}

	for _, at := range s.later {
		s.next = min(s.next, at)
	}
}

// unfollow takes in that the core is not interested in a register any more.
func (s *subscription) unfollow(name string) {
	delete(s.wanted, name)
	if s.all != "" {
		return
	}

	if _, ok := s.later[name]; ok {
		delete(s.later, name)
		return
	}

	s.unused[name] = 0
	if len(s.unused) <= maxUnused {
		return
	}

	for name := range s.unused {
		s.interest.Remove(name)
	}
	clear(s.unused)
}

// noticed takes in that a notification of a register has come.
func (s *subscription) noticed(name string) {
	n, ok := s.unused[name]
	switch {
	case !ok:
	case n+1 < maxUnwanted:
		s.unused[name] = n + 1
	default:
		delete(s.unused, name)
		s.interest.Remove(name)
	}
}

// receive returns the channel of notifications, nil if there is none yet.
func (s *subscription) receive() <-chan driver.Record {
	if c := s.notices.Load(); c != nil {
		return *c
	}

	return nil
}

// last returns the notification that was received and that the loop has not.
func (s *subscription) last() []core.Input {
	select {
	case r := <-s.receive():
		return []core.Input{core.Notice{Record: r}}
	default:
		return nil
	}
}

// of returns the subscription that follows a register.
func (l *loop) of(name string) *subscription {
	if strings.HasPrefix(name, driver.MemberPrefix) {
		return &l.members
	}

	return &l.elections
}

// followDue follows the registers that have been of interest for long enough.
func (l *loop) followDue(now core.Time) {
	l.elections.followDue(now)
	l.members.followDue(now)
}

// followAt is when followDue is to be called.
func (l *loop) followAt() core.Time { return min(l.elections.next, l.members.next) }

// followRead follows the registers that are about to be read.
func (l *loop) followRead(sends []core.Send) {
	if l.followAt() == core.Never {
		return
	}

	for i := range sends {
		if sends[i].Verb == core.Get {
			l.of(sends[i].Record.Name).reads(sends[i].Record.Name)
		}
	}
}

// subscribe subscribes as soon as there is something to follow, once the core has asked for notifications.
func (l *loop) subscribe() {
	if l.notifier == nil || !l.subscribed || l.s.ctx.Err() != nil {
		return
	}

	for _, s := range [...]*subscription{&l.elections, &l.members} {
		if s.notices.Load() != nil || len(s.wanted) == 0 && s.all == "" {
			continue
		}

		if s.all != "" {
			s.interest = driver.Prefix(s.all)
		}

		notices := l.notifier.Subscribe(l.s.ctx, s.interest)
		s.notices.Store(&notices)
		l.again()
	}
}
