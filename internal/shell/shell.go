// Package shell steps a [core.Core] and executes its effects: it sends the requests, keeps the time, receives the
// notifications, and reports to its host when terms begin and end. The core decides; the shell has no protocol of its
// own.
//
// # How it works
//
// Inputs are queued. Whoever queues one steps the core through the queue, unless somebody else does already. So the
// core is stepped by one goroutine at a time, and no goroutine ever waits for its turn. One goroutine, the loop,
// waits for the next time that the core asked for and for notifications. It sends the request that follows from a
// notification itself, and another goroutine takes its place: between a notification and the begin of a term nothing
// is handed over. The spare goroutine waits for a request to perform, once there was one.
//
// A request has a goroutine, a timeout, and one of a limited number of permits. An answer that comes after the timeout
// is passed on, and the core ignores it. Nothing waits for a store that hangs.
//
// Read in this order: loop.go waits, steps the core and executes its effects; requests.go sends requests, and list.go
// those that list registers; notices.go subscribes to notifications; term.go and guard.go are terms and their
// deadlines.
//
// # Deadlines
//
// The core ends terms before their deadlines, if it is stepped in time. If it is not, because a callback of the host
// blocks or the machine is busy, the guard does so: a goroutine that shares no lock with anything that may block.
// [Term.Valid] compares the deadline, which is an atomic value. So a term that is not renewed is not valid after its
// deadline, and its context has ended before, whatever the loop is doing.
package shell

import (
	"context"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// Clock is the time by which a member counts. It counts while the machine is suspended (rule 8).
type Clock interface {
	// Now is the time since some fixed instant.
	Now() time.Duration
	// NewTimer is time.NewTimer on this clock.
	NewTimer(d time.Duration) *time.Timer
}

// Host is who runs a Shell. Its methods are called one at a time, in the order of what happened. While one of them
// blocks nothing goes on, except that terms end before their deadlines. They may call any method of the Shell but
// Close.
type Host interface {
	// Parent returns the context that the context of a term descends from.
	Parent(core.Begin) context.Context
	// Begin starts the duty of a term. The host must pass a core.DutyStopped when nothing of it runs any more, whatever
	// the reason.
	Begin(*Term)
	// End says that a term has ended. Its context has ended too, maybe before this call.
	End(*Term, core.End)
	// Handle takes all other effects, except those that the shell executes: Send, Wake, Subscribe,
	// Follow and Unfollow.
	Handle(core.Effect)
	// Info returns what the member publishes about itself, and true if that has changed since the last call. It is
	// called before a heartbeat.
	Info() ([]byte, bool)
	// Stepped says that the core has taken in everything. It may be queried now.
	Stepped(*core.Core)
}

// Config is what a Shell needs. All fields must be set.
type Config struct {
	Core  *core.Core // not stepped yet, except by inputs that have no effects
	Store driver.Store
	Clock Clock
	Host  Host
	Cause func(cause core.Cause, detail string) error // what ends the context of a term; it must not wait for anything

	// Panicked gets a panic of the driver, of the host or of the core, from any goroutine. After one of the host
	// or the core the shell is dead: all terms have ended, and the core is not stepped any more.
	Panicked func(error)
}

// Shell runs one core. Its methods are safe for concurrent use.
type Shell struct {
	core  *core.Core
	clock Clock
	host  Host
	cause func(core.Cause, string) error

	panicked func(error)

	queue    queue
	requests requests
	loop     loop
	guard    guard
	spare    spare

	// What follows belongs to whoever steps the core.
	leases map[string]*lease // by heartbeat register
	terms  map[string]*Term  // by election, until they are finished
	sends  []core.Send       // to be sent
	over   bool              // the core is closed

	ctx    context.Context // of everything that the shell runs
	cancel context.CancelFunc
	endMu  sync.Mutex     // held while ctx is ended
	wg     sync.WaitGroup // its goroutines, except those of requests
	closed chan struct{}  // closed when the core is
	dead   chan struct{}  // closed when nobody steps the core any more, after a panic
}

// New starts a shell. It sends nothing before the core has got a Join.
func New(cfg Config) *Shell {
	s := &Shell{core: cfg.Core, clock: cfg.Clock, host: cfg.Host, cause: cfg.Cause, panicked: cfg.Panicked}
	s.leases = map[string]*lease{}
	s.terms = map[string]*Term{}
	s.closed = make(chan struct{})
	s.dead = make(chan struct{})
	s.spare.handed = make(chan handed)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.requests.init(s, cfg.Store)
	s.loop.init(s, cfg.Store)
	s.guard.init(s)

	s.wg.Go(s.guard.run)
	s.wg.Add(1)
	go s.loop.run()
	return s
}

// Do queues inputs, and steps the core unless somebody else does. It never waits for the store.
func (s *Shell) Do(in ...core.Input) {
	s.queue.add(in...)
	for _, j := range s.step() {
		s.send(j)
	}
}

// DoHere steps the core like Do, and sends the first request that follows itself: it may wait for the store.
func (s *Shell) DoHere() {
	jobs := s.step()
	if len(jobs) == 0 {
		return
	}

	for _, j := range jobs[1:] {
		s.send(j)
	}
	s.work(jobs[0])
}

// Queue queues inputs without stepping the core. A Do must follow. It is for callers that hold a lock which their Host
// needs.
func (s *Shell) Queue(in ...core.Input) { s.queue.add(in...) }

// Query calls f with the core, between two steps, and returns when f has; after a panic it may not be called at all.
// The Host must not use it.
func (s *Shell) Query(f func(*core.Core, core.Time)) {
	done := make(chan struct{})
	s.Do(query{f: func(c *core.Core, now core.Time) {
		defer close(done)
		f(c, now)
	}})
	select {
	case <-done:
	case <-s.dead:
	}
}

// query is an input for the shell itself.
type query struct {
	core.Tick
	f func(*core.Core, core.Time)
}

// Close ends all terms, releases what is held, leaves, and returns when nothing of the shell runs any more. It waits
// for duties. A driver that does not return when its context ends is waited for no longer than the timeout of a
// request.
func (s *Shell) Close() {
	s.Do(core.Close{})
	<-s.closed
	s.endMu.Lock()
	s.cancel()
	s.endMu.Unlock()
	s.wg.Wait()
	s.requests.wait()
}

// Closed is closed when the core has nothing left to do.
func (s *Shell) Closed() <-chan struct{} { return s.closed }

// Lag returns how long the core has not been stepped although it should have been.
func (s *Shell) Lag() time.Duration {
	now := s.now()
	due := core.Time(s.loop.wakeAt.Load())
	if since := s.queue.since(); since != 0 {
		due = min(due, since)
	}

	return time.Duration(max(0, now-due))
}

func (s *Shell) now() core.Time { return core.Time(s.clock.Now()) }
