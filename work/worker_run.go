package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/regentd/regent/internal/jsonscan"
)

// run is a task that the worker has accepted.
type run struct {
	task    Task
	due     time.Time // when its timeout has passed
	sent    uint64    // the latest epoch that has sent it
	ended   bool
	result  wireResult
	endedAt time.Time
	number  uint64 // its place among the ended tasks
}

// start runs accepted tasks, once the journal has recorded them.
func (w *Worker) start(taken []*run) {
	if len(taken) == 0 {
		return
	}
	defer w.runners.Done()

	if err := w.journal.begin(taken); err != nil {
		// They count as accepted, because a second delivery may have been answered so already.
		w.Log.Error("journal cannot be written: this worker refuses tasks for a while", "journal", w.Journal,
			"refuses", journalBackoff, "error", err)
		w.mu.Lock()
		w.journalFailedLocked(err)
		w.mu.Unlock()
		for _, r := range taken {
			w.finish(r, Failed, nil, err)
		}
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	w.waiting = append(w.waiting, taken...)
	for range taken {
		if w.running == w.Concurrency {
			break
		}
		w.running++
		w.runners.Go(w.runTasks)
	}
}

// runTasks runs one task after another until none waits. An idle worker has no goroutine.
func (w *Worker) runTasks() {
	for {
		w.mu.Lock()
		if len(w.waiting) == 0 {
			w.waiting = nil
			w.running--
			w.mu.Unlock()
			return
		}

		r := w.waiting[0]
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		w.mu.Unlock()

		w.runTask(r)
	}
}

// runTask runs a task to its end.
func (w *Worker) runTask(r *run) {
	began := time.Now()
	if w.ctx.Err() != nil {
		w.finish(r, Interrupted, nil, ErrStopping)
		return
	}

	if !began.Before(r.due) {
		w.finish(r, Expired, nil, errors.New("the timeout passed before it started"))
		return
	}

	ctx, cancel := context.WithDeadline(w.ctx, r.due)
	defer cancel()

	returned := false
	defer func() {
		if !returned { // runtime.Goexit: this goroutine ends, so another one goes on
			w.finish(r, Failed, nil, errors.New("the handler called runtime.Goexit"))
			w.runners.Go(w.runTasks)
		}
	}()

	data, err := callHandler(w.handlers[r.task.Kind], ctx, r.task)
	returned = true
	r.result.BeganMs, r.result.TookUs = began.UnixMilli(), time.Since(began).Microseconds()
	switch {
	case err == nil:
		w.finish(r, Done, data, nil)
	case w.ctx.Err() != nil:
		w.finish(r, Interrupted, nil, err)
	case ctx.Err() != nil:
		w.finish(r, Expired, nil, err)
	default:
		w.finish(r, Failed, nil, err)
	}
}

// callHandler turns a panic of a handler into an error.
func callHandler(h Handler, ctx context.Context, t Task) (data json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()

	data, err = h(ctx, t)
	switch {
	case err != nil || len(data) == 0:
	case len(data) > maxData:
		err = fmt.Errorf("the result has %d bytes, it must have at most %d", len(data), maxData)
	// A result must fit on one line of the journal.
	case !jsonscan.Compact(data):
		var b bytes.Buffer
		if json.Compact(&b, data) != nil {
			err = errors.New("the result is not valid JSON")
		}
		data = b.Bytes()
	}

	return data, err
}

// finish records how a task ended: first in the journal, then for reports. If another goroutine is writing the journal,
// it leaves the result to that one, so that many results cost one write.
func (w *Worker) finish(r *run, how Outcome, data json.RawMessage, err error) {
	r.result.ID = r.task.ID
	r.result.Kind = r.task.Kind
	r.result.Epoch = r.task.Epoch
	r.result.Outcome = how
	r.result.Data = data
	if err != nil {
		text := err.Error()
		r.result.Error = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if w.journal == nil {
		w.closeRunLocked(r)
		w.notifyLocked()
		return
	}

	w.unflushed = append(w.unflushed, r)
	if w.flushing {
		return
	}

	w.flushing = true
	for len(w.unflushed) > 0 {
		rs := w.unflushed
		w.unflushed = nil
		w.mu.Unlock()

		err := w.journal.end(rs)
		w.mu.Lock()
		if err != nil {
			w.Log.Error("journal cannot be written", "journal", w.Journal, "error", err)
			w.journalFailedLocked(err)
		}

		for _, r := range rs {
			w.closeRunLocked(r)
		}

		w.notifyLocked()
	}

	w.flushing = false
}

// closeRunLocked makes an ended task available to reports.
func (w *Worker) closeRunLocked(r *run) {
	w.payloadBytes -= len(r.task.Payload)
	r.ended = true
	r.endedAt = time.Now()
	r.task.Payload = nil
	w.open--
	w.stats.Outcomes[r.result.Outcome]++
	w.unreportedBytes += r.result.size()
	w.rememberLocked(r)
}

// notifyLocked wakes everybody who waits for a result.
func (w *Worker) notifyLocked() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// changedLocked returns a channel that is closed when the next task has ended.
func (w *Worker) changedLocked() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// rememberLocked gives an ended task its number, and forgets the oldest tasks.
func (w *Worker) rememberLocked(r *run) {
	w.runs[r.result.ID] = r
	w.ended = append(w.ended, r)
	w.keptBytes += r.result.size()
	r.number = w.lastLocked()
	w.dropDataLocked()
	drop := len(w.ended) - w.Keep
	if drop <= w.Keep/4 {
		return
	}

	for _, old := range w.ended[:drop] {
		w.keptBytes -= old.result.size()
		if old.number > w.reported {
			w.unreportedBytes -= old.result.size()
		}
		if w.runs[old.result.ID] == old { // otherwise it has run again since
			delete(w.runs, old.result.ID)
		}
	}

	w.ended = append([]*run(nil), w.ended[drop:]...)
	w.base += uint64(drop)
	w.withoutData = max(0, w.withoutData-drop)
}

// dropDataLocked drops the data of the oldest results, while more is kept than KeepBytes.
func (w *Worker) dropDataLocked() {
	for w.keptBytes > w.KeepBytes && w.withoutData < len(w.ended) {
		old := w.ended[w.withoutData]
		bare := *old // a copy, because a report may still use the old one
		if bare.result.drop(w.KeepBytes) {
			w.ended[w.withoutData] = &bare
			less := old.result.size() - bare.result.size()
			w.keptBytes -= less
			if bare.number > w.reported {
				w.unreportedBytes -= less
			}

			w.stats.Dropped++
			if w.runs[bare.result.ID] == old {
				w.runs[bare.result.ID] = &bare
			}
		}

		w.withoutData++
	}
}
