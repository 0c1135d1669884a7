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

// Options is how a pool works. The zero Options do.
type Options struct {
	Leader string       // the sender's name, for the workers' logs
	Token  string       // requests are signed with it; it is never sent itself
	Client *http.Client // one with connections of its own if nil
	Scheme string       // of addresses that name none; http if empty
	Path   string       // /v1/tasks if empty
	Batch  int          // tasks in one request; 128 if 0
	Queue  int          // tasks that wait for one worker, or are with it; 4096 if 0

	// Do sends a request with this body to the worker at addr, and proves who sends it, in place of Token: for a token that may
	// change. It sends with send, perhaps more than once.
	Do func(send func(*http.Request) (*http.Response, error), r *http.Request, worker, addr string, body []byte) (*http.Response, error)
	// Found is told of results that nobody here waits for: an earlier term's. Recall is how long before the pool was made they may have ended when a worker is first
	// asked; a minute if 0. When a worker was started anew, it may tell of some a second time, of this term's as well.
	Found  func(worker string, r Result)
	Recall time.Duration
	// Ready is told, when a worker has been reached for the first time, and when it is heard of again after it was started anew, what it has still to
	// do; Found hears how that ends. All that ended was told before. From then on nothing of an earlier term can be taken by that worker,
	// but for idempotent tasks if its fence has a grace.
	Ready func(worker string, running []string)
	// Fenced is told, once, that a worker has refused this term because of a higher epoch, or because of another term that has the same
	// epoch. newest is the epoch that beat it. [regent.Term.Fenced] if nil.
	Fenced func(newest uint64)
}

// Pool sends the tasks of one term to workers, and hears how they end. It is made in a duty, and closed before that returns: then nothing
// of it runs any more. Functions that it is given are called by its own goroutines, for one worker one at a time, and must not wait for the pool.
type Pool struct {
	opts   Options
	made   time.Time
	term   regent.Term
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	stale  atomic.Bool
	own    *http.Transport // nil if the client is the user's

	mu     sync.Mutex
	links  map[string]*link
	turns  map[string]*sync.Mutex // by worker, over all its links
	closed bool
}

// NewPool returns a pool that sends under the term's epoch, as long as the term is valid and ctx, that of the duty, has not ended.
func NewPool(ctx context.Context, t regent.Term, opts Options) *Pool {
	p := &Pool{opts: opts, made: time.Now(), term: t, links: map[string]*link{}, turns: map[string]*sync.Mutex{}}
	p.opts.Batch, p.opts.Queue = min(or(opts.Batch, 128), maxBatch), or(opts.Queue, 4096)
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
		p.opts.Client = &http.Client{Transport: p.own, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if p.opts.Fenced == nil {
		p.opts.Fenced = t.Fenced
	}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	return p
}

// Add makes a worker known, or tells its new address. It is asked at once what it has.
func (p *Pool) Add(worker, addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[worker]; p.closed || l != nil && l.addr == addr {
		return
	} else if l != nil {
		l.cancel(ErrGone)
	}
	if p.turns[worker] == nil {
		p.turns[worker] = new(sync.Mutex)
	}
	l := newLink(p, worker, addr, p.turns[worker])
	p.links[worker] = l
	p.wg.Go(l.run)
}

// Remove forgets a worker that is known to be dead. What it has ends with ErrGone, unless it has told how before it died: that is waited for, for a moment.
func (p *Pool) Remove(worker string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.links[worker]; l != nil {
		delete(p.links, worker)
		if !p.closed {
			p.wg.Go(l.leave)
		}
	}
}

// Send queues a task for a worker. Unless it returns an error, done is called once: with the result, or with the reason why there will be none. ErrBusy,
// ErrUnknownKind, ErrStopping and ErrUnreachable say that it was not taken, so that another worker may have it. A worker that does not
// answer is asked again, until it is removed: it may have the task.
func (p *Pool) Send(worker string, t Task, done func(Result, error)) error {
	if err := t.valid(); err != nil {
		return err
	}
	p.mu.Lock()
	l := p.links[worker]
	p.mu.Unlock()
	if l == nil {
		return fmt.Errorf("worker %s: %w", worker, ErrNoWorker)
	}
	return l.send(&parcel{task: t, done: done})
}

// WorkerView is a worker as a pool sees it.
type WorkerView struct {
	ID, Addr string
	Ready    bool  // it was reached
	Tasks    int   // that wait for it, or are with it
	Busy     bool  // it has refused tasks for want of room, a moment ago
	Err      error // why it cannot be reached at the moment
}

// Usable reports whether it makes sense to send to the worker now.
func (v WorkerView) Usable() bool { return v.Ready && !v.Busy && v.Err == nil }

// Workers returns the workers, those with the least to do first.
func (p *Pool) Workers() []WorkerView {
	p.mu.Lock()
	all := make([]WorkerView, 0, len(p.links))
	for _, l := range p.links {
		all = append(all, l.view())
	}
	p.mu.Unlock()
	slices.SortFunc(all, func(a, b WorkerView) int { return cmp.Or(cmp.Compare(a.Tasks, b.Tasks), strings.Compare(a.ID, b.ID)) })
	return all
}

// Do has a task done by one of the workers named, or by any, and waits for its result: by the one with the least to do, or, if that does not take it, by
// the next. It waits for room while one that could take it is busy.
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
		if !sleep(ctx, busyFor/4) {
			return Result{}, errors.Join(refused, context.Cause(ctx))
		}
	}
}

// choose returns those of the workers named, or of all, those first that can be sent to now.
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

// try has a task done by one worker.
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

// elsewhere reports whether a task may be given to another worker: it was not taken, for certain.
func elsewhere(err error) bool {
	for _, certain := range []error{ErrBusy, ErrUnknownKind, ErrStopping, ErrUnreachable, ErrNoWorker} {
		if errors.Is(err, certain) {
			return true
		}
	}
	return false
}

// Close ends everything: what was not answered ends with ErrEnded. It returns when nothing of the pool runs any more.
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

// fenced is told of the epoch of a term that beats this one.
func (p *Pool) fenced(newest uint64) {
	if !p.stale.Swap(true) {
		p.opts.Fenced(newest)
	}
	p.cancel(ErrEnded)
}
