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

// ServeHTTP takes tasks, and tells results at the path below called results. Both are POST requests: a question, too, raises the fence.
func (w *Worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if err := w.Open(); err != nil {
		w.refuse(rw, http.StatusInternalServerError, err)
		return
	}
	if r.Method != http.MethodPost {
		rw.Header().Set("Allow", http.MethodPost)
		w.refuse(rw, http.StatusMethodNotAllowed, fmt.Errorf("%s: tasks and questions come by POST", r.Method))
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
		w.tell(rw, r)
	default:
		w.receive(rw, r)
	}
}

// authenticate returns nil if the sender may send: it has signed the request, or the server has verified its certificate.
func (w *Worker) authenticate(r *http.Request) error {
	if w.Token == "" || r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil
	}
	return w.verifier.Verify(r, maxBody)
}

// receive takes a batch: the fence first, then the journal, then the tasks run.
func (w *Worker) receive(rw http.ResponseWriter, r *http.Request) {
	var b batch
	if !w.read(rw, r, b.parse, &b, &b.Election, b.token) {
		return
	}
	switch {
	case len(b.Tasks) == 0:
		w.refuse(rw, http.StatusBadRequest, errors.New("the batch has no tasks"))
		return
	case len(b.Tasks) > maxBatch:
		w.refuse(rw, http.StatusRequestEntityTooLarge, fmt.Errorf("the batch has %d tasks, at most %d are taken", len(b.Tasks), maxBatch))
		return
	}
	newest, err := w.learn(b.token())
	if err != nil {
		w.doubt(rw, b.Leader, b.Epoch, err)
		return
	}
	v := verdict{Session: w.session}
	// A new leader that is told what runs here must be told of these, if it comes after the fence has let them pass.
	w.gate.RLock()
	runs, tried, err := w.admit(&b, newest, &v)
	if err == nil {
		runs = w.enlist(runs, tried, &v)
	}
	w.gate.RUnlock()
	if err != nil {
		w.doubt(rw, b.Leader, b.Epoch, err)
		return
	}
	w.start(runs)
	w.answer(rw, &v)
}

// learn asks the fence about a term that it may not know yet. That can take its time, since a file is synced and the store asked, and so it comes
// before everything that others wait for.
func (w *Worker) learn(token regent.Token) (newest uint64, err error) {
	if w.Fence.Off {
		return 0, nil
	}
	highest, err := w.Fence.Highest()
	binds := token.Epoch == highest.Epoch && highest.Term == "" && token.Term != ""
	if err != nil || token.Epoch <= highest.Epoch && !binds {
		return highest.Epoch, err
	}

	err = w.Fence.Admit(token)
	if stale := (*regent.StaleError)(nil); errors.As(err, &stale) { // since a moment ago
		return stale.Newest, nil
	}
	return token.Epoch, err
}

// admit asks the fence, for each task by itself: that costs next to nothing, and some tasks of a stale batch may have a grace.
func (w *Worker) admit(b *batch, newest uint64, v *verdict) (runs []*run, tried []string, err error) {
	now, dispatched := time.Now(), time.UnixMilli(b.Dispatched)
	var refused *regent.StaleError
	var some []run // allocated together, since they come together, and are forgotten together
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
		r.task = Task{ID: i.ID, Kind: i.Kind, Payload: i.Payload, Timeout: time.Duration(i.TimeoutMs) * time.Millisecond, Idempotent: i.Idempotent,
			Epoch: b.Epoch, Term: b.Term, Dispatched: dispatched, Leader: b.Leader}
		r.due = now.Add(r.task.Timeout)
		if r.task.Timeout == 0 {
			r.due = now.Add(defaultTimeout)
		}
		runs, tried = append(runs, r), append(tried, i.Tried)
	}
	if refused != nil {
		v.Error, v.Epoch, v.Term = refused.Error(), refused.Newest, refused.NewestTerm
		w.Log.Warn("refused tasks of a former leader", "leader", b.Leader, "epoch", b.Epoch, "newest", v.Epoch, "refused", len(v.Refused), "reason", refused)
	}
	if newest > b.Epoch && len(runs) > 0 {
		w.Log.Warn("admitted tasks of a former leader within the grace", "leader", b.Leader, "epoch", b.Epoch, "newest", newest, "admitted", len(runs))
	}
	return runs, tried, nil
}

// doubt answers where the fence's file, or whoever confirms a jump, has failed: nothing is taken.
func (w *Worker) doubt(rw http.ResponseWriter, leader string, epoch uint64, err error) {
	w.Log.Error("fence cannot tell", "leader", leader, "epoch", epoch, "error", err)
	w.refuse(rw, http.StatusServiceUnavailable, err)
}

// gravity orders the reasons for which tasks are refused: the answer's code is that of the gravest.
var gravity = []struct {
	why  string
	code int
	text string
}{
	{whyStale, http.StatusConflict, ""}, // what the fence says
	{whyInvalid, http.StatusBadRequest, "a task needs an id and a kind of at most 256 bytes, and a timeout that makes sense"},
	{whyKind, http.StatusUnprocessableEntity, "no handler for some of the tasks"},
	{whyForgotten, http.StatusGone, "the worker was started anew, and cannot know whether it had some of the tasks"},
	{whyStopping, http.StatusServiceUnavailable, "the worker is stopping"},
	{whyBusy, http.StatusTooManyRequests, "no room for all of the tasks"},
	{whyAgain, http.StatusTooManyRequests, "no room for all of the results in one answer"},
}

// answer is 200 if all tasks were taken.
func (w *Worker) answer(rw http.ResponseWriter, v *verdict) {
	for _, g := range gravity {
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

// read decodes a request's body, and looks at what batches and questions share.
func (w *Worker) read(rw http.ResponseWriter, r *http.Request, parse func([]byte) bool, into any, election *string, token func() regent.Token) bool {
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
		w.refuse(rw, http.StatusBadRequest, fmt.Errorf("election %.100q: this worker works for %q", *election, w.Election))
	case !w.Fence.Off && token().Validate() != nil:
		w.refuse(rw, http.StatusBadRequest, token().Validate())
	default:
		return true
	}
	return false
}

// readAll reads to the end. A size that is known costs one allocation; one that is claimed is not believed beyond a bound.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(size, 0), 64<<10)) + bytes.MinRead)
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

func (w *Worker) refuse(rw http.ResponseWriter, code int, err error) {
	answer(rw, code, &verdict{Session: w.session, Error: err.Error()})
}

func answer(rw http.ResponseWriter, code int, v *verdict) {
	body, err := json.Marshal(v)
	if err != nil { // a result that is no JSON cannot be there
		code, body = http.StatusInternalServerError, nil
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_, _ = rw.Write(body) // the leader has gone, then
}
