package shell

import (
	"fmt"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// loop waits for the next time that the core asked for, and for notifications.
type loop struct {
	s        *Shell
	notifier driver.Notifier // nil if the store sends no notifications

	wakeAt atomic.Int64  // when the core is to be stepped
	armed  atomic.Int64  // when the loop wakes; notWaiting while it does not wait
	rearm  chan struct{} // receives when the loop has to check all of this anew
	ticks  []core.Input  // the input of time that has passed; never changed
	timer  timer         // of whoever waits
	relay  func()        // run, as a value: a go statement with it allocates nothing

	// What follows belongs to whoever steps the core, except the channels of the subscriptions.
	elections  subscription
	members    subscription
	subscribed bool // the core has asked for notifications
}

const notWaiting = math.MinInt64

func (l *loop) init(s *Shell, store driver.Store) {
	l.s = s
	l.notifier, _ = store.(driver.Notifier)
	l.rearm = make(chan struct{}, 1)
	l.ticks = []core.Input{core.Tick{}}
	l.timer.clock = s.clock
	l.relay = l.run
	l.elections.init()
	l.members.init()
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

		go l.relay()
		for _, j := range jobs[1:] {
			l.s.send(j)
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
		due = l.timer.after(time.Duration(max(0, core.Time(at)-l.s.now())))
		defer l.timer.stop()
	}

	select {
	case <-due:
		// If nobody can step the core now, there is no other tick until somebody has.
		if l.wakeAt.CompareAndSwap(at, int64(core.Never)) {
			return l.ticks
		}
	case r := <-l.elections.receive():
		return []core.Input{core.Notice{Record: r}}
	case r := <-l.members.receive():
		// A member that leaves has released its elections before: they can be claimed without a read.
		return append(l.elections.last(), core.Notice{Record: r})
	case <-l.rearm:
	case <-l.s.ctx.Done():
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

// step steps the core through all inputs and whatever is due, unless somebody else does that. It returns the requests
// that its caller is to perform.
//
// The kernel's clock is dear, so it is read once for all inputs that have come. That is after they came, from when an
// observer counts (rule 2), and before what follows from them is sent, from when a holder counts (rule 1).
func (s *Shell) step() []*job {
	if !s.queue.acquire() {
		return nil
	}

	var run []*job
	defer func() {
		if v := recover(); v != nil {
			s.die(&PanicError{v, debug.Stack()})
		}
	}()
	for {
		inputs := s.queue.ready()
		now := s.now()
		s.queue.stepping(now)
		if inputs == 0 && s.core.Next() <= now {
			s.take(now, core.Tick{})
		}

		for range min(inputs, inputsAtOnce) {
			s.take(now, s.queue.next())
			if len(s.sends) >= batch {
				run = appendJobs(run, s.dispatch())
			}
		}

		if s.queue.ready() > 0 || s.due(now) {
			continue
		}

		s.loop.followDue(now)
		run = appendJobs(run, s.dispatch())
		s.host.Stepped(s.core)
		s.loop.wake(min(s.core.Next(), s.loop.followAt()))
		if s.queue.release() {
			return run
		}
	}
}

const (
	inputsAtOnce = 64                          // how many inputs the core takes in by one reading of the clock, at most
	soon         = core.Time(time.Millisecond) // what is due within it may be due by now
)

// due reports whether the core is to be stepped again. now is a little old.
func (s *Shell) due(now core.Time) bool {
	at := s.core.Next()
	return at <= now || at-now < soon && at <= s.now()
}

// take takes in one input.
func (s *Shell) take(now core.Time, in core.Input) {
	if q, ok := in.(query); ok {
		q.f(s.core, now)
		return
	}

	if s.core.WritesInfo(now) {
		if info, changed := s.host.Info(); changed {
			s.feed(now, core.Publish{Info: info})
		}
	}

	s.feed(now, in)
	if n, ok := in.(core.Notice); ok {
		s.loop.of(n.Record.Name).noticed(n.Record.Name)
	}
}

// feed steps the core, and executes the effects.
func (s *Shell) feed(now core.Time, in core.Input) {
	for _, e := range s.core.Step(now, in) {
		s.execute(now, e)
	}
}

// execute executes one effect of a step at now.
func (s *Shell) execute(now core.Time, effect core.Effect) {
	switch e := effect.(type) {
	case core.Send:
		s.sends = append(s.sends, e)
	case core.Wake: // Core.Next is asked when everything has been taken in
	case core.Subscribe:
		s.loop.subscribed = true
		if e.Members {
			s.loop.members.all = driver.MemberPrefix
		}
	case core.Follow:
		s.loop.of(e.Name).follow(e.Name, now)
	case core.Unfollow:
		s.loop.of(e.Name).unfollow(e.Name)
	case core.Begin:
		s.begin(e)
	case core.End:
		s.end(e)
	case core.Renewed:
		s.renewed(e)
		s.host.Handle(effect)
	case core.Finished:
		delete(s.terms, e.Election)
		s.host.Handle(effect)
	case core.Closed:
		s.host.Handle(effect)
		if !s.over {
			s.over = true
			close(s.closed)
		}
	default:
		s.host.Handle(effect)
	}
}

// die ends everything after a panic: nobody steps the core any more.
func (s *Shell) die(err error) {
	for _, l := range s.leases {
		l.end(s.cause(core.Panicked, ""))
	}

	for _, t := range s.terms {
		t.Drop(s.cause(core.Panicked, ""))
	}

	if !s.over {
		s.over = true
		close(s.closed)
	}

	close(s.dead)
	s.panicked(err)
}

// PanicError is a recovered panic of a driver.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
