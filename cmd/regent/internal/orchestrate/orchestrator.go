// Package orchestrate has workers run polls: it is the leader's duty that sends every slot of every poll to a worker,
// takes in the results, and saves a checkpoint, so that each slot runs once across failovers.
//
// A slot may run more than once only if the check cannot do harm when it is repeated, and its worker cannot be asked
// about it. Slots that are later than a minute are not run, except for the newest one of each poll.
package orchestrate

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/work"
)

// Options configures an Orchestrator.
type Options struct {
	Store    driver.Store
	Election string
	Leader   string      // the ID of this node
	Fixed    []poll.Poll // from the configuration file
	Kinds    []string    // all kinds of checks; any kind is accepted if empty

	// Members yields the members of the cluster after each change: [regent.Member.WatchMembers].
	Members func(context.Context) iter.Seq2[[]regent.MemberState, error]

	Pool work.Options // how workers are reached
	Emit func(regent.Event)
	Log  *slog.Logger
	Now  func() time.Time // the wall clock for due times; time.Now if nil
}

// Orchestrator is the duty that has workers run polls. It has no state between terms, except for its counters.
type Orchestrator struct {
	opts Options

	mu      sync.Mutex
	current *term             // nil while this node does not lead
	started chan struct{}     // closed while there is a current term
	totals  map[string]uint64 // slots by outcome, over all terms
	latency map[string]*Histogram
	jumps   uint64 // of clocks
}

// Kinds of events, with their metadata.
const (
	// EventChanged says that the state of a target has changed: poll, from, to, message, worker, slot.
	EventChanged regent.EventKind = "poll:changed"
	// EventMissed says that slots were too late to be run: polls, slots (their number), reason.
	EventMissed regent.EventKind = "poll:missed"
	// EventClock says that clocks disagree about slots: offset, polls, skipped, error.
	EventClock regent.EventKind = "poll:clock_jumped"
)

// Errors of requests to an orchestrator.
var (
	ErrNotLeading = errors.New("this node does not lead, so it does not run the polls")
	ErrNoPoll     = errors.New("there is no such poll")
	ErrFixed      = errors.New("the poll is set in the configuration file, and can be changed there only")
	ErrStopping   = errors.New("this node is stopping")
)

// New returns an orchestrator. Its Run is the duty.
func New(opts Options) *Orchestrator {
	return &Orchestrator{
		opts:    opts,
		started: make(chan struct{}),
		totals:  map[string]uint64{},
		latency: map[string]*Histogram{},
	}
}

// Run has the polls run until the term ends: it is the Run of a [regent.Duty]. When it returns, no request, goroutine
// or timer of the term is left.
func (o *Orchestrator) Run(ctx context.Context, lead regent.Term) error {
	t := newTerm(ctx, o, lead)
	defer t.close()

	err := t.load()
	if err == nil && t.hasPolls() {
		err = t.saveFirst(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}

	o.begin(t)
	defer o.end()
	t.run()

	return nil
}

// begin makes a term the current one.
func (o *Orchestrator) begin(t *term) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current = t
	close(o.started)
}

// end undoes begin.
func (o *Orchestrator) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current = nil
	o.started = make(chan struct{})
}

// Await waits until this node runs the polls, or until ctx ends. A new leader reads the polls first.
func (o *Orchestrator) Await(ctx context.Context) {
	o.mu.Lock()
	started := o.started
	o.mu.Unlock()

	select {
	case <-started:
	case <-ctx.Done():
	}
}

// term returns the current term.
func (o *Orchestrator) term() (*term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current == nil {
		return nil, ErrNotLeading
	}

	return o.current, nil
}

// termAt returns the current term if it has this epoch, or any if the epoch is 0.
func (o *Orchestrator) termAt(epoch uint64) (*term, error) {
	t, err := o.term()
	if err == nil && epoch != 0 && epoch != t.Epoch {
		return nil, &regent.MovedError{Seen: epoch, Epoch: t.Epoch}
	}

	return t, err
}

// Quiesce prepares a leader for its stop. It sends nothing more, waits until workers have ended what they run or ctx
// ends, and saves the checkpoint. The next leader then knows all results, even those of workers that stop with this
// node.
func (o *Orchestrator) Quiesce(ctx context.Context) error {
	t, err := o.term()
	if err != nil {
		return nil // without a term there is nothing to do
	}

	return t.quiesce(ctx)
}
