package regent

import (
	"context"
	"errors"
	"fmt"
	"math"
	mrand "math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
)

const (
	never   = time.Duration(math.MaxInt64)
	minWait = time.Millisecond // the least that a loop waits before it asks the store again
)

// engine is one run of a member: from its start until its last user has left, or its own loop has died. One goroutine
// joins and ends incarnations, one sends heartbeats, one guards the deadline, one follows all elections, and one runs the
// health check if there is one. An election costs none; one with a lease of its own costs two while it is held.
type engine struct {
	m       *Member
	cfg     Config
	store   driver.Store
	batcher driver.Batcher // nil if the store is none
	witness driver.Witness // likewise

	refresher driver.Refresher // likewise
	clock     Clock
	ctx       context.Context
	cancel    context.CancelCauseFunc
	wg        sync.WaitGroup // its goroutines
	duties    sync.WaitGroup // its terms, until their duties have stopped

	finishing sync.WaitGroup // its terms, until they have been released

	patience time.Duration // for one request
	started  time.Duration
	kicked   chan struct{}

	mu      *sync.Mutex // the member's
	self    *beat       // the member's register, while joined
	seats   map[string]*seat
	sights  map[string]*sight
	info    []byte // what the member says of itself, encoded
	sick    error  // what the health check said last
	pollAt  time.Duration
	order   uint64 // of the last moment
	quiet   int    // how often in a row a look at the seats has shown nothing new
	dirty   bool   // somebody has edited the member's register
	closed  bool   // no term begins any more
	renamed bool   // elections have come or gone
	running bool   // the jitter has passed
	again   bool   // it follows one that has died

	fresh     []*term       // begun since the last heartbeat was sent
	sweepAt   time.Duration // when the next held elections are read; never if none is held
	sweptAt   time.Duration // when that was done last
	sweepFrom string        // the name after which the sweep goes on
	answered  time.Duration // when the store last answered anything

	calmUntil time.Duration // follow's own: after the store has failed
	rankedAt  time.Duration // follow's own: when it last looked whether it outranks a leader
	roster    roster
	living    sync.Once

	phase     float64 // its own among the members of a fleet: see spread.go
	outranked bool    // a notification has named a member with a smaller ID
}

func newEngine(ctx context.Context, m *Member, cfg Config) *engine {
	e := &engine{m: m, cfg: cfg, store: m.Store, clock: m.clock, mu: &m.mu, kicked: make(chan struct{}, 1),
		seats: map[string]*seat{}, sights: map[string]*sight{}, patience: trust(cfg.LeaseDuration, cfg.StopTimeout) / 4}
	e.sweepAt = never
	if e.spreads() {
		e.phase = mrand.Float64()
	}
	e.batcher, _ = m.Store.(driver.Batcher)
	e.refresher, _ = m.Store.(driver.Refresher)
	e.witness, _ = m.Store.(driver.Witness)
	if m.Health != nil {
		e.sick = errUnchecked
	}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	return e
}

// run returns when everything that it started has stopped: after ctx has ended, or with the panic that killed one of its
// loops. Terms that still hold a seat then end first, so that no duty of a dead loop runs beside its successor's.
func (e *engine) run() error {
	e.started = e.clock.Now()
	if e.again {
		e.recoverAll()
	}
	if e.jitter() {
		e.spawn(e.follow)
		e.mu.Lock()
		e.running = true
		e.joinIfNeeded()
		e.mu.Unlock()
		if e.m.Health != nil {
			e.spawn(e.checkHealth)
		}
	}
	<-e.ctx.Done()

	e.close()
	e.end(context.Cause(e.ctx), "", e.held(nil)...)
	e.finishing.Wait()
	e.wg.Wait()

	e.mu.Lock()
	self := e.self
	e.mu.Unlock()
	if self != nil { // its loop died before it could leave
		self.life.end(context.Cause(e.ctx))
		e.m.hasNowEnded(self.life.who)
		e.noteEnd(self.life)
		e.lifeline(self, true, false)
	}
	_ = protect(func() error { e.tidy(); return nil }) // a driver that panics leaves it undone, as one that fails does

	var p *panicError
	if errors.As(context.Cause(e.ctx), &p) {
		return p
	}
	return nil
}

// close lets no term begin any more, not even one whose claim is under way.
func (e *engine) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
}

// joinIfNeeded starts the member's heartbeat with its first candidacy: a mere observer writes nothing. The engine's mutex is held.
func (e *engine) joinIfNeeded() {
	if e.running && e.joins() {
		e.living.Do(func() { e.spawn(e.exist) })
	}
}

// joins reports whether the member has a register of its own. The engine's mutex is held.
func (e *engine) joins() bool {
	registers := e.cfg.registers() || e.m.Health != nil // so that a sick leader can tell whether anybody else is there
	return registers && (len(e.m.cands) > 0 || e.cfg.Register)
}

// reportStart tells that the jitter has passed: the first request follows.
func (e *engine) reportStart() {
	if e.spreads() {
		waited := (e.clock.Now() - e.started).Seconds()
		e.emit(Event{Kind: EventMemberStarted, Measurements: map[string]float64{"waited": waited}})
	}
}

// jitter waits before the first request of any kind, and nowhere else (rule 11): an engine that follows a dead one is no start.
func (e *engine) jitter() bool {
	if e.again {
		return e.ctx.Err() == nil
	}
	wait := e.cfg.StartupJitterMin
	if spread := e.cfg.StartupJitterMax - e.cfg.StartupJitterMin; spread > 0 {
		wait += mrand.N(spread + 1)
	}
	if !e.sleep(e.ctx, wait) {
		return false
	}
	e.reportStart()
	return true
}

// exist joins, heartbeats until the incarnation is over, and joins again as a new one: but only after every duty of the
// old one has stopped, since joining frees its seats.
func (e *engine) exist() {
	for e.ctx.Err() == nil {
		b, err := e.join(e.ctx)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.self = b
		e.mu.Unlock()
		e.emit(Event{Kind: EventMemberJoined, Metadata: map[string]string{"incarnation": b.life.who.Incarnation}})
		e.spawn(func() { e.guard(b) })
		e.kick()

		err = e.sustain(b)
		if e.ctx.Err() != nil {
			e.depart(b)
			return
		}
		e.abandon(b, err)
	}
}

// sustain heartbeats until the incarnation is over, or the engine stops. The heartbeats have a goroutine of their own, which
// may hang in a request: the end of the incarnation does not wait for it (rule 9).
func (e *engine) sustain(b *beat) error {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	kept := make(chan error, 1)
	e.spawn(func() { kept <- e.keep(ctx, b) })

	select {
	case err := <-kept:
		return err
	case <-b.life.over:
		return errUnconfirmed
	case <-e.ctx.Done():
		return context.Cause(e.ctx)
	}
}

// abandon ends an incarnation that was lost. The companion process hears of it as soon as the duties have stopped.
func (e *engine) abandon(b *beat, cause error) {
	e.drop(b.life, cause)
	e.emit(Event{Kind: EventMemberDropped, Metadata: map[string]string{
		"incarnation": b.life.who.Incarnation, "reason": reasonOf(cause), "error": cause.Error()}})
	e.mu.Lock()
	e.self = nil
	e.fresh = nil
	e.mu.Unlock()

	b.life.duties.Wait()
	e.m.hasNowEnded(b.life.who)
	e.noteEnd(b.life)
	e.lifeline(b, true, false) // the next incarnation writes over it
}

// depart ends the incarnation of an engine that stops: its duties stop, its seats are released, its register is vacated.
func (e *engine) depart(b *beat) {
	e.close()
	e.duties.Wait()
	e.lifeline(b, true, false)
	e.finishing.Wait()

	e.mu.Lock()
	e.self = nil
	e.mu.Unlock()
	if e.leave(b, reasonOf(context.Cause(e.ctx))) { // else the companion process may release it yet
		e.lifeline(b, true, true)
	}
	e.emit(Event{Kind: EventMemberLeft, Metadata: map[string]string{"incarnation": b.life.who.Incarnation}})
}

// tidy gives back what a claim that was under way when the engine stopped may have won.
func (e *engine) tidy() {
	if !e.cfg.OwnLease { // leaving has done it
		return
	}
	e.mu.Lock()
	var open []*seat
	for _, s := range e.seats {
		if len(s.claims) > 0 {
			open = append(open, s)
		}
	}
	e.mu.Unlock()
	limit := e.clock.Now() + 2*e.patience // a store that hangs does not hold up the end for each of them
	for _, s := range open {
		if e.clock.Now() >= limit {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.patience)
		l, err := e.get(ctx, s.name)
		cancel()
		e.mu.Lock()
		mine := slices.ContainsFunc(s.claims, func(c claim) bool { return c.life.who == l.Holder })
		e.mu.Unlock()
		if err == nil && mine {
			e.giveBack(s, l, "", reasonAbandoned)
		}
	}
}

// poked is told that somebody has edited the member's register: so a request waits on one of its seats.
func (e *engine) poked(driver.Record) {
	e.dirty = true
	e.kick()
}

// memberLease is W of the member's register. Where no seat hangs on it, it need not be as quick.
func (e *engine) memberLease() time.Duration {
	if e.cfg.OwnLease {
		return e.cfg.WorkerTimeout
	}
	return e.cfg.LeaseDuration
}

// interval is how often a register with lease w is renewed: as configured, but at the latest at 80 % of what the holder may count on.
func (e *engine) interval(every, w time.Duration) time.Duration {
	return min(every, trust(w, e.cfg.StopTimeout)*8/10)
}

// reservation is the head start of a named successor, and of a candidate of better rank: one heartbeat.
func (e *engine) reservation() time.Duration { return e.cfg.HeartbeatInterval }

func (e *engine) sightOf(name string) *sight {
	s := e.sights[name]
	if s == nil {
		s = &sight{}
		e.sights[name] = s
	}
	return s
}

func (e *engine) reread(s *seat) {
	e.mu.Lock()
	s.stale = true
	e.mu.Unlock()
	e.kick()
}

func (e *engine) emit(ev Event) { e.m.emit(ev) }

func (e *engine) kick() {
	select {
	case e.kicked <- struct{}{}:
	default:
	}
}

func (e *engine) now() moment {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.moment()
}

// backoff is the wait after so many failures in a row.
func (e *engine) backoff(failed int) time.Duration {
	if len(e.cfg.RenewBackoff) == 0 {
		return time.Second
	}
	return e.cfg.RenewBackoff[min(failed, len(e.cfg.RenewBackoff))-1]
}

// sleep reports whether it has slept in full.
func (e *engine) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := e.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// spawn runs one of the engine's loops. Should it panic, the whole engine stops, and the member starts another.
func (e *engine) spawn(f func()) {
	e.wg.Go(func() {
		if err := protect(func() error { f(); return nil }); err != nil {
			e.cancel(err)
		}
	})
}

// panicError is a recovered panic.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }
func (p *panicError) Unwrap() error { return ErrPanicked }

// protect turns a panic of f into an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v, debug.Stack()}
		}
	}()
	return f()
}
