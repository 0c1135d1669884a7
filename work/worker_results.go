package work

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/gate"
	"github.com/regentd/regent/internal/jsonscan"
)

const (
	maxWait     = 30 * time.Second
	reportPage  = 1000    // most results in one answer
	reportBytes = 4 << 20 // size from which no more results are added to an answer
	resultBytes = 256     // estimate of a result without its data
)

// page is the content of a report.
type page struct {
	results []*run
	next    uint64
	more    bool
	initial bool     // the leader has received nothing yet, or has missed results
	running []string // set if initial
	changed <-chan struct{}
}

// serveResults answers a query for results, as soon as there are any that the leader does not have.
func (w *Worker) serveResults(rw http.ResponseWriter, r *http.Request) {
	var q query
	if !w.read(rw, r, func([]byte) bool { return false }, &q, &q.Election, q.token) {
		return
	}

	err := w.Fence.Admit(q.token())
	if stale := (*regent.StaleError)(nil); errors.As(err, &stale) {
		w.noteRefusal(q.Leader, stale, 0)
		gate.SetToken(rw.Header(), regent.Token{Epoch: stale.Newest, Term: stale.NewestTerm})
		answer(rw, http.StatusConflict, &receipt{Session: w.session, Error: err.Error(), Epoch: stale.Newest,
			Term: stale.NewestTerm})
		return
	}

	if err != nil {
		w.fenceFailed(rw, q.Leader, q.Epoch, err)
		return
	}

	wait := min(max(0, time.Duration(q.WaitMs)), maxWait/time.Millisecond) * time.Millisecond
	// The server's own write timeout is for requests that do not wait.
	_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(wait + 30*time.Second))
	limit := time.NewTimer(wait)
	defer limit.Stop()

	for {
		p := w.page(&q)
		if p.initial || len(p.results) > 0 || wait == 0 {
			body := p.append(nil, w.session)
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
			if _, err := rw.Write(body); err == nil && http.NewResponseController(rw).Flush() == nil {
				w.markReported(p.next)
			}
			return
		}

		select {
		case <-p.changed:
		case <-limit.C:
			wait = 0
		case <-w.ctx.Done():
			wait = 0
		case <-r.Context().Done():
			return
		}
	}
}

// page returns what the leader does not have yet. If that is nothing, changed is closed when there is something.
func (w *Worker) page(q *query) (p page) {
	if q.Session != w.session {
		// The fence has been raised. Tasks that it had admitted before are in runs after this, so that the page
		// contains them.
		w.admission.Lock()
		defer w.admission.Unlock()
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	p.changed = w.changedLocked()
	from := 0
	switch {
	case q.Session != w.session:
		p.initial = true
		from = w.firstWantedLocked(q)
	case q.After+1 < w.base:
		p.initial = true
	default:
		from = int(min(q.After+1-w.base, uint64(len(w.ended))))
	}

	to, size := from, 0
	for ; to < len(w.ended) && to-from < reportPage && size < reportBytes; to++ {
		size += resultBytes + len(w.ended[to].result.Data)
	}

	p.results = slices.Clone(w.ended[from:to])
	p.next = w.base + uint64(to) - 1
	p.more = to < len(w.ended)
	if p.initial {
		for id, r := range w.runs {
			if !r.ended {
				p.running = append(p.running, id)
			}
		}
	}

	return p
}

// firstWantedLocked returns the index of the first result for a leader that starts: results older than its recall time
// are left out, unless it sent the task itself.
func (w *Worker) firstWantedLocked(q *query) int {
	recall := time.Duration(min(max(0, q.RecallMs), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	horizon := time.Now().Add(-recall)
	for i, r := range w.ended {
		if max(r.sent, r.result.Epoch) == q.Epoch || !r.endedAt.Before(horizon) {
			return i
		}
	}
	return len(w.ended)
}

// append appends the page as a report in JSON.
func (p *page) append(b []byte, session string) []byte {
	if b == nil {
		b = make([]byte, 0, 256+resultBytes*len(p.results))
	}

	b = append(b, `{"session":`...)
	b = jsonscan.AppendString(b, session)
	b = append(b, `,"next":`...)
	b = strconv.AppendUint(b, p.next, 10)
	if p.more {
		b = append(b, `,"more":true`...)
	}

	if p.initial {
		b = append(b, `,"running":[`...)
		for i, id := range p.running {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonscan.AppendString(b, id)
		}
		b = append(b, ']')
	}

	b = append(b, `,"results":[`...)
	for i, r := range p.results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, &r.result)
	}

	return append(b, "]}"...)
}

// markReported records that a leader has received all results up to a number.
func (w *Worker) markReported(last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if last > w.reported {
		for n := max(w.reported+1, w.base); n <= last && n <= w.lastLocked(); n++ {
			w.unreportedBytes -= w.ended[n-w.base].result.size()
		}
		w.reported = last
		if w.stopping { // Drain waits for it
			w.notifyLocked()
		}
	}
}
