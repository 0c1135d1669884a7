package shell

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

// batch is how many registers one request to the store names at most.
const batch = 1000

// requests sends what the core asks for: concurrently, but no more than maxActive at once. Where the store can do it,
// many reads or writes are one request.
type requests struct {
	s         *Shell
	store     driver.Store
	batcher   driver.Batcher   // nil if the store is none
	refresher driver.Refresher // likewise
	remover   driver.Remover   // likewise
	witness   driver.Witness   // likewise
	members   atomic.Int64     // how many the last list has shown

	mu      sync.Mutex
	active  int
	running []*job      // those that have a permit
	limit   *time.Timer // when the next of them has to give it up; nil if nobody waits for one
	late    int
	timeout time.Duration // the longest of those asked for
	waiting [4][]*job     // for a permit, by urgency
	idle    chan struct{} // closed when there is no request any more, once somebody waits for that
}

// job is one request to the store, for one or many registers.
type job struct {
	verb   core.Verb
	sends  []core.Send
	ctx    context.Context
	cancel context.CancelFunc
	state  jobState // guarded by the mutex of requests

	partial bool // the list has ended at the record that is sought

	// Most jobs are for one register, and the only ones of their step. These are used then, so that nothing more is
	// allocated.
	only    [1]*job
	one     [1]core.Send
	out     [1]driver.Outcome
	answers [1]core.Input
	answer  core.Answer
}

func (r *requests) init(s *Shell, store driver.Store) {
	r.s = s
	r.store = store
	r.batcher, _ = store.(driver.Batcher)
	r.refresher, _ = store.(driver.Refresher)
	r.remover, _ = store.(driver.Remover)
	r.witness, _ = store.(driver.Witness)
}

// dispatch sends what the core has asked for.
func (s *Shell) dispatch() []*job {
	s.loop.followRead(s.sends)
	s.loop.subscribe() // before anything is read, so that no change is missed
	if len(s.sends) == 0 {
		return nil
	}

	jobs := s.requests.group(s.sends)
	clear(s.sends)
	s.sends = s.sends[:0]
	return s.requests.admit(jobs)
}

// appendJobs appends b to a, which is usually empty.
func appendJobs(a, b []*job) []*job {
	if len(a) == 0 {
		return b
	}

	return append(a, b...)
}

// group makes requests to the store of what the core asks for. What concerns a member register is a request of its own,
// since a heartbeat does not wait for others, and so is a checkpoint.
func (r *requests) group(sends []core.Send) []*job {
	var jobs []*job
	open := map[core.Verb]*job{}
	for _, send := range sends {
		batched := send.Verb == core.Get && r.refresher != nil || send.Verb == core.Swap && r.batcher != nil
		alone := send.Asked || strings.HasPrefix(send.Record.Name, driver.MemberPrefix)
		if send.Verb == core.Named { // one list for all
			batched, alone = true, false
		}

		j := open[send.Verb]
		if !batched || j == nil || len(j.sends) == batch || alone {
			j = &job{verb: send.Verb}
			j.sends = j.one[:0]
			j.ctx, j.cancel = context.WithTimeout(r.s.ctx, timeout(send))
			if jobs == nil {
				jobs = j.only[:0]
			}

			jobs = append(jobs, j)
			if batched && !alone {
				open[send.Verb] = j
			}
		}

		j.sends = append(j.sends, send)
	}

	return jobs
}

// timeout returns how long a request may take. A long list may take longer than any other request.
func timeout(send core.Send) time.Duration {
	if send.Verb == core.List || send.Verb == core.Skim || send.Verb == core.Named {
		return core.ListTimeouts * send.Timeout
	}

	return send.Timeout
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
				s.send(n)
			}
		}
	}
}

// perform sends a request, and returns the answers for the core: first those that are plain, since they show that the
// store answers.
func (r *requests) perform(j *job) []core.Input {
	answers := j.answers[:0]
	var failures []core.Input
	outs, records := r.call(j)
	for i, out := range outs {
		a := &j.answer
		if i > 0 {
			a = new(core.Answer)
		}

		*a = core.Answer{
			ID: j.sends[i].ID, Outcome: outcome(out.Err), Record: out.Record, Records: records, Partial: j.partial,
		}
		if out.Err != nil {
			a.Error = out.Err.Error()
			a.Err = out.Err
		}

		if errors.Is(out.Err, errNotSent) {
			a.Outcome = core.NotSent
		}

		if j.sends[i].Witness && out.Err == nil && r.witness != nil && !out.Record.Vacant() {
			a.Gone = r.witness.Gone(j.ctx, out.Record)
		}

		if a.Outcome == core.Unknown {
			failures = append(failures, a)
		} else {
			answers = append(answers, a)
		}
	}

	return append(answers, failures...)
}

// errNotSent says that a request has waited for a permit until its timeout.
var errNotSent = errors.New("not sent: too many requests are under way")

// call makes the call of the store, and returns the outcome for each register, or the records of a list. A panic of the
// driver leaves the outcome unknown.
func (r *requests) call(j *job) (outs []driver.Outcome, listed []driver.Record) {
	if j.ctx.Err() != nil {
		return failed(j, errNotSent), nil
	}

	defer func() {
		if v := recover(); v != nil {
			err := &PanicError{v, debug.Stack()}
			if !j.sends[0].Asked { // else whoever asked gets the error
				r.s.panicked(err)
			}

			outs = failed(j, err)
		}
	}()

	switch j.verb {
	case core.List, core.Skim:
		listed, partial, err := r.list(j, j.sends[0].Record.Name, true)
		if !partial {
			r.members.Store(int64(len(listed)))
		}

		j.partial = partial
		return []driver.Outcome{{Err: err}}, listed
	case core.Named:
		return r.named(j), nil
	}

	if len(j.sends) == 1 {
		j.out[0] = r.single(j.ctx, j.sends[0])
		return j.out[:], nil
	}

	records := make([]driver.Record, len(j.sends))
	for i, send := range j.sends {
		records[i] = send.Record
	}

	if j.verb == core.Get {
		return complete(records, r.refresher.Refresh(j.ctx, records)), nil
	}

	return complete(records, r.batcher.SwapAll(j.ctx, records)), nil
}

// single makes the call for one register.
func (r *requests) single(ctx context.Context, send core.Send) (o driver.Outcome) {
	switch {
	case send.Verb == core.Get:
		o.Record, o.Err = r.store.Get(ctx, send.Record.Name)
	case send.Verb == core.Swap:
		o.Record, o.Err = r.store.Swap(ctx, send.Record)
	case r.remover == nil:
		o.Err = fmt.Errorf("remove %q: the store cannot remove registers: %w", send.Record.Name, driver.ErrConflict)
	default:
		o.Err = r.remover.Remove(ctx, send.Record)
	}

	return o
}

func failed(j *job, err error) []driver.Outcome {
	outs := make([]driver.Outcome, len(j.sends))
	for i := range outs {
		outs[i].Err = err
	}

	return outs
}

// errShortBatch says that a store did not say what became of a register of a batch.
var errShortBatch = errors.New("the store gave no outcome for a register of a batch")

// complete returns an outcome for every register of a batch.
func complete(records []driver.Record, got []driver.Outcome) []driver.Outcome {
	outs := make([]driver.Outcome, len(records))
	for i, r := range records {
		outs[i].Err = errShortBatch // unless there is one for this very register
		if i < len(got) && (got[i].Err != nil || got[i].Record.Name == r.Name) {
			outs[i] = got[i]
		}
	}

	return outs
}

// outcome is what an error of the store means for a request.
func outcome(err error) core.Outcome {
	switch {
	case err == nil:
		return core.Done
	case errors.Is(err, driver.ErrNotFound):
		return core.NotFound
	case errors.Is(err, driver.ErrConflict):
		return core.Conflict
	}

	return core.Unknown
}
