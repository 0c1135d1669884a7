package shell

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
)

const (
	maxActive = 32  // requests within their timeouts
	maxLate   = 256 // requests of a driver that goes on after its context has ended
)

// requests sends what the core asks for: concurrently, but no more than maxActive at once. Where the store can do it,
// many reads or writes are one request.
type requests struct {
	s         *Shell
	store     driver.Store
	batcher   driver.Batcher   // nil if the store is none
	refresher driver.Refresher // likewise
	remover   driver.Remover   // likewise
	witness   driver.Witness   // likewise

	mu      sync.Mutex
	active  int
	late    int
	timeout time.Duration // the longest of those asked for
	waiting [2][]*job     // for a slot: writes, then reads
	idle    chan struct{} // closed when there is no request any more, once somebody waits for that
}

// job is one request to the store, for one or many registers.
type job struct {
	verb   core.Verb
	sends  []core.Send
	ctx    context.Context
	cancel context.CancelFunc
	state  jobState // guarded by the mutex of requests
}

type jobState uint8

const (
	jobWaits  jobState = iota // for a slot
	jobActive                 // it has one
	jobLate                   // its timeout has passed: another request has its slot
)

func (r *requests) init(s *Shell, store driver.Store) {
	r.s = s
	r.store = store
	r.batcher, _ = store.(driver.Batcher)
	r.refresher, _ = store.(driver.Refresher)
	r.remover, _ = store.(driver.Remover)
	r.witness, _ = store.(driver.Witness)
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
			j.ctx, j.cancel = context.WithTimeout(r.s.ctx, timeout(send))
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
	if send.Verb == core.List || send.Verb == core.Named {
		return core.ListTimeouts * send.Timeout
	}

	return send.Timeout
}

// admit returns those of new requests that have a slot. The others wait for one.
func (r *requests) admit(jobs []*job) []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	var run []*job
	for _, j := range jobs {
		r.timeout = max(r.timeout, j.sends[0].Timeout)
		if r.active < maxActive {
			r.start(j)
			run = append(run, j)
			continue
		}

		k := 1
		if j.verb == core.Swap || j.verb == core.Remove {
			k = 0
		}

		r.waiting[k] = append(r.waiting[k], j)
	}

	return run
}

// start gives a slot to a request: until it is done, or its timeout has passed. The mutex is held.
func (r *requests) start(j *job) {
	r.active++
	j.state = jobActive
	context.AfterFunc(j.ctx, func() {
		for _, next := range r.overdue(j) {
			go r.s.work(next)
		}
	})
}

// overdue takes the slot from a request that goes on after its timeout, and returns the request that has it now.
func (r *requests) overdue(j *job) []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.state != jobActive || r.late >= maxLate {
		return nil
	}

	j.state = jobLate
	r.late++
	r.active--
	return r.next()
}

// done frees the slot of a request, and returns the request that has it now.
func (r *requests) done(j *job) []*job {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j.state == jobLate {
		r.late--
	} else {
		r.active--
	}

	j.state = jobWaits
	j.cancel()
	next := r.next()
	if r.idle != nil && r.active == 0 && r.late == 0 {
		close(r.idle)
		r.idle = nil
	}

	return next
}

// next gives a free slot to a request that waits. The mutex is held.
func (r *requests) next() []*job {
	if r.active >= maxActive {
		return nil
	}

	for k := range r.waiting {
		if len(r.waiting[k]) > 0 {
			j := r.waiting[k][0]
			r.waiting[k] = r.waiting[k][1:]
			r.start(j)
			return []*job{j}
		}
	}

	return nil
}

// wait returns when no request is under way, or after a timeout: a driver may not return when its context ends. The
// context of all requests has ended before.
func (r *requests) wait() {
	r.mu.Lock()
	if r.active == 0 && r.late == 0 {
		r.mu.Unlock()
		return
	}

	idle := make(chan struct{})
	r.idle = idle
	timeout := r.timeout
	r.mu.Unlock()

	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	}
}

// perform sends a request, and returns the answers for the core: first those that are plain, since they show that the
// store answers.
func (r *requests) perform(j *job) []core.Input {
	answers := make([]core.Input, 0, len(j.sends))
	var failures []core.Input
	outs, records := r.call(j)
	for i, out := range outs {
		a := core.Answer{ID: j.sends[i].ID, Outcome: outcome(out.Err), Record: out.Record, Records: records}
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

// errNotSent says that a request has waited for a slot until its timeout.
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
	case core.List:
		listed, err := r.list(j, j.sends[0].Record.Name, true)
		return []driver.Outcome{{Err: err}}, listed
	case core.Named:
		return r.named(j), nil
	}

	if len(j.sends) == 1 {
		return []driver.Outcome{r.single(j.ctx, j.sends[0])}, nil
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

// named finds elections that name heartbeat registers, by one list for all of them. One that cannot be read may name
// any.
func (r *requests) named(j *job) []driver.Outcome {
	all, err := r.list(j, "", false)
	if err != nil {
		return failed(j, err)
	}

	by := map[string]driver.Record{}
	for _, l := range all {
		if !l.Vacant() && l.Via != "" {
			by[l.Via] = driver.Record{Name: l.Name, Via: l.Via, Holder: l.Holder}
		}
	}

	outs := make([]driver.Outcome, len(j.sends))
	for i, send := range j.sends {
		l, ok := by[send.Record.Name]
		outs[i].Record = l
		if !ok {
			outs[i].Err = driver.ErrNotFound
		}
	}

	return outs
}

// list reads all registers below a prefix. Those that cannot be read are left out, or are an error. The store has the
// timeout of one request for each step.
func (r *requests) list(j *job, prefix string, leaveOut bool) ([]driver.Record, error) {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	limit := time.AfterFunc(j.sends[0].Timeout, cancel)
	defer limit.Stop()

	var all []driver.Record
	for record, err := range r.store.List(ctx, prefix) {
		limit.Reset(j.sends[0].Timeout)
		switch {
		case err == nil:
			all = append(all, record)
		case record.Name == "" || !leaveOut:
			return nil, err
		}
	}

	return all, nil
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

// PanicError is a recovered panic of a driver.
type PanicError struct {
	Value any
	Stack []byte
}

func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
