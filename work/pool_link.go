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
	longPoll       = 20 * time.Second       // how long a worker waits for a result before it answers
	requestTimeout = 10 * time.Second       // for one request
	busyBackoff    = time.Second            // how long a worker that is busy gets no tasks
	drainTimeout   = 500 * time.Millisecond // how long results of a removed worker are awaited
	firstBackoff   = 50 * time.Millisecond
	lastBackoff    = 2 * time.Second
	maxAnswer      = 16 << 20 // bytes of an answer; a worker's own are smaller
)

// link is a pool's connection to one worker. One request at a time carries tasks, or two if there are many
// (pool_send.go). Another one asks for results (pool_results.go).
type link struct {
	p         *Pool
	id        string
	addr      string
	url       string
	ctx       context.Context
	cancel    context.CancelCauseFunc
	callbacks *sync.Mutex // held while a function of the user is called for this worker

	mu      sync.Mutex
	queue   []*pendingTask
	pending map[string]*pendingTask // by ID: tasks without a result
	// Tasks that the worker had in its first report and that have not ended: for Options.Found.
	awaited   map[string]bool
	delivered map[string]bool // results that came in a receipt and will come again in a report
	session   string          // of the worker, from its last report
	after     uint64          // the number of the last result in a report
	queries   uint64          // how many queries have been sent
	resync    bool            // a task was taken in another session: query from the beginning
	closed    bool
	removed   bool // by Pool.Remove
	ready     bool
	busy      time.Time // until then
	failing   error
	sendable  chan struct{}
	fullBatch chan struct{} // signals that the queue holds a full batch
	readable  chan struct{}
}

// pendingTask is a task without a result.
type pendingTask struct {
	task         Task
	done         func(Result, error)
	tried        bool   // it may have reached the worker
	firstSession string // the worker's session when it was first sent
	session      string // of the worker that has taken it
	queries      uint64 // the link's count when that was known
}

func newLink(p *Pool, id, addr string, turn *sync.Mutex) *link {
	l := &link{p: p, id: id, addr: addr, callbacks: turn, pending: map[string]*pendingTask{},
		delivered: map[string]bool{},
		sendable:  make(chan struct{}, 1), fullBatch: make(chan struct{}, 1), readable: make(chan struct{}, 1)}
	l.url = addr
	if !strings.Contains(addr, "://") {
		l.url = p.opts.Scheme + "://" + addr
	}

	l.url += p.opts.Path
	l.ctx, l.cancel = context.WithCancelCause(p.ctx)
	return l
}

// run returns when every task that was sent has ended.
func (l *link) run() {
	var loops sync.WaitGroup
	loops.Go(func() { l.sendLoop(1, l.sendable) })

	// Full batches need not wait for the answer to the one before.
	loops.Go(func() { l.sendLoop(l.p.opts.Batch, l.fullBatch) })
	loops.Go(l.resultLoop)
	loops.Wait()
	cause := ErrEnded

	if errors.Is(context.Cause(l.ctx), ErrGone) {
		cause = ErrGone
	}

	l.mu.Lock()
	l.closed = true
	left := l.pending
	l.pending, l.queue = nil, nil
	l.mu.Unlock()

	for _, c := range left {
		l.complete(c, Result{}, cause)
	}
}

// drain ends the link to a worker that was removed. It first waits for results: a worker may have reported them just
// before it left, and their answer may arrive after its register has gone.
func (l *link) drain() {
	l.mu.Lock()
	l.removed = true
	speaks := l.failing == nil && len(l.pending) > 0
	l.mu.Unlock()

	if speaks {
		sleep(l.ctx, drainTimeout)
	}
	l.cancel(ErrGone)
}

// cancelIfDrained ends the link to a removed worker once it has nothing to report.
func (l *link) cancelIfDrained() {
	l.mu.Lock()
	over := l.removed && (l.failing != nil || len(l.pending) == 0)
	l.mu.Unlock()
	if over {
		l.cancel(ErrGone)
	}
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
	return WorkerView{ID: l.id, Addr: l.addr, Ready: l.ready, Tasks: len(l.pending), Busy: time.Now().Before(l.busy),
		Err: l.failing}
}

// post sends a request and decodes the answer. An error means that there is no usable answer. The caller provides the
// buffer, so that it need not grow each time; nothing that is read from it is kept.
func (l *link) post(
	ctx context.Context, limit time.Duration, below string, body []byte,
	answer *bytes.Buffer, parse func([]byte) bool, into any,
) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+below, nil)
	if err != nil {
		return 0, err
	}

	r.Header.Set("Content-Type", "application/json")
	// A query may be sent again over a new connection if the old one was closed. Tasks may not: a second attempt must
	// be marked.
	if below != "" {
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

	answer.Reset()
	if answer.Cap() > 1<<20 { // it has held a large answer
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

// maxAhead is how far beyond its own epoch a term accepts another epoch: see [regent.Member.Observe]. A store that
// loses writes loses no more terms than that.
const maxAhead = 1 << 20

// superseded reports whether an answer refuses this term: the worker has seen a higher epoch, or the same epoch of
// another term. No other 409 ends the term.
func (l *link) superseded(code int, by regent.Token) bool {
	own := l.p.term.Token()
	another := by.Epoch == own.Epoch && by.Term != "" && by.Term != own.Term
	if code != http.StatusConflict || by.Epoch <= own.Epoch && !another {
		return false
	}

	l.p.fenced(by.Epoch)
	return true
}

// checkEpoch returns an error if a worker refuses this term for an epoch that no term can have. If that ended the term,
// it would end every term after it.
func (l *link) checkEpoch(code int, by regent.Token) error {
	own := l.p.term.Epoch
	if code != http.StatusConflict || by.Epoch <= own+maxAhead {
		return nil
	}
	return fmt.Errorf("it refuses epoch %d for epoch %d, which no term can have reached: its epoch file is "+
		"damaged; stop the worker and write the election's current epoch into that file", own, by.Epoch)
}

// sleep reports whether the whole time has passed.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
