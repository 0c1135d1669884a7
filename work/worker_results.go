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
)

const (
	longestWait = 30 * time.Second
	reportPage  = 1000    // results in one answer
	reportBytes = 4 << 20 // from which an answer is not filled any further
	resultBytes = 256     // of a result besides its data, at a guess
)

// page is what a question is answered with.
type page struct {
	results []*run
	next    uint64
	more    bool
	fresh   bool     // the asker was told nothing yet, or has missed some of it
	running []string // if fresh
	news    <-chan struct{}
}

// tell answers a question for results, as soon as there are any that its asker does not know.
func (w *Worker) tell(rw http.ResponseWriter, r *http.Request) {
	var q question
	if !w.read(rw, r, func([]byte) bool { return false }, &q, &q.Election, q.token) {
		return
	}
	err := w.Fence.Admit(q.token())
	if stale := (*regent.StaleError)(nil); errors.As(err, &stale) {
		gate.SetToken(rw.Header(), regent.Token{Epoch: stale.Newest, Term: stale.NewestTerm})
		answer(rw, http.StatusConflict, &verdict{Session: w.session, Error: err.Error(), Epoch: stale.Newest, Term: stale.NewestTerm})
		return
	}
	if err != nil {
		w.doubt(rw, q.Leader, q.Epoch, err)
		return
	}
	wait := min(max(0, time.Duration(q.WaitMs)), longestWait/time.Millisecond) * time.Millisecond
	// The server's own limit is for requests that wait for nobody.
	_ = http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(wait + 30*time.Second))
	limit := time.NewTimer(wait)
	defer limit.Stop()
	for {
		p := w.page(&q)
		if p.fresh || len(p.results) > 0 || wait == 0 {
			body := p.append(nil, w.session)
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
			if _, err := rw.Write(body); err == nil && http.NewResponseController(rw).Flush() == nil {
				w.heard(p.next)
			}
			return
		}
		select {
		case <-p.news:
		case <-limit.C:
			wait = 0
		case <-w.life.Done():
			wait = 0
		case <-r.Context().Done():
			return
		}
	}
}

// page finds what the asker does not know yet. If that is nothing, news is closed when there is something.
func (w *Worker) page(q *question) (p page) {
	if q.Session != w.session {
		// The fence has been raised. What it had let pass before is known after this, so that the asker hears of it.
		w.gate.Lock()
		defer w.gate.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.news = w.awaitNews()
	from := 0
	switch {
	case q.Session != w.session:
		p.fresh = true
		from = w.since(q)
	case q.After+1 < w.base:
		p.fresh = true
	default:
		from = int(min(q.After+1-w.base, uint64(len(w.ended))))
	}
	to, size := from, 0
	for ; to < len(w.ended) && to-from < reportPage && size < reportBytes; to++ {
		size += resultBytes + len(w.ended[to].result.Data)
	}
	p.results, p.next, p.more = slices.Clone(w.ended[from:to]), w.base+uint64(to)-1, to < len(w.ended)
	if p.fresh {
		for id, r := range w.runs {
			if !r.ended {
				p.running = append(p.running, id)
			}
		}
	}
	return p
}

// since is the first result that a leader who begins may want to know: those that ended long ago are of no interest, unless it has asked for
// them itself. The mutex is held.
func (w *Worker) since(q *question) int {
	recall := time.Duration(min(max(0, q.RecallMs), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
	horizon := time.Now().Add(-recall)
	for i, r := range w.ended {
		if max(r.sent, r.result.Epoch) == q.Epoch || !r.endedAt.Before(horizon) {
			return i
		}
	}
	return len(w.ended)
}

// append writes the page as a report.
func (p *page) append(b []byte, session string) []byte {
	if b == nil {
		b = make([]byte, 0, 256+resultBytes*len(p.results))
	}
	b = append(b, `{"session":`...)
	b = appendString(b, session)
	b = append(b, `,"next":`...)
	b = strconv.AppendUint(b, p.next, 10)
	if p.more {
		b = append(b, `,"more":true`...)
	}
	if p.fresh {
		b = append(b, `,"running":[`...)
		for i, id := range p.running {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, id)
		}
		b = append(b, ']')
	}
	b = append(b, `,"results":[`...)
	for i, r := range p.results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendOutcome(b, &r.result)
	}
	return append(b, "]}"...)
}

// heard notes that a leader was told of all results up to a number.
func (w *Worker) heard(last uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last > w.told {
		for n := max(w.told+1, w.base); n <= last && n <= w.last(); n++ {
			w.unheard -= w.ended[n-w.base].result.size()
		}
		w.told = last
		if w.stopping { // somebody waits for it
			w.tellNews()
		}
	}
}
