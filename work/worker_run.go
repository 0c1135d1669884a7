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

// run is a task that the worker has.
type run struct {
	task    Task
	due     time.Time // when its time is over
	sent    uint64    // the latest epoch that has sent it
	ended   bool
	result  outcome
	endedAt time.Time
	number  uint64 // among those that have ended
}

// enlist makes the tasks of a batch known, as far as they are taken, and says in the verdict which are not, and what became of those that were
// taken before. What it returns must be started.
func (w *Worker) enlist(rs []*run, tried []string, v *verdict) []*run {
	taken := rs[:0]
	told := 0
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range rs {
		why := ""
		switch old := w.runs[r.task.ID]; {
		case old != nil:
			w.stats.Duplicates++
			old.sent = max(old.sent, r.sent)
			switch {
			case !old.ended: // whoever asks will be told
			case told > reportBytes:
				why = whyAgain
			default:
				o := old.result
				o.Number = old.number
				v.Results = append(v.Results, o)
				told += resultBytes + len(old.result.Data)
			}
		case w.stopping:
			why = whyStopping
		case tried[i] != "" && tried[i] != w.session && w.journal == nil:
			why = whyForgotten
		case w.handlers[r.task.Kind] == nil:
			why = whyKind
			w.stats.Unknown++
		case w.open >= w.Concurrency+w.Queue, w.open > 0 && w.payload+len(r.task.Payload) > w.KeepBytes, w.unheard > w.KeepBytes/2:
			why = whyBusy
			w.stats.Busy++
		default:
			w.runs[r.task.ID] = r
			w.open++
			w.payload += len(r.task.Payload)
			taken = append(taken, r)
		}
		if why != "" {
			v.Refused = append(v.Refused, refusal{r.task.ID, why})
		}
	}
	w.stats.Taken += uint64(len(taken))
	if len(taken) > 0 {
		w.runners.Add(1) // before anybody who closes can wait
	}
	return taken
}

// start runs what was enlisted, once the journal has it.
func (w *Worker) start(taken []*run) {
	if len(taken) == 0 {
		return
	}
	defer w.runners.Done()
	if err := w.journal.begin(taken); err != nil {
		// They count as taken, since a second delivery may have been told so already.
		w.Log.Error("journal cannot be written", "journal", w.Journal, "error", err)
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
		w.runners.Go(w.work)
	}
}

// work runs one task after another until none waits: no goroutine is kept for a worker that has nothing to do.
func (w *Worker) work() {
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
		w.do(r)
	}
}

// do runs a task to its end.
func (w *Worker) do(r *run) {
	began := time.Now()
	if w.life.Err() != nil {
		w.finish(r, Interrupted, nil, ErrStopping)
		return
	}
	if !began.Before(r.due) {
		w.finish(r, Expired, nil, errors.New("its time was over before it could begin"))
		return
	}
	ctx, cancel := context.WithDeadline(w.life, r.due)
	defer cancel()
	returned := false
	defer func() {
		if !returned { // runtime.Goexit: this goroutine is lost, and another one goes on
			w.finish(r, Failed, nil, errors.New("its handler ended its goroutine"))
			w.runners.Go(w.work)
		}
	}()
	data, err := protect(w.handlers[r.task.Kind], ctx, r.task)
	returned = true
	r.result.BeganMs, r.result.TookUs = began.UnixMilli(), time.Since(began).Microseconds()
	switch {
	case err == nil:
		w.finish(r, Done, data, nil)
	case w.life.Err() != nil:
		w.finish(r, Interrupted, nil, err)
	case ctx.Err() != nil:
		w.finish(r, Expired, nil, err)
	default:
		w.finish(r, Failed, nil, err)
	}
}

// protect turns a panic of a handler into an error.
func protect(h Handler, ctx context.Context, t Task) (data json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	data, err = h(ctx, t)
	switch {
	case err != nil || len(data) == 0:
	case len(data) > maxData:
		err = fmt.Errorf("the result has %d bytes, at most %d are kept", len(data), maxData)
	case !jsonscan.Compact(data): // a line of the journal is one result
		var b bytes.Buffer
		if json.Compact(&b, data) != nil {
			err = errors.New("the result is not valid JSON")
		}
		data = b.Bytes()
	}
	return data, err
}

// finish notes how a task ended: in the journal first, and then for leaders to be told. Whoever comes while another one writes leaves it to that one,
// so that many results cost one write.
func (w *Worker) finish(r *run, how Outcome, data json.RawMessage, err error) {
	r.result.ID, r.result.Kind, r.result.Epoch, r.result.Outcome, r.result.Data = r.task.ID, r.task.Kind, r.task.Epoch, how, data
	if err != nil {
		text := err.Error()
		r.result.Error = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.journal == nil {
		w.close(r)
		w.tellNews()
		return
	}
	w.ending = append(w.ending, r)
	if w.flushing {
		return
	}
	w.flushing = true
	for len(w.ending) > 0 {
		rs := w.ending
		w.ending = nil
		w.mu.Unlock()
		err := w.journal.end(rs)
		w.mu.Lock()
		if err != nil {
			w.Log.Error("journal cannot be written", "journal", w.Journal, "error", err)
		}
		for _, r := range rs {
			w.close(r)
		}
		w.tellNews()
	}
	w.flushing = false
}

// close makes an ended task one that leaders are told of. The mutex is held.
func (w *Worker) close(r *run) {
	w.payload -= len(r.task.Payload)
	r.ended, r.endedAt, r.task.Payload = true, time.Now(), nil
	w.open--
	w.stats.Outcomes[r.result.Outcome]++
	w.unheard += r.result.size()
	w.remember(r)
}

// tellNews wakes whoever waits for a result. The mutex is held.
func (w *Worker) tellNews() {
	if w.news != nil {
		close(w.news)
		w.news = nil
	}
}

// awaitNews returns a channel that is closed with the next news. The mutex is held.
func (w *Worker) awaitNews() <-chan struct{} {
	if w.news == nil {
		w.news = make(chan struct{})
	}
	return w.news
}

// remember gives an ended task its number. The mutex is held, or nobody else knows the worker yet.
func (w *Worker) remember(r *run) {
	w.runs[r.result.ID] = r
	w.ended = append(w.ended, r)
	w.kept += r.result.size()
	r.number = w.last()
	w.strip()
	drop := len(w.ended) - w.Keep
	if drop <= w.Keep/4 {
		return
	}
	for _, old := range w.ended[:drop] {
		w.kept -= old.result.size()
		if old.number > w.told {
			w.unheard -= old.result.size()
		}
		if w.runs[old.result.ID] == old { // else it has run again since
			delete(w.runs, old.result.ID)
		}
	}
	w.ended = append([]*run(nil), w.ended[drop:]...)
	w.base += uint64(drop)
	w.stripped = max(0, w.stripped-drop)
}

// strip drops the data of the oldest results, while there is more than may be kept. The mutex is held, or nobody else
// knows the worker yet.
func (w *Worker) strip() {
	for w.kept > w.KeepBytes && w.stripped < len(w.ended) {
		old := w.ended[w.stripped]
		bare := *old // the old one may be with somebody who tells of it
		if bare.result.drop(w.KeepBytes) {
			w.ended[w.stripped] = &bare
			less := old.result.size() - bare.result.size()
			w.kept -= less
			if bare.number > w.told {
				w.unheard -= less
			}
			w.stats.Dropped++
			if w.runs[bare.result.ID] == old {
				w.runs[bare.result.ID] = &bare
			}
		}
		w.stripped++
	}
}
