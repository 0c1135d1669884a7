package work

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/jsonscan"
)

// batch is the body of a request that carries tasks.
type batch struct {
	Election   string     `json:"election"`
	Leader     string     `json:"leader"`
	Epoch      uint64     `json:"epoch"`
	Term       string     `json:"term,omitempty"` // the incarnation of the term; older versions do not send it
	Dispatched int64      `json:"dispatchedMs"`   // Unix time
	Tasks      []wireTask `json:"tasks"`
}

func (b *batch) token() regent.Token { return regent.NewToken(b.Epoch, b.Term) }

// wireTask is a task in a batch.
type wireTask struct {
	ID         string `json:"id"`
	Kind       string `json:"kind"`
	TimeoutMs  int64  `json:"timeoutMs,omitempty"`
	Idempotent bool   `json:"idempotent,omitempty"`
	// The worker's session in which it may have been accepted already.
	Tried   string          `json:"tried,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func (i *wireTask) valid() bool {
	return i.ID != "" && len(i.ID) <= maxID && i.Kind != "" && len(i.Kind) <= maxID && i.TimeoutMs >= 0 &&
		i.TimeoutMs <= math.MaxInt64/int64(time.Millisecond)
}

// receipt answers a batch: all tasks are accepted except those in Refused.
type receipt struct {
	Session string                  `json:"session,omitempty"` // of the worker; an answer without one is not a worker's
	Code    string                  `json:"code,omitempty"`    // the kind of the error
	Error   string                  `json:"error,omitempty"`
	Epoch   uint64                  `json:"epoch,omitempty"` // the newer epoch, if the batch was refused for it
	Term    string                  `json:"term,omitempty"`  // the term of that epoch, if the worker knows it
	Refused boundedList[refusal]    `json:"refused,omitempty"`
	Results boundedList[wireResult] `json:"results,omitempty"` // of tasks that had been accepted before, and have ended
}

type refusal struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// The reasons for which a task is refused.
const (
	whyStale     = "stale"
	whyBusy      = "busy"
	whyKind      = "unknown kind"
	whyStopping  = "stopping"
	whyInvalid   = "invalid"
	whyForgotten = "forgotten" // sent before, in a session that the worker has no record of
	whyAgain     = "again"     // it has ended, but its result did not fit into the answer
)

// query asks for results.
type query struct {
	Election string `json:"election"`
	Leader   string `json:"leader"`
	Epoch    uint64 `json:"epoch"`
	Term     string `json:"term,omitempty"`
	Session  string `json:"session,omitempty"`  // the session that After counts in
	After    uint64 `json:"after,omitempty"`    // all results up to this number were received
	RecallMs int64  `json:"recallMs,omitempty"` // at the start of a session: how old results may be
	WaitMs   int64  `json:"waitMs,omitempty"`   // how long the worker may wait for a result
}

func (q *query) token() regent.Token { return regent.NewToken(q.Epoch, q.Term) }

// report answers a query.
type report struct {
	Session string `json:"session"`
	Next    uint64 `json:"next"`           // the After of the next query
	More    bool   `json:"more,omitempty"` // there are more results now
	// Running are the tasks that have not ended. It is sent only if the leader has just started, or has missed results.
	Running taskIDs                 `json:"running,omitempty"`
	Results boundedList[wireResult] `json:"results,omitempty"`
	Error   string                  `json:"error,omitempty"` // why the query was not answered
	Epoch   uint64                  `json:"epoch,omitempty"` // the newer epoch, if the query was refused for it
	Term    string                  `json:"term,omitempty"`  // the term of that epoch, if the worker knows it
}

// wireResult is a result in a report and in the journal.
type wireResult struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind,omitempty"`
	Epoch   uint64          `json:"epoch,omitempty"`
	Outcome Outcome         `json:"outcome"`
	Error   string          `json:"error,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	BeganMs int64           `json:"beganMs,omitempty"`
	TookUs  int64           `json:"tookUs,omitempty"`
	Number  uint64          `json:"number,omitempty"` // its place among the worker's results; in a receipt only
}

// size returns the bytes of a result that vary.
func (o *wireResult) size() int { return len(o.Data) + len(o.Error) }

// drop removes the data of a result, and sets an Error that says so. It reports whether that saved anything.
func (o *wireResult) drop(limit int) bool {
	text := fmt.Sprintf("the result's data was dropped: the worker keeps %d bytes of results", limit)
	if o.size() <= len(text) {
		return false
	}
	o.Error = text
	o.Data = nil
	return true
}

func (o *wireResult) result() Result {
	r := Result{ID: o.ID, Kind: o.Kind, Epoch: o.Epoch, Outcome: o.Outcome, Error: o.Error, Data: o.Data,
		Took: time.Duration(o.TookUs) * time.Microsecond}
	if o.BeganMs != 0 {
		r.Began = time.UnixMilli(o.BeganMs)
	}
	return r
}

// appendBatch appends the beginning of a batch, and appendTask each of its tasks. Written by hand, because a leader may
// send thousands of tasks a second.
func appendBatch(b []byte, election, leader string, token regent.Token, now time.Time) []byte {
	b = append(b, `{"election":`...)
	b = jsonscan.AppendString(b, election)
	b = append(b, `,"leader":`...)
	b = jsonscan.AppendString(b, leader)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, token.Epoch, 10)

	if token.Term != "" {
		b = append(b, `,"term":`...)
		b = jsonscan.AppendString(b, token.Term)
	}

	b = append(b, `,"dispatchedMs":`...)
	b = strconv.AppendInt(b, now.UnixMilli(), 10)
	return append(b, `,"tasks":[`...)
}

// endBatch closes what appendBatch opened.
const endBatch = `]}`

func appendTask(b []byte, t *Task, tried string) []byte {
	if b[len(b)-1] == '}' {
		b = append(b, ',')
	}

	b = append(b, `{"id":`...)
	b = jsonscan.AppendString(b, t.ID)
	b = append(b, `,"kind":`...)
	b = jsonscan.AppendString(b, t.Kind)
	if t.Timeout > 0 {
		b = append(b, `,"timeoutMs":`...)
		b = strconv.AppendInt(b, max(1, t.Timeout.Milliseconds()), 10)
	}

	if t.Idempotent {
		b = append(b, `,"idempotent":true`...)
	}

	if tried != "" {
		b = append(b, `,"tried":`...)
		b = jsonscan.AppendString(b, tried)
	}

	if len(t.Payload) > 0 {
		b = append(b, `,"payload":`...)
		b = append(b, t.Payload...)
	}

	return append(b, '}')
}

// appendResult appends a result, without a line break.
func appendResult(b []byte, o *wireResult) []byte {
	b = append(b, `{"id":`...)
	b = jsonscan.AppendString(b, o.ID)
	b = append(b, `,"kind":`...)
	b = jsonscan.AppendString(b, o.Kind)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, o.Epoch, 10)
	b = append(b, `,"outcome":`...)
	b = jsonscan.AppendString(b, string(o.Outcome))

	if o.Error != "" {
		b = append(b, `,"error":`...)
		b = jsonscan.AppendString(b, o.Error)
	}

	if len(o.Data) > 0 {
		b = append(b, `,"data":`...)
		b = append(b, o.Data...)
	}

	b = append(b, `,"beganMs":`...)
	b = strconv.AppendInt(b, o.BeganMs, 10)
	b = append(b, `,"tookUs":`...)
	b = strconv.AppendInt(b, o.TookUs, 10)

	return append(b, '}')
}

// validate returns what is wrong with a task.
func (t *Task) validate() error {
	switch {
	case t.ID == "" || len(t.ID) > maxID || !utf8.ValidString(t.ID):
		return fmt.Errorf("task id %.40q: must be 1 to %d bytes of UTF-8", t.ID, maxID)
	case t.Kind == "" || len(t.Kind) > maxID || !utf8.ValidString(t.Kind):
		return fmt.Errorf("task %s: kind %.40q must be 1 to %d bytes of UTF-8", t.ID, t.Kind, maxID)
	case t.Timeout < 0:
		return fmt.Errorf("task %s: timeout %v must not be negative", t.ID, t.Timeout)
	case len(t.Payload) > maxData:
		return fmt.Errorf("task %s: payload has %d bytes, it must have at most %d", t.ID, len(t.Payload), maxData)
	case len(t.Payload) > 0 && !jsonscan.Valid(t.Payload):
		return fmt.Errorf("task %s: payload is not valid JSON", t.ID)
	}

	return nil
}
