package shell

import (
	"context"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// loop waits for the next time that the core asked for, and for notifications.
type loop struct {
	s     *Shell
	waker driver.Waker // nil if the store sends no notifications

	wakeAt atomic.Int64  // when the core is to be stepped
	armed  atomic.Int64  // when the loop wakes; notWaiting while it does not wait
	rearm  chan struct{} // receives when the loop has to check all of this anew

	members   atomic.Pointer[subscription]
	elections atomic.Pointer[subscription]

	// What follows belongs to whoever steps the core.
	names      map[string]int // the elections of the inputs, and how often each was asked for
	uncovered  bool           // one of them is not covered by the subscription
	subscribed bool           // the core has asked for notifications
}

const notWaiting = math.MinInt64

// subscription is to the registers whose names begin with a prefix.
type subscription struct {
	prefix  string
	notices <-chan driver.Record
	cancel  context.CancelFunc
}

func (l *loop) init(s *Shell, store driver.Store) {
	l.s = s
	l.waker, _ = store.(driver.Waker)
	l.rearm = make(chan struct{}, 1)
	l.names = map[string]int{}
	l.wakeAt.Store(int64(core.Never))
	l.armed.Store(notWaiting)
}

// run waits until the shell is closed. When there is a request to send it sends the request itself, and another
// goroutine goes on waiting. The wait group counts whoever waits, not whoever sends.
func (l *loop) run() {
	for {
		in := l.wait()
		if l.s.ctx.Err() != nil {
			l.s.wg.Done()
			return
		}

		if len(in) == 0 {
			continue
		}

		l.s.queue.add(in...)
		jobs := l.s.step()
		if len(jobs) == 0 {
			continue
		}

		go l.run()
		for _, j := range jobs[1:] {
			go l.s.work(j)
		}

		l.s.work(jobs[0])
		return
	}
}

// wait returns the next input of time or of notifications; none if it is to be called again.
func (l *loop) wait() []core.Input {
	at := l.wakeAt.Load()
	l.armed.Store(at)
	defer l.armed.Store(notWaiting)
	if l.wakeAt.Load() < at {
		return nil
	}

	var due <-chan time.Time
	if core.Time(at) != core.Never {
		t := l.s.clock.NewTimer(time.Duration(max(0, core.Time(at)-l.s.now())))
		defer t.Stop()
		due = t.C
	}

	select {
	case <-due:
		// If nobody can step the core now, there is no other tick until somebody has.
		if l.wakeAt.CompareAndSwap(at, int64(core.Never)) {
			return []core.Input{core.Tick{}}
		}
	case r := <-notices(&l.elections):
		return []core.Input{core.Notice{Record: r}}
	case r := <-notices(&l.members):
		// A member that leaves has released its elections before: they can be claimed without a read.
		return append(l.last(l.elections.Load()), core.Notice{Record: r})
	case <-l.rearm:
	case <-l.s.ctx.Done():
	}

	return nil
}

func notices(s *atomic.Pointer[subscription]) <-chan driver.Record {
	if sub := s.Load(); sub != nil {
		return sub.notices
	}

	return nil
}

// wake sets when the core is to be stepped.
func (l *loop) wake(at core.Time) {
	l.wakeAt.Store(int64(at))
	if int64(at) < l.armed.Load() {
		l.again()
	}
}

// again makes the loop check what it waits for.
func (l *loop) again() {
	select {
	case l.rearm <- struct{}{}:
	default:
	}
}

// noteInput keeps the names of the elections that somebody is interested in, for the subscription.
func (l *loop) noteInput(in core.Input) {
	switch in := in.(type) {
	case core.Campaign:
		l.name(in.Election)
	case core.Watch:
		l.name(in.Election)
	case core.Withdraw:
		l.unname(in.Election)
	case core.Unwatch:
		l.unname(in.Election)
	}
}

func (l *loop) name(election string) {
	l.names[election]++
	if sub := l.elections.Load(); sub == nil || !strings.HasPrefix(election, sub.prefix) {
		l.uncovered = true
	}
}

func (l *loop) unname(election string) {
	if l.names[election]--; l.names[election] <= 0 {
		delete(l.names, election)
	}
}

// subscribe subscribes to all members, and to the elections if there are some that the subscription does not cover. The
// subscription before it is given up only then, so that nothing is missed in between.
func (l *loop) subscribe() {
	if l.waker == nil || !l.subscribed || l.s.ctx.Err() != nil {
		return
	}

	if l.members.Load() == nil {
		l.members.Store(l.open(driver.MemberPrefix))
		l.again()
	}

	if !l.uncovered || len(l.names) == 0 {
		return
	}

	l.uncovered = false

	old := l.elections.Load()
	l.elections.Store(l.open(commonPrefix(l.names)))
	if old != nil {
		l.s.queue.add(l.last(old)...)
		old.cancel()
	}

	l.again()
}

func (l *loop) open(prefix string) *subscription {
	ctx, cancel := context.WithCancel(l.s.ctx)
	return &subscription{prefix: prefix, notices: l.waker.Wake(ctx, prefix), cancel: cancel}
}

// last returns the notification that a subscription has received and the loop has not.
func (l *loop) last(s *subscription) []core.Input {
	if s == nil {
		return nil
	}

	select {
	case r := <-s.notices:
		return []core.Input{core.Notice{Record: r}}
	default:
		return nil
	}
}

// commonPrefix returns the longest prefix of all names, without a character that is cut in two.
func commonPrefix(names map[string]int) string {
	prefix := ""
	first := true
	for name := range names {
		if first {
			prefix = name
			first = false
		}

		n := 0
		for n < len(prefix) && n < len(name) && prefix[n] == name[n] {
			n++
		}

		prefix = prefix[:n]
	}

	return strings.ToValidUTF8(prefix, "")
}
