package regent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/shell"
)

// Term is one unbroken holding of a seat by one member. Its Epoch is the fencing token.
type Term struct {
	Election string
	Epoch    uint64
	Since    time.Time // by the holder's wall clock

	// Incarnation is the run of the member that holds the term. It tells this term from another one with the same epoch,
	// which a store that forgets writes can bring about.
	Incarnation string

	t *term
}

// candidate is somebody's wish to lead an election, for as long as Lead or Run lasts.
type candidate struct {
	election  string
	ctx       context.Context                   // what the terms' contexts descend from: the caller's, without its end
	run       func(context.Context, Term) error // nil to hold the election and nothing else
	result    chan error                        // receives once if run returned of its own accord
	withdrawn chan struct{}                     // closed when the candidacy has ended because it was withdrawn
}

// term is what is behind a Term.
type term struct {
	r        *run
	core     *shell.Term
	cand     *candidate
	run      func(context.Context, Term) error
	public   Term
	saved    atomic.Pointer[[]byte] // the checkpoint
	stopped  chan struct{}          // closed when its duty has returned
	finished chan struct{}          // closed once its duty has stopped and it was released

	returned bool   // the duty has returned of its own accord
	err      error  // with that
	next     string // the successor that was named; set when it ended
	kept     bool   // the store did not take the release; set before finished is closed
}

// Token returns what a fence needs to know of the term.
func (t Term) Token() Token { return NewToken(t.Epoch, t.Incarnation) }

// Valid reports whether the term's lease is still in force. It compares the deadline, on a clock that counts while the
// machine is suspended, so ask it right before anything that only the leader may do.
func (t Term) Valid() bool { return t.t != nil && t.t.core.Valid() }

// Remaining is how long the lease is in force unless it is renewed; 0 if it is not.
func (t Term) Remaining() time.Duration {
	if t.t == nil {
		return 0
	}
	return t.t.core.Remaining()
}

// Done is closed when the term has ended: it is what ends the context of its duties. A duty has that context; this is
// for others.
func (t Term) Done() <-chan struct{} {
	if t.t == nil {
		return nil
	}
	return t.t.core.Context().Done()
}

// Fenced tells the term that whoever receives its work has refused it, having seen a higher epoch, or another term with
// the same one: somebody else leads, whatever this member has been told. The term ends, for the reason [ErrFenced], and
// the next claim goes beyond that epoch. It does not wait for that, so a duty may call it.
func (t Term) Fenced(newest uint64) {
	if t.t == nil || t.t.core.Over() {
		return
	}
	t.t.r.shell.Do(core.Fenced{Election: t.Election, Epoch: t.Epoch, Newest: newest})
}

// Saved returns the checkpoint: what this term or an earlier one saved last, or nil. It must not be changed.
func (t Term) Saved() []byte {
	if t.t == nil {
		return nil
	}
	if data := t.t.saved.Load(); data != nil {
		return *data
	}
	return nil
}

// Save keeps a checkpoint of at most [driver.MaxData] bytes in the election's own record, so that only the holder of
// the seat can write it, and the next term reads it. An error other than ErrNotLeader means that the outcome is not
// known: it may have been saved, or may yet be if nothing is saved after it.
func (t Term) Save(ctx context.Context, data []byte) error {
	if len(data) > driver.MaxData {
		return fmt.Errorf("save checkpoint of %s: %d bytes, at most %d are kept", t.Election, len(data), driver.MaxData)
	}
	if !t.Valid() {
		return fmt.Errorf("save checkpoint of %s: %w", t.Election, ErrNotLeader)
	}
	return t.t.save(ctx, bytes.Clone(data))
}

// save asks the core to write a checkpoint, and waits for that.
func (t *term) save(ctx context.Context, data []byte) error {
	id, result := t.r.request()
	t.r.shell.Do(core.Save{ID: id, Election: t.public.Election, Epoch: t.public.Epoch, Data: data})
	var got core.Result
	select {
	case got = <-result:
	case <-t.r.over:
		return fmt.Errorf("save checkpoint of %s: %w: it has panicked", t.public.Election, ErrStore)
	case <-ctx.Done():
		return fmt.Errorf("save checkpoint of %s: %w: %w", t.public.Election, ErrStore, context.Cause(ctx))
	}

	switch got.Result {
	case core.OK:
		t.saved.Store(&data)
		return nil
	case core.NotLeader:
		return fmt.Errorf("save checkpoint of %s: %w", t.public.Election, ErrNotLeader)
	}
	var panicked *shell.PanicError
	if errors.As(got.Err, &panicked) {
		return fmt.Errorf("save checkpoint of %s: %w: %w", t.public.Election, ErrStore, &panicError{panicked})
	}
	if got.Err != nil {
		return fmt.Errorf("save checkpoint of %s: %w: %w", t.public.Election, ErrStore, got.Err)
	}
	return fmt.Errorf("save checkpoint of %s: %w: the store has not answered in time", t.public.Election, ErrStore)
}

// serve runs a term's duty to its end. It does not start one whose term has ended already: the companion process may
// not know of it.
func (t *term) serve() {
	ctx := t.core.Context()
	if !t.core.Valid() {
		<-ctx.Done()
		t.dutyStopped(false)
		return
	}
	err := errGoexit
	defer func() {
		t.err = err
		t.dutyStopped(ctx.Err() == nil)
	}()
	err = protect(func() error { return t.run(ctx, t.public) })
}

// errGoexit is what a duty leaves behind that ends its goroutine instead of returning.
var errGoexit = errors.New("the duty has ended its goroutine")

// dutyStopped says that nothing of a term runs any more, and whether it returned while the term held.
func (t *term) dutyStopped(returned bool) {
	m := t.r.m
	m.mu.Lock()
	t.r.shell.Queue(core.DutyStopped{Election: t.public.Election, Epoch: t.public.Epoch})
	if returned && m.cands[t.public.Election] == t.cand {
		t.returned = true
		delete(m.cands, t.public.Election)
		t.r.shell.Queue(core.Withdraw{Election: t.public.Election}) // the term may have ended otherwise at this moment
		t.r.electionsChangedLocked()
	}
	m.mu.Unlock()

	close(t.stopped)
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
