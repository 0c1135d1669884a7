package regent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/shell"
)

// Term is one unbroken holding of an election by one member. Its Epoch numbers it, and its [Token] is the
// fencing token.
type Term struct {
	Election string
	Epoch    uint64
	Since    time.Time // by the holder's wall clock

	// Incarnation is the run of the member that holds the term. It distinguishes two terms with one epoch, which can
	// exist if a store has lost writes.
	Incarnation string

	t *term
}

// candidate is a campaign for an election, for as long as Lead or Run lasts.
type candidate struct {
	election  string
	ctx       context.Context                   // the parent of the terms' contexts: the caller's, without its end
	run       func(context.Context, Term) error // nil to lead the election and run nothing
	withdrawn chan struct{}                     // closed when the withdrawal of the candidate is complete

	// What follows is for Lead.
	member   *Member
	caller   context.Context // of the call
	here     bool            // run is called by whoever receives from steps
	steps    chan candidateStep
	last     stepKind    // of what was received last
	err      error       // what run has returned while its term held
	withdraw func()      // ends the campaign; called at the end of the context of Lead
	stop     func() bool // prevents that; false if it is too late
	launched latch       // withdraw and stop are set
}

// candidateStep is what the caller of Lead waits for.
type candidateStep struct {
	kind stepKind
	term *term
}

// maxSteps is how many steps may wait at once: the begin of a term, the return of its duty, and that the candidate has
// left.
const maxSteps = 3

type stepKind uint8

const (
	termBegan    stepKind = iota // a term has begun
	dutyReturned                 // the duty has returned while its term held: the campaign is over
	hasLeft                      // the candidate has left: the campaign is over
	notJoined                    // there is no campaign: the member could not be started, or is a candidate already
)

// leave waits until the candidate has left. Its duty is not called any more.
func (c *candidate) leave() {
	for s := <-c.steps; s.kind != hasLeft; s = <-c.steps {
		if s.kind == termBegan {
			s.term.dutyStopped(true)
		}
	}
}

// newCandidate returns a campaign that runs nothing.
func newCandidate(ctx context.Context, election string) *candidate {
	return &candidate{election: election, ctx: context.WithoutCancel(ctx), steps: make(chan candidateStep, maxSteps)}
}

// term is the state behind a Term.
type term struct {
	r        *run
	core     *shell.Term
	cand     *candidate
	run      func(context.Context, Term) error
	public   Term
	saved    atomic.Pointer[[]byte] // the checkpoint
	stopped  latch                  // the duty has returned
	finished latch                  // the duty has returned and the election was released

	returned bool   // the duty has returned while the term held
	err      error  // what it returned then
	next     string // the successor that was named; set when the term has ended
	kept     bool   // the store did not take the release; set before finished
}

// latch is something that happens once. Few terms are waited for, so a channel is made for those alone. The zero value
// is usable.
type latch struct {
	mu   sync.Mutex
	over bool
	c    chan struct{}
}

// set says that it has happened.
func (l *latch) set() {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.over = true
	if l.c != nil {
		close(l.c)
	}
}

// wait returns once it has happened.
func (l *latch) wait() {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()

	if !over {
		<-l.done()
	}
}

// done returns a channel that is closed once it has happened.
func (l *latch) done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.c == nil {
		l.c = make(chan struct{})
		if l.over {
			close(l.c)
		}
	}
	return l.c
}

// Token returns the fencing token of the term.
func (t Term) Token() Token { return NewToken(t.Epoch, t.Incarnation) }

// Valid reports whether the term's lease is still in force. It compares the deadline, on a clock that counts while the
// machine is suspended. Call it right before anything that only the leader may do.
func (t Term) Valid() bool { return t.t != nil && t.t.core.Valid() }

// Remaining returns how long the lease is in force unless it is renewed; 0 if it has expired.
func (t Term) Remaining() time.Duration {
	if t.t == nil {
		return 0
	}
	return t.t.core.Remaining()
}

// Done returns a channel that is closed when the term has ended. A duty has its context for that; Done is for others.
func (t Term) Done() <-chan struct{} {
	if t.t == nil {
		return nil
	}
	return t.t.core.Context().Done()
}

// Fenced reports that a receiver of the term's work has refused it, because it has seen the epoch newest, or another
// term with the same epoch. Another member leads, whatever the store has shown. The term ends for the reason
// [ErrFenced], and the next claim goes beyond newest. Fenced does not wait for the end of the term, so that a duty
// may call it.
func (t Term) Fenced(newest uint64) {
	if t.t == nil || t.t.core.Over() {
		return
	}

	t.t.r.shell.Do(core.Fenced{Election: t.Election, Epoch: t.Epoch, Newest: newest})
}

// Saved returns the checkpoint that this term or an earlier one has saved last; nil if there is none. The caller must
// not change it.
func (t Term) Saved() []byte {
	if t.t == nil {
		return nil
	}
	if data := t.t.saved.Load(); data != nil {
		return *data
	}
	return nil
}

// Save writes a checkpoint of at most [driver.MaxData] bytes into the election's own record, so that only the leader
// can write it and the next term can read it.
//
// The error is an [ErrNotLeader] if the term has ended. If it is an [ErrStore], the outcome is not known: the
// checkpoint may have been saved, or may still be, unless another one is saved after it.
func (t Term) Save(ctx context.Context, data []byte) error {
	if len(data) > driver.MaxData {
		return fmt.Errorf("save checkpoint of %s: %d bytes, at most %d are kept", t.Election, len(data), driver.MaxData)
	}
	if !t.Valid() {
		return fmt.Errorf("save checkpoint of %s: %w", t.Election, ErrNotLeader)
	}

	if err := t.t.save(ctx, bytes.Clone(data)); err != nil {
		return fmt.Errorf("save checkpoint of %s: %w", t.Election, err)
	}
	return nil
}

// save makes the core write a checkpoint, and waits for that.
func (t *term) save(ctx context.Context, data []byte) error {
	id, result := t.r.request()
	t.r.shell.Do(core.Save{ID: id, Election: t.public.Election, Epoch: t.public.Epoch, Data: data})
	var got core.Result
	select {
	case got = <-result:
	case <-t.r.over:
		return fmt.Errorf("%w: its driver has panicked", ErrStore)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrStore, context.Cause(ctx))
	}

	switch got.Result {
	case core.OK:
		t.saved.Store(&data)
		return nil
	case core.NotLeader:
		return ErrNotLeader
	}

	var panicked *shell.PanicError
	switch {
	case errors.As(got.Err, &panicked):
		return fmt.Errorf("%w: %w", ErrStore, &panicError{panicked})
	case got.Err != nil:
		return fmt.Errorf("%w: %w", ErrStore, got.Err)
	}

	return fmt.Errorf("%w: the store has not answered in time", ErrStore)
}

// serve runs the duty of a term to its end. If the term has ended already, it does not start the duty: the companion
// process may not know of it.
func (t *term) serve() {
	ctx := t.core.Context()
	if !t.core.Valid() {
		<-ctx.Done()
		t.dutyStopped(false)
		return
	}

	returned := false
	defer func() {
		switch v := recover(); {
		case v != nil:
			t.err = &panicError{&shell.PanicError{Value: v, Stack: debug.Stack()}}
		case !returned:
			t.err = errGoexit
		}
		t.dutyStopped(ctx.Err() == nil)
	}()

	t.err = t.run(ctx, t.public)
	returned = true
}

// errGoexit is the result of a duty that has ended its goroutine and did not return.
var errGoexit = errors.New("the duty has ended its goroutine")

// dutyStopped takes in that the duty of a term has stopped. returned says that it returned while the term held.
func (t *term) dutyStopped(returned bool) {
	m := t.r.m
	m.mu.Lock()
	t.r.shell.Queue(core.DutyStopped{Election: t.public.Election, Epoch: t.public.Epoch})
	if returned && m.cands[t.public.Election] == t.cand {
		t.returned = true
		delete(m.cands, t.public.Election)
		t.r.shell.Queue(core.Withdraw{Election: t.public.Election}) // the term may end otherwise at this moment
		t.r.electionsChangedLocked()
	}

	m.mu.Unlock()

	t.stopped.set()
	t.r.duties.Done()
	t.r.shell.Do()
}

// panicError is a recovered panic.
type panicError struct{ error }

func (p *panicError) Unwrap() error { return ErrPanicked }

// protect turns a panic of f into an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{&shell.PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()

	return f()
}
