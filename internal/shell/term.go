package shell

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/internal/core"
)

// Term is one unbroken holding of an election by this member.
type Term struct {
	core.Begin
	shell  *Shell
	lease  *lease
	over   atomic.Bool // it has ended, whatever the deadline says
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Valid reports whether the term's lease is still in force. It compares the deadline (rule 8).
func (t *Term) Valid() bool { return !t.over.Load() && t.shell.now() < t.lease.until() }

// Remaining returns how long the lease is in force unless it is renewed; 0 if it is not.
func (t *Term) Remaining() time.Duration {
	if t.over.Load() {
		return 0
	}

	until := t.lease.until()
	if until == expired {
		return 0
	}

	return time.Duration(max(0, until-t.shell.now()))
}

// Context returns the context of the term's duty. It ends before the deadline, and its cause says why.
func (t *Term) Context() context.Context { return t.ctx }

// Over reports whether the term has ended.
func (t *Term) Over() bool { return t.over.Load() || t.ctx.Err() != nil }

// Drop ends the term at once, before the core has been asked to end it. Whoever calls it asks the core next.
func (t *Term) Drop(cause error) {
	t.over.Store(true)
	t.cancel(cause)
}

// begin makes the term that a claim has won.
func (s *Shell) begin(b core.Begin) {
	l := s.leases[b.Register]
	if l == nil || l.incarnation != b.Incarnation {
		l = newLease(b)
		s.leases[b.Register] = l
		s.guard.add(l)
	}

	t := &Term{Begin: b, shell: s, lease: l}
	t.ctx, t.cancel = context.WithCancelCause(s.host.Parent(b))
	s.terms[b.Election] = t
	l.attach(t)
	s.host.Begin(t)
}

// end ends a term for the cause that the core gives.
func (s *Shell) end(e core.End) {
	t := s.terms[e.Election]
	if t == nil {
		return
	}

	t.over.Store(true)
	t.lease.detach(t)
	t.cancel(s.cause(e.Cause, e.Detail))
	s.host.End(t, e)
}

// renewed moves the deadline of a heartbeat register, or ends what depends on it.
func (s *Shell) renewed(e core.Renewed) {
	l := s.leases[e.Register]
	if l == nil {
		return
	}

	if e.Deadline > s.now() {
		l.renew(e.Deadline, e.Guard)
		return
	}

	cause := e.Cause
	if cause == "" {
		cause = core.Partitioned // it has passed meanwhile
	}

	delete(s.leases, e.Register)
	l.end(s.cause(cause, e.Detail))
	s.guard.remove(l)
}

// lease is what terms depend on: an incarnation of the member, or, for an election with a lease of its own, one claim.
// It counts until its deadline. Once it has ended it never counts again.
type lease struct {
	register    string
	incarnation string
	deadline    atomic.Int64 // expired once it has ended
	guardAt     atomic.Int64 // when its terms end
	place       int          // in the guard's heap; the guard's
	dueAt       core.Time    // where it stands there; the guard's

	mu    sync.Mutex // guards what follows; never held while anything is waited for
	ended bool
	first *Term              // one of its terms: most leases of an election's own have no other
	terms map[*Term]struct{} // the others
	cause error              // why it ended
}

const expired core.Time = math.MinInt64

func newLease(b core.Begin) *lease {
	l := &lease{register: b.Register, incarnation: b.Incarnation, place: -1}
	l.deadline.Store(int64(b.Deadline))
	l.guardAt.Store(int64(b.Guard))
	return l
}

func (l *lease) until() core.Time { return core.Time(l.deadline.Load()) }

// renew moves the deadline. A lease that has ended stays so.
func (l *lease) renew(deadline, guard core.Time) {
	for {
		old := l.deadline.Load()
		if core.Time(old) == expired {
			return
		}

		if l.deadline.CompareAndSwap(old, int64(deadline)) {
			l.guardAt.Store(int64(guard))
			return
		}
	}
}

// end ends the lease and the contexts of its terms, and reports whether it had not ended before.
func (l *lease) end(cause error) bool {
	if core.Time(l.deadline.Swap(int64(expired))) == expired {
		return false
	}

	l.mu.Lock()
	l.cause = cause
	l.ended = true
	first := l.first
	terms := l.terms
	l.first = nil
	l.terms = nil
	l.mu.Unlock()

	if first != nil {
		first.cancel(cause)
	}
	for t := range terms {
		t.cancel(cause)
	}

	return true
}

// attach makes the end of the lease end the context of a term.
func (l *lease) attach(t *Term) {
	l.mu.Lock()
	ended := l.ended
	switch {
	case ended:
	case l.first == nil:
		l.first = t
	default:
		if l.terms == nil {
			l.terms = map[*Term]struct{}{}
		}
		l.terms[t] = struct{}{}
	}

	cause := l.cause
	l.mu.Unlock()

	if ended {
		t.cancel(cause)
	}
}

func (l *lease) detach(t *Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == t {
		l.first = nil
	}
	delete(l.terms, t)
}
