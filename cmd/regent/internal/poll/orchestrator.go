package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/work"
)

// Options is what an orchestrator is made of.
type Options struct {
	Store    driver.Store
	Election string
	Leader   string   // this node
	Fixed    []Poll   // of the configuration file
	Kinds    []string // all kinds of checks that there are; any if empty
	Members  func(context.Context) ([]regent.MemberView, error)
	// Look is how often members are listed, besides whenever Hints says so.
	Look  time.Duration
	Hints func(context.Context) <-chan driver.Record
	Pool  work.Options // how workers are reached
	Emit  func(regent.Event)
	Log   *slog.Logger
	Now   func() time.Time // the wall clock that slots are due by; time.Now if nil
}

// Orchestrator is the duty that has polls run by workers. Outside of a term it knows nothing.
type Orchestrator struct {
	opts Options

	mu      sync.Mutex
	current *conduct
	begun   chan struct{}     // closed while there is a current conduct
	totals  map[string]uint64 // slots by outcome, over all terms
	latency map[string]*Histogram
	jumps   uint64 // of clocks
}

// The kinds of event of polls.
const (
	EventChanged = "poll:changed" // poll, from, to, message, worker, slot: what it says of its target
	EventMissed  = "poll:missed"  // polls, slots: how many it was too late for, reason
)

// Errors of what is asked of an orchestrator.
var (
	ErrNotLeading = errors.New("this node does not conduct the polls")
	ErrNoPoll     = errors.New("there is no such poll")
	ErrFixed      = errors.New("the poll is set in the configuration file, and can be changed there only")
	ErrStopping   = errors.New("this node is stopping")
)

// NewOrchestrator returns an orchestrator. Its Run is the duty.
func NewOrchestrator(opts Options) *Orchestrator {
	return &Orchestrator{opts: opts, begun: make(chan struct{}), totals: map[string]uint64{}, latency: map[string]*Histogram{}}
}

// Run conducts the polls for a term. When it returns nothing of the term is left: no request, no goroutine, no timer.
func (o *Orchestrator) Run(ctx context.Context, t regent.Term) error {
	c := newConduct(ctx, o, t)
	defer c.close()
	err := c.load()
	if err == nil && c.busy() {
		err = c.anchor(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	o.mu.Lock()
	o.current = c
	close(o.begun)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.current = nil
		o.begun = make(chan struct{})
		o.mu.Unlock()
	}()
	c.run()
	return nil
}

// Await waits until the polls are conducted here: a new leader reads them first. It gives up with ctx.
func (o *Orchestrator) Await(ctx context.Context) {
	o.mu.Lock()
	begun := o.begun
	o.mu.Unlock()
	select {
	case <-begun:
	case <-ctx.Done():
	}
}

func (o *Orchestrator) conduct() (*conduct, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current == nil {
		return nil, ErrNotLeading
	}
	return o.current, nil
}

// at returns the conduct of an epoch, or of any if that is 0.
func (o *Orchestrator) at(epoch uint64) (*conduct, error) {
	c, err := o.conduct()
	if err == nil && epoch != 0 && epoch != c.term.Epoch {
		return nil, &regent.MovedError{Seen: epoch, Epoch: c.term.Epoch}
	}
	return c, err
}

// List returns all polls, by name.
func (o *Orchestrator) List() ([]View, error) {
	c, err := o.conduct()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	all := make([]View, 0, len(c.entries))
	for _, e := range c.entries {
		all = append(all, e.view(false))
	}
	c.mu.Unlock()
	for i := range all { // outside of the lock, since it takes its time
		all[i].Poll = all[i].Redacted()
	}
	slices.SortFunc(all, func(a, b View) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Get returns one poll, with its history.
func (o *Orchestrator) Get(name string) (View, error) {
	c, err := o.conduct()
	if err != nil {
		return View{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[name]
	if e == nil {
		return View{}, fmt.Errorf("poll %q: %w", name, ErrNoPoll)
	}
	v := e.view(true)
	v.Poll = v.Redacted()
	return v, nil
}

// Put keeps a poll in the store, new or changed, and conducts it from now on. It reports whether it is new. An epoch other than 0 must be the current one.
func (o *Orchestrator) Put(ctx context.Context, p Poll, epoch uint64) (created bool, err error) {
	if len(o.opts.Kinds) > 0 {
		if err := p.CheckKind(o.opts.Kinds); err != nil {
			return false, err
		}
	}
	err = o.edit(ctx, epoch, p.Name, func(ctx context.Context, c *conduct, old *entry) error {
		if old != nil && old.fixed {
			return fmt.Errorf("poll %q: %w", p.Name, ErrFixed)
		}
		created = old == nil
		p.Since = o.now().UTC()
		if old != nil && old.poll.Enabled && p.Enabled && old.poll.Interval == p.Interval && old.poll.Cron == p.Cron && old.poll.TimeZone == p.TimeZone {
			p.Since = old.poll.Since // its slots stay the same
		}
		e, err := newEntry(p, false)
		if err == nil {
			err = c.anchor(ctx)
		}
		if err == nil {
			err = c.shelf.put(ctx, p)
		}
		if err == nil {
			c.replace(old, e)
		}
		return err
	})
	return created, err
}

// Remove forgets a poll. Of one that is in the configuration file as well, what the store has is forgotten.
func (o *Orchestrator) Remove(ctx context.Context, name string, epoch uint64) error {
	return o.edit(ctx, epoch, name, func(ctx context.Context, c *conduct, old *entry) error {
		stored := c.shelf.has(name)
		switch {
		case old == nil && !stored:
			return fmt.Errorf("poll %q: %w", name, ErrNoPoll)
		case !stored:
			return fmt.Errorf("poll %q: %w", name, ErrFixed)
		}
		if err := c.shelf.remove(ctx, name); err != nil {
			return err
		}
		if old != nil && !old.fixed {
			c.replace(old, nil)
		}
		return nil
	})
}

// edit runs a change of polls: one at a time, no longer than the term, and answered for only if the term held until its end.
func (o *Orchestrator) edit(ctx context.Context, epoch uint64, name string, change func(context.Context, *conduct, *entry) error) error {
	c, err := o.at(epoch)
	if err != nil {
		return err
	}
	c.editing.Lock()
	defer c.editing.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errNotLeading) })()
	if c.ctx.Err() != nil {
		return errNotLeading
	}
	c.mu.Lock()
	old := c.entries[name]
	c.mu.Unlock()
	if err := change(ctx, c, old); err != nil {
		return err
	}
	if !c.term.Valid() {
		return fmt.Errorf("poll %q: it may have been changed, but this node does not lead any more: %w", name, ErrNotLeading)
	}
	return nil
}

// RunNow has a poll run at once, beside its schedule, and returns the outcome.
func (o *Orchestrator) RunNow(ctx context.Context, name string, epoch uint64) (Run, error) {
	c, err := o.at(epoch)
	if err != nil {
		return Run{}, err
	}
	done, err := c.runNow(name)
	if err != nil {
		return Run{}, err
	}
	select {
	case r := <-done:
		return r, nil
	case <-ctx.Done():
		return Run{}, fmt.Errorf("poll %q: it was asked for, but has not ended: %w", name, context.Cause(ctx))
	case <-c.ctx.Done():
		return Run{}, fmt.Errorf("poll %q: it was asked for, but the term has ended: %w", name, context.Cause(c.ctx))
	}
}

// Quiesce is for a leader that is about to stop: it sends nothing more, waits for what workers have, as long as ctx lets it, and saves the checkpoint, so
// that the next leader knows of everything that has ended, even at workers that stop with this one.
func (o *Orchestrator) Quiesce(ctx context.Context) error {
	c, err := o.conduct()
	if err != nil {
		return nil // there is nothing to do
	}
	return c.quiesce(ctx)
}

// Stats are figures for metrics.
type Stats struct {
	Slots   map[string]uint64    // ended since the node was started, by outcome
	Latency map[string]Histogram // of checks, by kind
	Polls   map[State]int        // now; empty where the node does not lead
	Overdue int                  // of these, polls that have stopped running
	Jumps   uint64               // how often clocks disagreed about slots
}

// Stats returns the orchestrator's figures.
func (o *Orchestrator) Stats() Stats {
	s := Stats{Slots: map[string]uint64{}, Latency: map[string]Histogram{}, Polls: map[State]int{}}
	o.mu.Lock()
	for k, n := range o.totals {
		s.Slots[k] = n
	}
	for k, h := range o.latency {
		s.Latency[k] = *h
	}
	s.Jumps = o.jumps
	c := o.current
	o.mu.Unlock()
	if c != nil {
		now, mono := o.now(), time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.entries {
			s.Polls[cmp.Or(e.state, Unknown)]++
			if e.overdue(now, mono) {
				s.Overdue++
			}
		}
	}
	return s
}

func (o *Orchestrator) count(outcome, kind string, latency time.Duration, n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.totals[outcome] += n
	if outcome == outcomeOK || outcome == outcomeFailed {
		h := o.latency[kind]
		if h == nil {
			h = &Histogram{}
			o.latency[kind] = h
		}
		h.add(latency)
	}
}
