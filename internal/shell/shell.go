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
// is handed over.
//
// A request has a goroutine, a timeout, and one of a limited number of slots. An answer that comes after the timeout
// is passed on, and the core ignores it. Nothing waits for a store that hangs.
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
	"runtime/debug"
	"sync"
	"sync/atomic"
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
	// Handle takes all other effects, except those that the shell executes: Send, Subscribe and Wake.
	Handle(core.Effect)
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
	believed sync.Map // election -> *Term: those that have not ended

	// What follows belongs to whoever steps the core.
	leases map[string]*lease // by heartbeat register
	terms  map[string]*Term  // by election, until they are finished
	sends  []core.Send       // to be sent
	over   bool              // the core is closed

	ctx    context.Context // of everything that the shell runs
	cancel context.CancelFunc
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
		go s.work(j)
	}
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

// Leads returns the current term of an election if this member's lease has not expired.
func (s *Shell) Leads(election string) (*Term, bool) {
	v, ok := s.believed.Load(election)
	if !ok {
		return nil, false
	}

	t := v.(*Term)
	return t, t.Valid()
}

// Close ends all terms, releases what is held, leaves, and returns when nothing of the shell runs any more. It waits
// for duties. A driver that does not return when its context ends is waited for no longer than the timeout of a
// request.
func (s *Shell) Close() {
	s.Do(core.Close{})
	<-s.closed
	s.cancel()
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

// batch is how many registers one request to the store names at most.
const batch = 1000

// step steps the core through all inputs and whatever is due, unless somebody else does that. It returns the requests
// that its caller is to perform.
func (s *Shell) step() []*job {
	if !s.queue.acquire(s.now()) {
		return nil
	}

	var run []*job
	defer func() {
		if v := recover(); v != nil {
			s.die(&PanicError{v, debug.Stack()})
		}
	}()
	for {
		in, ok := s.queue.next()
		now := s.now()
		if !ok && s.core.Next() <= now {
			in = core.Tick{}
			ok = true
		}

		if !ok || len(s.sends) >= batch {
			run = append(run, s.dispatch()...)
		}

		if !ok {
			s.host.Stepped(s.core)
			s.loop.wake(s.core.Next())
			if s.queue.release(s.now()) {
				return run
			}

			continue // another input has come
		}

		if q, ok := in.(query); ok {
			q.f(s.core, now)
			continue
		}

		for _, e := range s.core.Step(now, in) {
			s.execute(e)
		}

		s.loop.noteInput(in)
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

	s.believed.Clear()
	if !s.over {
		s.over = true
		close(s.closed)
	}

	close(s.dead)
	s.panicked(err)
}

// dispatch sends what the core has asked for.
func (s *Shell) dispatch() []*job {
	s.loop.subscribe() // before anything is read, so that no change is missed
	if len(s.sends) == 0 {
		return nil
	}

	jobs := s.requests.group(s.sends)
	s.sends = nil
	return s.requests.admit(jobs)
}

// execute executes one effect.
func (s *Shell) execute(e core.Effect) {
	switch e := e.(type) {
	case core.Send:
		s.sends = append(s.sends, e)
	case core.Wake: // Core.Next is asked when everything has been taken in
	case core.Subscribe:
		s.loop.subscribed = true
	case core.Begin:
		s.begin(e)
	case core.End:
		s.end(e)
	case core.Renewed:
		s.renewed(e)
		s.host.Handle(e)
	case core.Finished:
		delete(s.terms, e.Election)
		s.host.Handle(e)
	case core.Closed:
		s.host.Handle(e)
		if !s.over {
			s.over = true
			close(s.closed)
		}
	default:
		s.host.Handle(e)
	}
}

// work performs a request and those that follow from its answer.
func (s *Shell) work(j *job) {
	for j != nil {
		answers := s.requests.perform(j)
		s.queue.add(answers...)
		next := s.step()
		next = append(next, s.requests.done(j)...)

		j = nil
		for i, n := range next {
			if i == 0 {
				j = n
			} else {
				go s.work(n)
			}
		}
	}
}

// queue is the inputs that the core has not taken in, and who steps it.
type queue struct {
	mu       sync.Mutex
	inputs   []core.Input
	stepping bool
	began    atomic.Int64 // when whoever steps the core began; 0 if nobody does
	missed   bool         // notifications were dropped
}

// maxQueue is how many inputs may wait before notifications are dropped: the core is not stepped, so they would pile
// up.
const maxQueue = 4096

func (q *queue) add(in ...core.Input) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range in {
		if _, ok := x.(core.Notice); ok && len(q.inputs) >= maxQueue {
			q.missed = true
			continue
		}

		q.inputs = append(q.inputs, x)
	}
}

// acquire makes its caller the one who steps the core, unless somebody else is.
func (q *queue) acquire(now core.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stepping {
		return false
	}

	q.stepping = true
	q.began.Store(max(1, int64(now)))
	return true
}

// release makes its caller stop stepping, unless there is more to do.
func (q *queue) release(now core.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.inputs) > 0 || q.missed {
		q.began.Store(max(1, int64(now)))
		return false
	}

	q.stepping = false
	q.began.Store(0)
	return true
}

// next returns the next input.
func (q *queue) next() (core.Input, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.inputs) == 0 {
		if q.missed {
			q.missed = false
			return core.Notice{}, true // anything may have changed
		}

		q.inputs = nil
		return nil, false
	}

	in := q.inputs[0]
	q.inputs[0] = nil
	q.inputs = q.inputs[1:]
	return in, true
}

func (q *queue) since() core.Time { return core.Time(q.began.Load()) }
