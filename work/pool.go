package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/signed"
)

// Options configures a [Pool]. The zero value is usable.
type Options struct {
	Leader string       // the sender's name, for the workers' logs
	Token  string       // signs requests; it is never sent
	Client *http.Client // if nil, a client with connections of its own
	Scheme string       // for addresses without one; http if empty
	Path   string       // /v1/tasks if empty
	Batch  int          // most tasks in one request; 128 if 0
	Queue  int          // most tasks that wait for one worker or are with it; 4096 if 0

	// Do sends a signed request in place of Token, for a token that may change. It gets the worker's ID and address,
	// and sends the request with send, perhaps more than once.
	Do func(
		send func(*http.Request) (*http.Response, error), r *http.Request, worker, addr string, body []byte,
	) (*http.Response, error)
	// Found receives results of tasks that this pool did not send: those of earlier terms. Recall is how long before
	// NewPool such a task may have ended; a minute if 0. After a restart of a worker, Found may receive some results a
	// second time, and results of this term too.
	Found  func(worker string, r Result)
	Recall time.Duration
	// Ready is called when a worker was reached for the first time, and when it was reached again after a restart. It
	// gets the IDs of the tasks that the worker has and that have not ended; Found receives their results. Results of
	// tasks that had ended were passed to Found before. From then on that worker takes no task of an earlier term,
	// except idempotent tasks within the grace of its fence.
	Ready func(worker string, running []string)
	// Fenced is called once, when a worker has refused this term because of a higher epoch, or because of another term
	// with the same epoch. newest is the epoch that the worker has seen. [regent.Term.Fenced] if nil.
	Fenced func(newest uint64)
}

// Pool sends the tasks of one term to workers, and receives their results. Create it in a duty, and close it before the
// duty returns: after Close no goroutine of the pool runs. The functions in Options are called from goroutines of the
// pool, one at a time for each worker, and must not call Close.
type Pool struct {
	opts    Options
	created time.Time
	term    regent.Term
	ctx     context.Context
	cancel  context.CancelCauseFunc
	wg      sync.WaitGroup
	stale   atomic.Bool
	own     *http.Transport // nil if Options.Client is set

	mu        sync.Mutex
	links     map[string]*link
	callbacks map[string]*sync.Mutex // by worker, shared by all links to it
	closed    bool
}

// NewPool returns a pool that sends tasks under the epoch of t, until t ends or ctx is done. ctx is the context of the
// duty.
func NewPool(ctx context.Context, t regent.Term, opts Options) *Pool {
	p := &Pool{opts: opts, created: time.Now(), term: t, links: map[string]*link{}, callbacks: map[string]*sync.Mutex{}}
	p.opts.Batch, p.opts.Queue = min(orDefault(opts.Batch, 128), maxBatch), orDefault(opts.Queue, 4096)
	if p.opts.Path == "" {
		p.opts.Path = "/v1/tasks"
	}

	if p.opts.Scheme == "" {
		p.opts.Scheme = "http"
	}

	if p.opts.Recall == 0 {
		p.opts.Recall = time.Minute
	}

	if p.opts.Do == nil {
		p.opts.Do = signed.NewSigner(signed.NewSecret(opts.Token)).Do
	}

	if p.opts.Client == nil {
		p.own = &http.Transport{MaxIdleConnsPerHost: 3, IdleConnTimeout: time.Minute}
		p.opts.Client = &http.Client{Transport: p.own,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}

	if p.opts.Fenced == nil {
		p.opts.Fenced = t.Fenced
	}

	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// Add adds a worker, or changes its address. The pool asks it at once for its tasks and results.
func (p *Pool) Add(worker, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if l := p.links[worker]; p.closed || l != nil && l.addr == addr {
		return
	} else if l != nil {
		l.cancel(ErrGone)
	}

	if p.callbacks[worker] == nil {
		p.callbacks[worker] = new(sync.Mutex)
	}

	l := newLink(p, worker, addr, p.callbacks[worker])
	p.links[worker] = l
	p.wg.Go(l.run)
}

// Remove removes a worker that is known to be dead. Its tasks end with ErrGone, except those whose results arrive
// within half a second.
func (p *Pool) Remove(worker string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if l := p.links[worker]; l != nil {
		delete(p.links, worker)
		if !p.closed {
			p.wg.Go(l.drain)
		}
	}
}

// Send queues a task for a worker. If Send returns nil, done is called once: with the result, or with the reason why
// there is none. ErrBusy, ErrUnknownKind, ErrStopping and ErrUnreachable mean that the task was not taken, so another
// worker may have it. A worker that does not answer may have the task: the pool retries until the worker is removed.
func (p *Pool) Send(worker string, t Task, done func(Result, error)) error {
	if err := t.validate(); err != nil {
		return err
	}

	p.mu.Lock()
	l := p.links[worker]
	p.mu.Unlock()

	if l == nil {
		return fmt.Errorf("worker %s: %w", worker, ErrNoWorker)
	}
	return l.send(&pendingTask{task: t, done: done})
}

// WorkerView is the state of a worker as the pool sees it.
type WorkerView struct {
	ID, Addr string
	Ready    bool  // it has been reached
	Tasks    int   // that wait for it, or are with it
	Busy     bool  // it has refused tasks within the last second because its queue was full
	Err      error // why the last request to it failed
}

// Usable reports whether the worker can take a task now.
func (v WorkerView) Usable() bool { return v.Ready && !v.Busy && v.Err == nil }

// Workers returns the workers, sorted by the number of their tasks.
func (p *Pool) Workers() []WorkerView {
	p.mu.Lock()
	all := make([]WorkerView, 0, len(p.links))
	for _, l := range p.links {
		all = append(all, l.view())
	}
	p.mu.Unlock()

	slices.SortFunc(all, func(a, b WorkerView) int {
		return cmp.Or(cmp.Compare(a.Tasks, b.Tasks),
			strings.Compare(a.ID, b.ID))
	})
	return all
}

// Do sends a task to one of the named workers, or to any if none is named, and waits for its result. It tries the
// worker with the fewest tasks first, and the next one if that does not take it. While all workers that could take it
// are busy, Do waits.
func (p *Pool) Do(ctx context.Context, t Task, workers ...string) (Result, error) {
	for {
		refused, busy := error(ErrNoWorker), false
		for _, worker := range p.choose(workers) {
			r, err := p.try(ctx, worker, t)
			if err == nil || !elsewhere(err) {
				return r, err
			}
			refused, busy = err, busy || errors.Is(err, ErrBusy)
		}

		if !busy {
			return Result{}, refused
		}

		if !sleep(ctx, busyBackoff/4) {
			return Result{}, errors.Join(refused, context.Cause(ctx))
		}
	}
}

// choose returns the IDs of the named workers, or of all: usable workers first.
func (p *Pool) choose(named []string) (ids []string) {
	var rest []string
	for _, v := range p.Workers() {
		switch {
		case len(named) > 0 && !slices.Contains(named, v.ID):
		case v.Usable():
			ids = append(ids, v.ID)
		default:
			rest = append(rest, v.ID)
		}
	}
	return append(ids, rest...)
}

// try sends a task to one worker, and waits for its result.
func (p *Pool) try(ctx context.Context, worker string, t Task) (Result, error) {
	type end struct {
		r   Result
		err error
	}

	ends := make(chan end, 1)
	if err := p.Send(worker, t, func(r Result, err error) { ends <- end{r, err} }); err != nil {
		return Result{}, err
	}

	select {
	case e := <-ends:
		return e.r, e.err
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// elsewhere reports whether a task may be sent to another worker, because it was certainly not taken.
func elsewhere(err error) bool {
	for _, certain := range []error{ErrBusy, ErrUnknownKind, ErrStopping, ErrUnreachable, ErrNoWorker} {
		if errors.Is(err, certain) {
			return true
		}
	}
	return false
}

// Close ends all requests. Tasks without a result end with ErrEnded. It returns when no goroutine of the pool runs.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.cancel(ErrEnded)
	p.mu.Unlock()

	p.wg.Wait()
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
}

// fenced ends the pool, because a worker has seen the epoch of another term.
func (p *Pool) fenced(newest uint64) {
	if !p.stale.Swap(true) {
		p.opts.Fenced(newest)
	}
	p.cancel(ErrEnded)
}
