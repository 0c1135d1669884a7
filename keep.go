package regent

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
)

// This file is the holder's half of the protocol: how long a heartbeat may be believed by the one who sends it, and what it does when
// it cannot know. follow.go is the other half. The rules are those of docs/ARCHITECTURE.md.

// life is what terms depend on: an incarnation of the member, or, for a seat with a lease of its own, one claim. It is
// believed until its deadline, and once it has ended it is never believed again.
type life struct {
	who      driver.Identity
	deadline atomic.Int64   // on the member's clock: 0 before the first heartbeat was applied, ended after the last
	over     chan struct{}  // closed when it has ended
	duties   sync.WaitGroup // its terms, until their duties have stopped
	held     atomic.Int32   // how many those are

	mu    sync.Mutex // guards what follows; never held while another lock is taken
	terms map[*term]struct{}
	cause error         // why it ended
	at    time.Time     // when that was
	until time.Duration // the deadline that it had then
}

const ended = math.MinInt64

func newLife(id, incarnation string) *life {
	return &life{who: driver.Identity{ID: id, Incarnation: incarnation}, over: make(chan struct{}), terms: map[*term]struct{}{}}
}

// live looks at the deadline, not at a flag (rule 8).
func (l *life) live(now time.Duration) bool { return int64(now) < l.deadline.Load() }

// left is how long the life is still believed; 0 if it is not.
func (l *life) left(now time.Duration) time.Duration {
	until := l.deadline.Load()
	if until == ended {
		return 0
	}
	return max(0, time.Duration(until)-now)
}

// believe moves the deadline. An ended life stays ended.
func (l *life) believe(until time.Duration) {
	for {
		old := l.deadline.Load()
		if old == ended || l.deadline.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// end ends the life and the contexts of its terms. It takes no lock that a request or a computation could hold, so that
// contexts end in time whatever the engine is doing (rule 9).
func (l *life) end(cause error) {
	until := l.deadline.Swap(ended)
	if until == ended {
		return
	}
	l.mu.Lock()
	l.cause, l.at, l.until = cause, time.Now(), time.Duration(until)
	terms := l.terms
	l.terms = nil
	l.mu.Unlock()

	close(l.over)
	for t := range terms {
		t.cancel(cause)
	}
}

func (l *life) hasEnded() bool { return l.deadline.Load() == ended }

// attach makes the end of the life end the context of a term.
func (l *life) attach(t *term) {
	l.mu.Lock()
	over := l.terms == nil
	if !over {
		l.terms[t] = struct{}{}
	}
	cause := l.cause
	l.mu.Unlock()

	if over {
		t.cancel(cause)
	}
}

func (l *life) detach(t *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.terms, t)
}

// beat is a heartbeat register in the hands of the one who keeps it. The engine's mutex guards it.
type beat struct {
	name   string // of the register
	life   *life
	every  time.Duration       // from one heartbeat to the next
	trust  time.Duration       // D of rule 1
	lease  driver.Record       // the record as the store last showed it: the next swap expects its revision
	tries  []try               // the attempt that it shows, and all that came after
	says   func() []byte       // what the record carries of the holder itself; nil if nothing
	edited func(driver.Record) // called when somebody else may have edited the record
	claims []*term             // begun before the last attempt: read again once a heartbeat has been applied after them

	report  sync.Mutex // serializes calls of OnLifeline, so that none of them is overtaken
	stopped bool       // OnLifeline was told that it has stopped
}

// try is one attempt to write a heartbeat. Each has a nonce of its own, so that a later read tells which of them arrived (rule 3).
type try struct {
	nonce uint64
	sent  time.Duration
}

// attempt returns the record to send at now.
func (b *beat) attempt(now time.Duration) driver.Record {
	next := b.lease
	next.Nonce = newNonce()
	next.Edits = 0
	if b.says != nil {
		next.Data = b.says()
		if b.life.deadline.Load() != 0 {
			next.Past = nil // the first heartbeat alone tells how the incarnation before ended, so that the others stay small
		}
	}
	b.tries = append(b.tries, try{next.Nonce, now})
	return next
}

// shows takes in what the store holds. If that is one of this life's attempts, the deadline counts from when that attempt was sent,
// however late the store's answer came (rules 1 and 3); newest says whether it is the last one. Anything else is the end of this life.
func (b *beat) shows(l driver.Record) (newest bool, err error) {
	if l.Holder != b.life.who {
		return false, fmt.Errorf("%w: %s now shows %s", ErrLost, l.Name, l.Holder)
	}
	k := slices.IndexFunc(b.tries, func(t try) bool { return t.nonce == l.Nonce })
	if k < 0 {
		return false, fmt.Errorf("%w: %s shows a heartbeat that this process did not send, or an older one (has the store lost writes?)", ErrLost, l.Name)
	}
	b.lease = l
	b.tries = b.tries[:copy(b.tries, b.tries[k:])]
	b.life.believe(b.tries[0].sent + b.trust)
	return len(b.tries) == 1, nil
}

// errEdited says that a heartbeat met a record which is still ours, but has moved on.
var errEdited = errors.New("the record was edited")

// try sends one heartbeat. Unless it was plainly applied, the register itself is asked what became of it.
func (e *engine) try(ctx context.Context, b *beat) error {
	e.mu.Lock()
	now := e.clock.Now()
	if d := b.life.deadline.Load(); d != 0 && !b.life.live(now) {
		e.mu.Unlock()
		return fmt.Errorf("%w: the lease expired before a heartbeat was confirmed", ErrPartitioned)
	}
	next := b.attempt(now)
	if b == e.self {
		b.claims = append(b.claims, e.fresh...)
		e.fresh = nil
	}
	e.mu.Unlock()

	got, err := e.swap(ctx, next)
	if err != nil {
		var rerr error
		switch got, rerr = e.get(ctx, next.Name); {
		case errors.Is(rerr, driver.ErrNotFound):
			return fmt.Errorf("%w: the store no longer has %s (was it flushed or deleted?)", ErrLost, next.Name)
		case rerr != nil:
			return fmt.Errorf("heartbeat: %w; and read: %w", err, rerr)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	newest, lost := b.shows(got)
	if lost != nil {
		return lost
	}

	// Whenever the answer is not plain, an edit may be what the register shows, or what the heartbeat has met. It must not
	// be missed: whoever made it waits for an effect.
	if err != nil && b.edited != nil {
		b.edited(got)
	}
	switch {
	case newest:
		e.checkClaims(b)
		return nil
	case errors.Is(err, driver.ErrConflict) && got.Rev != next.Rev:
		return errEdited
	}
	return fmt.Errorf("heartbeat: %w", err)
}

// checkClaims has the elections read that were won before the heartbeat which has just been applied. A store that lost the
// tail of its log has lost the claim, the heartbeat, or neither: if the claim is gone, the read shows it. The engine's
// mutex is held.
func (e *engine) checkClaims(b *beat) {
	if len(b.claims) == 0 {
		return
	}
	now := e.clock.Now()
	for _, t := range b.claims {
		t.s.checkAt = max(now, 1)
	}
	b.claims = nil
	e.kick()
}

// renew heartbeats once, trying again after each wait of the backoff but never past the deadline (rule 9).
func (e *engine) renew(ctx context.Context, b *beat, due time.Duration) error {
	for failed := 0; ; {
		sent := e.clock.Now()
		before := b.life.deadline.Load()
		err := e.try(ctx, b)
		if err != nil && b.life.deadline.Load() != before {
			e.lifeline(b, false, false) // an earlier attempt was found applied: the companion process counts from it too
		}
		switch {
		case err == nil:
			e.heartbeatDone(b, e.clock.Now()-sent, e.clock.Now()-due)
			e.lifeline(b, false, false)
			return nil
		case errors.Is(err, errEdited):
			continue
		case errors.Is(err, ErrLost), errors.Is(err, ErrPartitioned), ctx.Err() != nil:
			return err
		}
		e.m.stats.renewFailures.Add(1)
		if failed == len(e.cfg.RenewBackoff) {
			return fmt.Errorf("%w: %d tries failed, the last with: %w", ErrPartitioned, failed+1, err)
		}
		if err := e.rest(ctx, b.life, e.cfg.RenewBackoff[failed]); err != nil {
			return err
		}
		failed++
	}
}

// rest sleeps between two heartbeats, until ctx or the life ends.
func (e *engine) rest(ctx context.Context, l *life, d time.Duration) error {
	t := e.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-l.over:
		return fmt.Errorf("%w: the lease expired before a heartbeat was confirmed", ErrPartitioned)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keep heartbeats until the life is lost, or ctx ends. Nothing here is jittered (rule 11). It may return late, if a request
// hangs: so nothing that ends at the deadline waits for it (rule 9).
func (e *engine) keep(ctx context.Context, b *beat) error {
	for {
		e.mu.Lock()
		due := b.tries[0].sent + b.every
		e.mu.Unlock()
		due = max(due, e.clock.Now()) // one that was slow does not make the next one late
		if err := e.rest(ctx, b.life, due-e.clock.Now()); err != nil {
			return err
		}
		if err := e.renew(ctx, b, due); err != nil {
			return err
		}
	}
}

// guard ends the life shortly before its deadline, whatever the store and the heartbeats are doing (rule 7). Timers stand still while the
// machine is suspended, so it looks at the clock every second.
func (e *engine) guard(b *beat) {
	for {
		left := time.Duration(b.life.deadline.Load()) - b.trust/100 - e.clock.Now()
		if left <= 0 {
			e.drop(b.life, errUnconfirmed)
			return
		}
		t := e.clock.NewTimer(min(left, time.Second))
		select {
		case <-t.C:
		case <-b.life.over:
			t.Stop()
			return
		}
	}
}

// join makes the member's register show a new incarnation of it. It takes a vacant register, or one that shows an incarnation which this
// process has ended. Any other incarnation, even of the same ID, must first run out and be revoked, or be proved dead: so two processes
// with one ID never both join.
func (e *engine) join(ctx context.Context) (*beat, error) {
	name := driver.MemberRegister(e.m.ID)
	w := e.memberLease()
	for failed := 0; ; failed++ {
		if failed > 0 && !e.sleep(ctx, e.backoff(failed)) {
			return nil, context.Cause(ctx)
		}
		began := e.now()
		l, err := e.get(ctx, name)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			e.m.stats.renewFailures.Add(1)
			continue
		}
		if err == nil && !l.Vacant() && !e.m.hasEnded(l.Holder) {
			if err := e.outlive(ctx, name, l, began); err != nil {
				return nil, err
			}
			failed = -1 // it is vacant now
			continue
		}
		count := e.m.nextIncarnation(l.Epoch)
		life := newLife(e.m.ID, newIncarnation(count))
		b := &beat{name: name, life: life, every: e.interval(e.cfg.HeartbeatInterval, w), trust: trust(w, e.cfg.StopTimeout), says: e.says, edited: e.poked,
			lease: driver.Record{Name: name, Rev: l.Rev, Holder: life.who, Addr: e.m.Addr, Epoch: count, Duration: w, Since: time.Now(), Past: e.m.pastOf(l)}}
		if err := e.try(ctx, b); err == nil && life.live(e.clock.Now()) {
			e.lifeline(b, false, false)
			return b, nil
		}
		// Whatever became of the attempt, that incarnation is over; if it shows up, this process may write over it.
		life.end(errNotJoined)
		e.m.hasNowEnded(life.who)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// outlive waits until the incarnation that a register shows has left, has run out and been revoked, or is proved dead.
func (e *engine) outlive(ctx context.Context, name string, l driver.Record, began moment) error {
	first := l.Holder
	s := e.watched(name, l, began)
	e.waiting(l, false)
	defer e.waited()

	alive := false
	for failed := 0; s.lease.Holder == first; {
		wait := min(s.ranOut()-e.clock.Now(), e.cfg.HeartbeatInterval)
		s.gone = e.gone(ctx, s.lease)
		if s.gone || s.ranOut() <= s.began.at {
			if e.revoke(ctx, s.lease, s.ending(e.clock.Now())) == nil {
				return nil
			}
			failed++
		}
		if failed > 0 {
			wait = e.backoff(failed)
		}
		if !e.sleep(ctx, max(wait, minWait)) {
			return context.Cause(ctx)
		}
		began := e.now()
		l, err := e.get(ctx, name)
		switch {
		case err == nil && l.Holder == first:
			failed = 0
			renewed := l.Nonce != s.lease.Nonce
			s = e.watched(name, l, began)
			if renewed && !alive {
				alive = true
				e.waiting(l, true)
			}
		case err == nil || errors.Is(err, driver.ErrNotFound):
			return nil
		default:
			failed++
		}
	}
	return nil // another request has shown that it has left
}

// watched takes in what a heartbeat register shows, and returns what is known of it, by whatever request.
func (e *engine) watched(name string, l driver.Record, began moment) sight {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sightOf(name)
	s.see(l, began, e.clock.Now())
	return *s
}

// leave vacates the member's register, which frees every seat that depends on it, and reports whether that is known to have
// succeeded. Its life has ended before, so nothing is believed any more once this has been sent (rule 3).
func (e *engine) leave(b *beat, reason string) bool {
	b.life.end(ErrShutdown)
	e.m.hasNowEnded(b.life.who)
	e.noteEnd(b.life)
	e.mu.Lock()
	last := b.lease
	e.mu.Unlock()

	mine := func(l driver.Record) bool { return l.Holder == b.life.who }
	_, left := e.vacate(last, mine, func(l driver.Record) driver.Record { return vacatedHeartbeat(l, newNonce(), time.Now(), reason) })
	return left
}

var errUnconfirmed = fmt.Errorf("%w: no heartbeat was confirmed in time", ErrPartitioned)

var errNotJoined = errors.New("the member could not join")

// newNonce and newIncarnation never return the same twice, in any process, for all that matters.
func newNonce() uint64 { return rand.Uint64() }

// newIncarnation names one run of a member. It carries its count, which the member's register keeps as its epoch: so an
// observer of a seat can tell a register that has forgotten this incarnation from one that this incarnation has left.
func newIncarnation(count uint64) string { return strconv.FormatUint(count, 10) + "." + crand.Text() }

// newClaimant names one claim of a seat with a lease of its own.
func newClaimant() string { return crand.Text() }

// incarnationCount returns the count that newIncarnation was given, and 1 for a name that carries none.
func incarnationCount(incarnation string) uint64 {
	text, _, _ := strings.Cut(incarnation, ".")
	count, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 1
	}
	return count
}
