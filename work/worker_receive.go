package work

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/gate"
	"github.com/regentd/regent/internal/signed"
)

// ServeHTTP accepts tasks, and reports results at the path below it called results. Both are POST requests, because a
// query for results raises the fence too.
func (w *Worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := w.Open(); err != nil {
		w.refuse(rw, http.StatusInternalServerError, err)
		return
	}

	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		w.refuse(rw, http.StatusMethodNotAllowed,
			fmt.Errorf("%s: tasks and queries for results must be POST requests", r.Method))
		return
	}

	w.verifier.Offer(rw.Header())
	var large *http.MaxBytesError
	switch err := w.authenticate(r); {
	case errors.As(err, &large):
		w.refuse(rw, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody))
		return
	case err != nil:
		rw.Header().Set("WWW-Authenticate", signed.Demand(err))
		w.refuse(rw, http.StatusUnauthorized, err)
		return
	}

	switch {
	case strings.HasSuffix(r.URL.Path, "/results"):
		w.serveResults(rw, r)
	default:
		w.serveTasks(rw, r)
	}
}

// authenticate returns nil if the sender has signed the request, or if TLS has verified its certificate.
func (w *Worker) authenticate(r *http.Request) error {
	if w.Token == "" || r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil
	}
	return w.verifier.Verify(r, maxBody)
}

// serveTasks accepts a batch: first the fence admits it, then the journal records it, then its tasks run.
func (w *Worker) serveTasks(rw http.ResponseWriter, r *http.Request) {
	var b batch
	if !w.read(rw, r, b.parse, &b, &b.Election, b.token) {
		return
	}

	switch {
	case len(b.Tasks) == 0:
		w.refuse(rw, http.StatusBadRequest, errors.New("the batch has no tasks"))
		return
	case len(b.Tasks) > maxBatch:
		w.refuse(rw, http.StatusRequestEntityTooLarge,
			fmt.Errorf("the batch has %d tasks, at most %d are accepted", len(b.Tasks), maxBatch))
		return
	}

	newest, err := w.raiseFence(b.token())
	if err != nil {
		w.fenceFailed(rw, b.Leader, b.Epoch, err)
		return
	}

	v := receipt{Session: w.session}
	// A new leader asks which tasks run here. Once the fence has admitted these, the answer must contain them.
	w.admission.RLock()
	runs, tried, err := w.admit(&b, newest, &v)
	if err == nil {
		runs = w.accept(runs, tried, &v)
	}
	w.admission.RUnlock()

	if err != nil {
		w.fenceFailed(rw, b.Leader, b.Epoch, err)
		return
	}

	w.start(runs)
	w.answer(rw, &v)
}

// raiseFence raises the fence to a token that it may not know yet. That can be slow, because a file is synced and the
// store is read, so it runs before any lock is taken.
func (w *Worker) raiseFence(token regent.Token) (newest uint64, err error) {
	if w.Fence.Off {
		return 0, nil
	}

	highest, err := w.Fence.Highest()
	binds := token.Epoch == highest.Epoch && highest.Term == "" && token.Term != ""
	if err != nil || token.Epoch <= highest.Epoch && !binds {
		return highest.Epoch, err
	}

	err = w.Fence.Admit(token)
	// It was overtaken a moment ago.
	if stale := (*regent.StaleError)(nil); errors.As(err, &stale) {
		return stale.Newest, nil
	}

	return token.Epoch, err
}

// admit asks the fence about each task. That is cheap, and some tasks of a stale batch may be within the grace.
func (w *Worker) admit(b *batch, newest uint64, v *receipt) (runs []*run, tried []string, err error) {
	now, dispatched := time.Now(), time.UnixMilli(b.Dispatched)
	var refused *regent.StaleError
	stale := 0
	var some []run // allocated together, because they are forgotten together
	runs, tried = make([]*run, 0, len(b.Tasks)), make([]string, 0, len(b.Tasks))
	for n := range b.Tasks {
		i := &b.Tasks[n]
		if !i.valid() {
			v.Refused = append(v.Refused, refusal{i.ID, whyInvalid})
			continue
		}

		err := w.Fence.AdmitLate(b.token(), dispatched, i.Idempotent)
		if errors.As(err, &refused) {
			v.Refused = append(v.Refused, refusal{i.ID, whyStale})
			stale++
			continue
		}
		if err != nil {
			return nil, nil, err
		}

		if len(some) == 0 {
			some = make([]run, min(32, len(b.Tasks)-n))
		}

		r := &some[0]
		some = some[1:]
		r.sent = b.Epoch
		r.task = Task{ID: i.ID, Kind: i.Kind, Payload: i.Payload,
			Timeout: time.Duration(i.TimeoutMs) * time.Millisecond, Idempotent: i.Idempotent,
			Epoch: b.Epoch, Term: b.Term, Dispatched: dispatched, Leader: b.Leader}

		r.due = now.Add(r.task.Timeout)
		if r.task.Timeout == 0 {
			r.due = now.Add(defaultTimeout)
		}

		runs, tried = append(runs, r), append(tried, i.Tried)
	}

	if refused != nil {
		v.Error = refused.Error()
		v.Epoch = refused.Newest
		v.Term = refused.NewestTerm
		w.noteRefusal(b.Leader, refused, stale)
		w.Log.Warn("refused tasks of a former leader", "leader", b.Leader, "epoch", b.Epoch, "newest", v.Epoch,
			"refused", len(v.Refused), "reason", refused)
	}

	if newest > b.Epoch && len(runs) > 0 {
		w.Log.Warn("admitted tasks of a former leader within the grace", "leader", b.Leader, "epoch", b.Epoch,
			"newest", newest, "admitted", len(runs))
	}
	return runs, tried, nil
}

// accept records the tasks of a batch that the worker takes. The receipt gets the tasks that are refused, and the
// results of tasks that were delivered before. The caller must start the tasks that accept returns.
func (w *Worker) accept(rs []*run, tried []string, v *receipt) []*run {
	taken := rs[:0]
	size := 0

	w.mu.Lock()
	defer w.mu.Unlock()

	for i, r := range rs {
		why := ""
		switch old := w.runs[r.task.ID]; {
		case old != nil:
			w.stats.Duplicates++
			old.sent = max(old.sent, r.sent)
			switch {
			case !old.ended: // its result will be in a report
			case size > reportBytes:
				why = whyAgain
			default:
				o := old.result
				o.Number = old.number
				v.Results = append(v.Results, o)
				size += resultBytes + len(old.result.Data)
			}
		case w.stopping:
			why = whyStopping
		case tried[i] != "" && tried[i] != w.session && w.journal == nil:
			why = whyForgotten
		case w.handlers[r.task.Kind] == nil:
			why = whyKind
			w.stats.Unknown++
		case w.open >= w.Concurrency+w.Queue, w.open > 0 && w.payloadBytes+len(r.task.Payload) > w.KeepBytes,
			w.unreportedBytes > w.KeepBytes/2, time.Now().Before(w.unwritable):
			why = whyBusy
			w.stats.Busy++
		default:
			w.runs[r.task.ID] = r
			w.open++
			w.payloadBytes += len(r.task.Payload)
			taken = append(taken, r)
		}

		if why != "" {
			v.Refused = append(v.Refused, refusal{r.task.ID, why})
		}
	}

	w.stats.Taken += uint64(len(taken))
	if len(taken) > 0 {
		w.runners.Add(1) // before Close can wait
	}

	return taken
}

// fenceFailed answers a request if the fence's file, or the check against the store, has failed. Nothing was accepted.
func (w *Worker) fenceFailed(rw http.ResponseWriter, leader string, epoch uint64, err error) {
	w.Log.Error("fence check failed: nothing was accepted", "leader", leader, "epoch", epoch, "error", err)
	w.refuse(rw, http.StatusServiceUnavailable, err)
}

// refusalOrder orders the reasons for which tasks are refused. The status code is that of the first one found.
var refusalOrder = []struct {
	why  string
	code int
	text string
}{
	{whyStale, http.StatusConflict, ""}, // the text is the fence's error
	{whyInvalid, http.StatusBadRequest, "a task needs an id and a kind of 1 to 256 bytes, and a timeout of 0 or more"},
	{whyKind, http.StatusUnprocessableEntity, "no handler for some of the tasks"},
	{whyForgotten, http.StatusGone, "the worker has restarted without a journal and cannot know whether it had some " +
		"of the tasks"},
	{whyStopping, http.StatusServiceUnavailable, "the worker is stopping"},
	{whyBusy, http.StatusTooManyRequests, "no room for all of the tasks"},
	{whyAgain, http.StatusTooManyRequests, "no room for all of the results in one answer"},
}

// answer sends the receipt. Its status is 200 if all tasks were accepted.
func (w *Worker) answer(rw http.ResponseWriter, v *receipt) {
	for _, g := range refusalOrder {
		if !slices.ContainsFunc(v.Refused, func(r refusal) bool { return r.Why == g.why }) {
			continue
		}

		switch g.why {
		case whyStale:
			gate.SetToken(rw.Header(), regent.Token{Epoch: v.Epoch, Term: v.Term})
		case whyBusy:
			rw.Header().Set("Retry-After", "1")
		}

		v.Error = cmp.Or(g.text, v.Error)
		answer(rw, g.code, v)
		return
	}

	answer(rw, http.StatusOK, v)
}

// read decodes a request's body, and checks the fields that batches and queries share.
func (w *Worker) read(
	rw http.ResponseWriter, r *http.Request,
	parse func([]byte) bool, into any, election *string, token func() regent.Token,
) bool {
	body, err := readAll(http.MaxBytesReader(rw, r.Body, maxBody), r.ContentLength)
	if err == nil && !parse(body) {
		err = json.Unmarshal(body, into)
	}

	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		w.refuse(rw, http.StatusRequestEntityTooLarge, fmt.Errorf("the body has more than %d bytes", maxBody))
	case err != nil:
		w.refuse(rw, http.StatusBadRequest, fmt.Errorf("the body cannot be read: %w", err))
	case *election != w.Election:
		w.refuse(rw, http.StatusBadRequest,
			fmt.Errorf("election %.100q: this worker serves election %q", *election, w.Election))
	case !w.Fence.Off && token().Validate() != nil:
		w.refuse(rw, http.StatusBadRequest, token().Validate())
	default:
		return true
	}

	return false
}

// readAll reads to the end. It allocates once if the size is known, but never more than a bound that the sender cannot
// raise.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(size, 0), 64<<10)) + bytes.MinRead)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

func (w *Worker) refuse(rw http.ResponseWriter, code int, err error) {
	answer(rw, code, &receipt{Session: w.session, Error: err.Error()})
}

func answer(rw http.ResponseWriter, code int, v *receipt) {
	v.Code = v.code(code)
	body, err := json.Marshal(v)
	if err != nil { // cannot happen: every result was checked
		code, body = http.StatusInternalServerError, nil
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_, _ = rw.Write(body) // an error means that the leader has disconnected
}
