package work

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/signed"
)

// batchBytes is the size from which no more tasks are added to a request. Even if all names are escaped, it stays below
// maxBody.
const batchBytes = 1 << 20

// contact is how far a request without an answer has got.
type contact int

const (
	unknown   contact = iota // the transport does not report it
	dialing                  // no connection yet: nobody can have read the request
	connected                // the request may have reached the worker
)

// send queues a task for the worker.
func (l *link) send(c *pendingTask) error {
	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case l.p.ctx.Err() != nil:
		return fmt.Errorf("worker %s: %w", l.id, ErrEnded)
	case l.closed || l.ctx.Err() != nil:
		return fmt.Errorf("worker %s: %w", l.id, ErrNoWorker)
	case l.pending[c.task.ID] != nil:
		return fmt.Errorf("worker %s: task %s is pending already", l.id, c.task.ID)
	case len(l.pending) >= l.p.opts.Queue:
		return fmt.Errorf("worker %s: %w: %d tasks are pending", l.id, ErrBusy, len(l.pending))
	}

	l.pending[c.task.ID] = c
	l.queue = append(l.queue, c)
	wake(l.sendable)
	if len(l.queue) >= l.p.opts.Batch {
		wake(l.fullBatch)
	}

	return nil
}

// sendLoop sends the queue, in batches of at least so many tasks. Tasks that are queued during a request go with the
// next.
func (l *link) sendLoop(enough int, sendable <-chan struct{}) {
	var reached contact
	ctx := httptrace.WithClientTrace(l.ctx, reached.trace())

	var body []byte
	var answer bytes.Buffer
	pause := firstBackoff
	for {
		tasks, session := l.takeBatch(enough)
		if len(tasks) == 0 {
			select {
			case <-sendable:
				continue
			case <-l.ctx.Done():
				return
			}
		}

		if !l.p.term.Valid() { // workers may follow another term by now
			l.p.cancel(ErrEnded)
			return
		}

		body = l.appendTasks(body[:0], tasks, session)
		reached = unknown
		var v receipt
		code, err := l.post(ctx, requestTimeout, "", body, &answer, v.parse, &v)
		refused := errors.Is(err, signed.ErrOld)
		if err == nil {
			err = l.checkEpoch(code, regent.Token{Epoch: v.Epoch})
			refused = err != nil
		}

		switch {
		case l.ctx.Err() != nil || err == nil && l.superseded(code, regent.Token{Epoch: v.Epoch, Term: v.Term}):
			return
		case l.applyReceipt(tasks, code, &v, err, reached != dialing && !refused):
			pause = firstBackoff
			continue
		case !sleep(l.ctx, pause):
			return
		}
		pause = min(2*pause, lastBackoff)
	}
}

// trace returns a trace that records in c how far a request has got.
func (c *contact) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			if *c == unknown { // otherwise it is a second attempt
				*c = dialing
			}
		},
		GotConn: func(httptrace.GotConnInfo) { *c = connected },
	}
}

// appendTasks appends a batch of tasks as the body of a request.
func (l *link) appendTasks(body []byte, tasks []*pendingTask, session string) []byte {
	body = appendBatch(body, l.p.term.Election, l.p.opts.Leader, l.p.term.Token(), time.Now())
	for _, c := range tasks {
		if !c.tried {
			c.firstSession = session
			body = appendTask(body, &c.task, "")
		} else {
			body = appendTask(body, &c.task, c.firstSession)
		}
	}
	return append(body, endBatch...)
}

// takeBatch removes a batch from the queue.
func (l *link) takeBatch(enough int) (tasks []*pendingTask, session string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if len(l.queue) < enough {
		return nil, ""
	}

	n, size := 0, 0
	for n < len(l.queue) && n < l.p.opts.Batch && size < batchBytes {
		t := &l.queue[n].task
		size += 128 + 6*(len(t.ID)+len(t.Kind)) + len(t.Payload)
		n++
	}

	tasks = l.queue[:n:n]
	l.queue = l.queue[n:]
	if len(l.queue) == 0 {
		l.queue = nil
	}

	return tasks, l.session
}

// applyReceipt processes the answer to a batch, and reports whether the next one may follow at once. arrived says that
// the batch may have reached the worker even if there was no answer.
func (l *link) applyReceipt(tasks []*pendingTask, code int, v *receipt, err error, arrived bool) bool {
	if err == nil {
		err, arrived = receiptError(code, v)
	}

	var refused map[string]string
	var ended map[string]*wireResult
	if err == nil {
		refused, ended = v.byTask()
	}

	lost, retry := l.settleBatch(tasks, v, err, arrived, refused, ended)
	for _, c := range lost {
		if err != nil {
			l.complete(c, Result{}, fmt.Errorf("%w: %w", ErrUnreachable, err))
		} else {
			l.complete(c, Result{}, refusalError(refused[c.task.ID]))
		}
	}
	for _, c := range tasks {
		if o := ended[c.task.ID]; o != nil {
			l.complete(c, o.result(), nil)
		}
	}

	wake(l.readable)
	return !retry
}

// settleBatch decides what becomes of each task of a batch: it is with the worker, is sent again, or is lost. It
// removes from ended the tasks whose results have arrived already.
func (l *link) settleBatch(
	tasks []*pendingTask, v *receipt, err error, arrived bool, refused map[string]string, ended map[string]*wireResult,
) (lost []*pendingTask, retry bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.failing = err
	for _, c := range tasks {
		why := refused[c.task.ID]
		switch o := ended[c.task.ID]; {
		case l.pending[c.task.ID] != c: // its result has arrived already
			delete(ended, c.task.ID)
		case o != nil:
			delete(l.pending, c.task.ID)
			if o.Number > l.after { // it will also come in a report
				l.delivered[c.task.ID] = true
			}
		case err != nil && (arrived || c.tried) || why == whyAgain:
			// It may be with the worker. To send it again does no harm.
			retry = retry || err != nil
			c.tried = true
			l.queue = append(l.queue, c)
			wake(l.sendable) // they may be too few for the loop that sent them
		case err != nil || why != "":
			if why == whyBusy {
				l.busy = time.Now().Add(busyBackoff)
			}
			delete(l.pending, c.task.ID)
			lost = append(lost, c)
		default:
			c.tried = true
			c.session = v.Session
			c.queries = l.queries
			l.resync = l.resync || l.session != "" && l.session != v.Session
		}
	}

	return lost, retry
}

// byTask returns, by the ID of a task, why it was refused, and how it has ended.
func (v *receipt) byTask() (refused map[string]string, ended map[string]*wireResult) {
	refused = make(map[string]string, len(v.Refused))
	for _, r := range v.Refused {
		refused[r.ID] = r.Why
	}

	ended = make(map[string]*wireResult, len(v.Results))
	for i := range v.Results {
		ended[v.Results[i].ID] = &v.Results[i]
	}
	return refused, ended
}

// receiptError returns what is wrong with an answer, and whether tasks may have been taken all the same. A proxy that
// times out, for example, knows as little as if there had been no answer.
func receiptError(code int, v *receipt) (err error, arrived bool) {
	switch {
	case v.Session != "" && (code == http.StatusOK || len(v.Refused) > 0):
		return nil, false
	case code == http.StatusOK:
		return errors.New("the answer is not a worker's: check its address"), true
	}
	return fmt.Errorf("answered %d: %s", code, v.Error), v.Session == "" && code >= 500
}

func refusalError(why string) error {
	switch why {
	case whyBusy:
		return ErrBusy
	case whyKind:
		return ErrUnknownKind
	case whyStopping:
		return ErrStopping
	case whyForgotten:
		return ErrForgotten
	}
	return errors.New("refused: " + why)
}
