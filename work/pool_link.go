package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/signed"
)

const (
	askFor     = 20 * time.Second       // how long a worker is asked to wait for a result
	sendFor    = 10 * time.Second       // how long one request may take
	busyFor    = time.Second            // how long a worker that is busy is left alone
	lastWords  = 500 * time.Millisecond // how long a worker that is gone is listened to
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
	maxAnswer  = 16 << 20 // bytes of an answer; a worker's own are smaller
)

// link is a pool's connection to one worker: one request at a time brings tasks, or two if there are many (dispatch.go), another one asks for results
// (listen.go).
type link struct {
	p      *Pool
	id     string
	addr   string
	url    string
	ctx    context.Context
	cancel context.CancelCauseFunc
	turn   *sync.Mutex // held while a function of the user is called for this worker

	mu       sync.Mutex
	outbox   []*parcel
	parcels  map[string]*parcel // all that have not ended
	awaited  map[string]bool    // what the worker had when it was first asked, and has not ended: others wait for that
	told     map[string]bool    // results that came with the answer to a batch, and are yet to come the usual way
	session  string             // the worker's, as far as it was asked
	after    uint64             // the number of the last result that came the usual way
	asked    uint64             // how many questions have set out
	doubt    bool               // something was taken in another session than that: ask from the beginning
	closed   bool
	leaving  bool // the worker is gone
	ready    bool
	busy     time.Time // until then
	failing  error
	sendable chan struct{}
	plenty   chan struct{} // there is a full batch
	readable chan struct{}
}

// parcel is a task on its way.
type parcel struct {
	task    Task
	done    func(Result, error)
	tried   bool   // it may have reached the worker
	first   string // the worker's session as it was known at the first try
	session string // of the worker that has taken it
	asked   uint64 // the link's count when that was known
}

func newLink(p *Pool, id, addr string, turn *sync.Mutex) *link {
	l := &link{p: p, id: id, addr: addr, turn: turn, parcels: map[string]*parcel{}, told: map[string]bool{},
		sendable: make(chan struct{}, 1), plenty: make(chan struct{}, 1), readable: make(chan struct{}, 1)}
	l.url = addr
	if !strings.Contains(addr, "://") {
		l.url = p.opts.Scheme + "://" + addr
	}
	l.url += p.opts.Path
	l.ctx, l.cancel = context.WithCancelCause(p.ctx)
	return l
}

// run returns when everything that was sent has ended, one way or another.
func (l *link) run() {
	var loops sync.WaitGroup
	loops.Go(func() { l.sendLoop(1, l.sendable) })
	loops.Go(func() { l.sendLoop(l.p.opts.Batch, l.plenty) }) // full batches need not wait for the answer to the last one
	loops.Go(l.readLoop)
	loops.Wait()
	cause := ErrEnded
	if errors.Is(context.Cause(l.ctx), ErrGone) {
		cause = ErrGone
	}
	l.mu.Lock()
	l.closed = true
	left := l.parcels
	l.parcels, l.outbox = nil, nil
	l.mu.Unlock()
	for _, c := range left {
		l.end(c, Result{}, cause)
	}
}

// leave ends the link to a worker that is gone, but not before its last words were heard: it may have told how its tasks ended, and then left, and an
// answer is slower than a register.
func (l *link) leave() {
	l.mu.Lock()
	l.leaving = true
	speaks := l.failing == nil && len(l.parcels) > 0
	l.mu.Unlock()
	if speaks {
		sleep(l.ctx, lastWords)
	}
	l.cancel(ErrGone)
}

// heard follows a question, and ends a link that is to be left if there is nothing more to hear.
func (l *link) heard() {
	l.mu.Lock()
	over := l.leaving && (l.failing != nil || len(l.parcels) == 0)
	l.mu.Unlock()
	if over {
		l.cancel(ErrGone)
	}
}

// end tells whoever sent a task how it ended. It is no longer among the parcels, so that it is told once.
func (l *link) end(c *parcel, r Result, why error) {
	if why != nil {
		why = fmt.Errorf("worker %s: %w", l.id, why)
	}
	l.turn.Lock()
	defer l.turn.Unlock()
	c.done(r, why)
}

func (l *link) send(c *parcel) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.p.ctx.Err() != nil:
		return fmt.Errorf("worker %s: %w", l.id, ErrEnded)
	case l.closed || l.ctx.Err() != nil:
		return fmt.Errorf("worker %s: %w", l.id, ErrNoWorker)
	case l.parcels[c.task.ID] != nil:
		return fmt.Errorf("worker %s: task %s is on its way already", l.id, c.task.ID)
	case len(l.parcels) >= l.p.opts.Queue:
		return fmt.Errorf("worker %s: %w: %d tasks are on their way", l.id, ErrBusy, len(l.parcels))
	}
	l.parcels[c.task.ID] = c
	l.outbox = append(l.outbox, c)
	wake(l.sendable)
	if len(l.outbox) >= l.p.opts.Batch {
		wake(l.plenty)
	}
	return nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *link) view() WorkerView {
	l.mu.Lock()
	defer l.mu.Unlock()
	return WorkerView{ID: l.id, Addr: l.addr, Ready: l.ready, Tasks: len(l.parcels), Busy: time.Now().Before(l.busy), Err: l.failing}
}

// post sends a request. An error means that there is no answer that makes sense. The buffer is its caller's, so that it need not grow each time;
// nothing that is read from it is kept.
func (l *link) post(ctx context.Context, limit time.Duration, below string, body []byte, answer *bytes.Buffer, parse func([]byte) bool, into any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+below, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if below != "" { // a question: a connection that had gone stale is replaced without asking. Tasks have to say that they come again.
		r.Header["Idempotency-Key"] = nil
	}
	resp, err := l.p.opts.Do(l.p.opts.Client.Do, r, l.id, l.addr, body)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if err := signed.Refused(resp); err != nil {
		return 0, err
	}
	if answer.Reset(); answer.Cap() > 1<<20 { // it was a large one
		*answer = bytes.Buffer{}
	}
	if n, err := answer.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1)); err != nil {
		return 0, err
	} else if n > maxAnswer {
		return 0, fmt.Errorf("the answer is refused: it has more than %d bytes", maxAnswer)
	}
	if parse(answer.Bytes()) {
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(answer.Bytes(), into); err != nil && resp.StatusCode == http.StatusOK {
		return 0, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return resp.StatusCode, nil
}

// maxAhead is how far beyond its own epoch a term believes that another one may be: see [regent.Member.Observe]. A store
// that forgets loses no more terms than that.
const maxAhead = 1 << 20

// beaten reports whether an answer says that this term was refused: the worker has seen a higher epoch,
// or the same epoch of another term. No other 409 ends the term.
func (l *link) beaten(code int, by regent.Token) bool {
	own := l.p.term.Token()
	another := by.Epoch == own.Epoch && by.Term != "" && by.Term != own.Term
	if code != http.StatusConflict || by.Epoch <= own.Epoch && !another {
		return false
	}

	l.p.fenced(by.Epoch)
	return true
}

// absurd says that a worker refuses this term for an epoch that no term can have: if the term ended for that, so would
// every term after it.
func (l *link) absurd(code int, by regent.Token) error {
	own := l.p.term.Epoch
	if code != http.StatusConflict || by.Epoch <= own+maxAhead {
		return nil
	}
	return fmt.Errorf("it refuses epoch %d for epoch %d, which no term can have reached: the file that keeps its epoch is "+
		"damaged; stop it, and write the election's present epoch into that", own, by.Epoch)
}

// sleep reports whether it has slept in full.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
