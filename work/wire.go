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

// batch is the body of a request that brings tasks.
type batch struct {
	Election   string `json:"election"`
	Leader     string `json:"leader"`
	Epoch      uint64 `json:"epoch"`
	Term       string `json:"term,omitempty"` // the incarnation of the term; a leader of the version before names none
	Dispatched int64  `json:"dispatchedMs"`   // Unix time
	Tasks      []item `json:"tasks"`
}

func (b *batch) token() regent.Token { return regent.NewToken(b.Epoch, b.Term) }

// item is a task on the wire.
type item struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind"`
	TimeoutMs  int64           `json:"timeoutMs,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`
	Tried      string          `json:"tried,omitempty"` // the worker's session in which it may have been taken already
	Payload    json.RawMessage `json:"payload,omitempty"`
}

func (i *item) valid() bool {
	return i.ID != "" && len(i.ID) <= maxID && i.Kind != "" && len(i.Kind) <= maxID && i.TimeoutMs >= 0 && i.TimeoutMs <= math.MaxInt64/int64(time.Millisecond)
}

// verdict answers a batch: all tasks are taken but those it names.
type verdict struct {
	Session string        `json:"session,omitempty"` // of the worker; nobody else's answer has one
	Error   string        `json:"error,omitempty"`
	Epoch   uint64        `json:"epoch,omitempty"` // the one that beats the batch's
	Term    string        `json:"term,omitempty"`  // the term that has it, if the worker knows
	Refused list[refusal] `json:"refused,omitempty"`
	Results list[outcome] `json:"results,omitempty"` // of tasks that had been taken before, and have ended
}

type refusal struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// Why a task is not taken.
const (
	whyStale     = "stale"
	whyBusy      = "busy"
	whyKind      = "unknown kind"
	whyStopping  = "stopping"
	whyInvalid   = "invalid"
	whyForgotten = "forgotten" // tried before, in a session of which nothing is known any more
	whyAgain     = "again"     // it has ended, but there was no room for its result in the answer
)

// question asks for results.
type question struct {
	Election string `json:"election"`
	Leader   string `json:"leader"`
	Epoch    uint64 `json:"epoch"`
	Term     string `json:"term,omitempty"`
	Session  string `json:"session,omitempty"`  // that After counts in
	After    uint64 `json:"after,omitempty"`    // all up to it were received
	RecallMs int64  `json:"recallMs,omitempty"` // at the beginning of a session: how old results may be
	WaitMs   int64  `json:"waitMs,omitempty"`   // how long the asker waits for one
}

func (q *question) token() regent.Token { return regent.NewToken(q.Epoch, q.Term) }

// report answers a question.
type report struct {
	Session string        `json:"session"`
	Next    uint64        `json:"next"`              // what to ask for after
	More    bool          `json:"more,omitempty"`    // there are more already
	Running names         `json:"running,omitempty"` // what was taken and has not ended; told only to one who begins, or who has missed results
	Results list[outcome] `json:"results,omitempty"`
	Error   string        `json:"error,omitempty"` // where it could not be answered
	Epoch   uint64        `json:"epoch,omitempty"` // that beats the asker's
	Term    string        `json:"term,omitempty"`  // the term that has it, if the worker knows
}

// outcome is a result on the wire and in the journal.
type outcome struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind,omitempty"`
	Epoch   uint64          `json:"epoch,omitempty"`
	Outcome Outcome         `json:"outcome"`
	Error   string          `json:"error,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	BeganMs int64           `json:"beganMs,omitempty"`
	TookUs  int64           `json:"tookUs,omitempty"`
	Number  uint64          `json:"number,omitempty"` // in a verdict only: where it stands among the worker's results
}

// size is what a result takes, beside what every result takes.
func (o *outcome) size() int { return len(o.Data) + len(o.Error) }

// drop forgets what a handler returned, and says so. It reports whether there was anything worth it.
func (o *outcome) drop(limit int) bool {
	text := fmt.Sprintf("what it returned was dropped: the worker keeps %d bytes of results", limit)
	if o.size() <= len(text) {
		return false
	}
	o.Error = text
	o.Data = nil
	return true
}

func (o *outcome) result() Result {
	r := Result{ID: o.ID, Kind: o.Kind, Epoch: o.Epoch, Outcome: o.Outcome, Error: o.Error, Data: o.Data, Took: time.Duration(o.TookUs) * time.Microsecond}
	if o.BeganMs != 0 {
		r.Began = time.UnixMilli(o.BeganMs)
	}
	return r
}

// appendBatch writes the beginning of a batch, and appendItem each of its tasks. By hand, since a leader may send thousands of them a second.
func appendBatch(b []byte, election, leader string, token regent.Token, now time.Time) []byte {
	b = append(b, `{"election":`...)
	b = appendString(b, election)
	b = append(b, `,"leader":`...)
	b = appendString(b, leader)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, token.Epoch, 10)
	if token.Term != "" {
		b = append(b, `,"term":`...)
		b = appendString(b, token.Term)
	}
	b = append(b, `,"dispatchedMs":`...)
	b = strconv.AppendInt(b, now.UnixMilli(), 10)
	return append(b, `,"tasks":[`...)
}

// endBatch closes what appendBatch opened.
const endBatch = `]}`

func appendItem(b []byte, t *Task, tried string) []byte {
	if b[len(b)-1] == '}' {
		b = append(b, ',')
	}
	b = append(b, `{"id":`...)
	b = appendString(b, t.ID)
	b = append(b, `,"kind":`...)
	b = appendString(b, t.Kind)
	if t.Timeout > 0 {
		b = append(b, `,"timeoutMs":`...)
		b = strconv.AppendInt(b, max(1, t.Timeout.Milliseconds()), 10)
	}
	if t.Idempotent {
		b = append(b, `,"idempotent":true`...)
	}
	if tried != "" {
		b = append(b, `,"tried":`...)
		b = appendString(b, tried)
	}
	if len(t.Payload) > 0 {
		b = append(b, `,"payload":`...)
		b = append(b, t.Payload...)
	}
	return append(b, '}')
}

// appendOutcome writes a result, without a line break.
func appendOutcome(b []byte, o *outcome) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, o.ID)
	b = append(b, `,"kind":`...)
	b = appendString(b, o.Kind)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, o.Epoch, 10)
	b = append(b, `,"outcome":`...)
	b = appendString(b, string(o.Outcome))
	if o.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, o.Error)
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

// appendString writes a JSON string; one that needs escaping the long way.
func appendString(b []byte, s string) []byte {
	if !jsonscan.Plain(s) {
		long, _ := json.Marshal(s) // a string cannot fail
		return append(b, long...)
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// valid says what is wrong with a task.
func (t *Task) valid() error {
	switch {
	case t.ID == "" || len(t.ID) > maxID || !utf8.ValidString(t.ID):
		return fmt.Errorf("task id %.40q: must be 1 to %d bytes of UTF-8", t.ID, maxID)
	case t.Kind == "" || len(t.Kind) > maxID || !utf8.ValidString(t.Kind):
		return fmt.Errorf("task %s: kind %.40q must be 1 to %d bytes of UTF-8", t.ID, t.Kind, maxID)
	case t.Timeout < 0:
		return fmt.Errorf("task %s: timeout %v must not be negative", t.ID, t.Timeout)
	case len(t.Payload) > maxData:
		return fmt.Errorf("task %s: payload has %d bytes, at most %d are sent", t.ID, len(t.Payload), maxData)
	case len(t.Payload) > 0 && !jsonscan.Valid(t.Payload):
		return fmt.Errorf("task %s: payload is not valid JSON", t.ID)
	}
	return nil
}
