// Package work carries tasks from a leader to workers over HTTP, and keeps tasks of former leaders from running.
//
// Every task carries the token of the term that sends it: its epoch and its term. A [Worker] keeps the highest token
// that it has seen, on disk if its Fence has a Path. It refuses an older token, or another term with the same epoch,
// with 409 and the token that it has seen. A [Pool] that gets this answer ends its term.
//
// A task can reach a worker late, twice, or from a leader that has not noticed the end of its term. Arrival is not
// guaranteed. A worker runs a task ID once, however often it is delivered, as long as the worker remembers it:
// Worker.Keep sets how many it remembers.
//
// A fencing token is not a credential. Set a Token, or have the server's TLS configuration verify clients. A pool signs
// its requests with the Token and never sends it, because a worker's address may come from anybody who can write the
// store. A signature is fresh by a challenge of the worker, so the wall clocks of leaders and workers may differ.
//
// A worker is mounted at two paths: one for tasks, one for their results. Without the second, the leader gets 404 and
// never learns how a task ended.
//
//	w := &work.Worker{Election: "greetings", Token: "secret"}
//	w.Handle("greet", greet)
//	mux := http.NewServeMux()
//	mux.Handle("POST /v1/tasks", w)
//	mux.Handle("POST /v1/tasks/results", w)
//
// The leader's side is a [Pool], which lives as long as a term: see the example.
package work

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/regentd/regent"
)

// Task is a piece of work.
type Task struct {
	ID      string          // unique among all that are ever sent: a worker runs it once
	Kind    string          // who handles it
	Payload json.RawMessage // what its handler is told; valid JSON, or nothing
	Timeout time.Duration   // how long it may take from when the worker has it, waiting included; a minute if 0
	// Idempotent tasks do no harm if they run although their leader has just been followed by another one: see [regent.Fence.AdmitLate].
	Idempotent bool

	Epoch      uint64    // of the term that sends it: set by the pool
	Term       string    // the incarnation of that term; empty if its leader did not say: set by the pool
	Dispatched time.Time // by the leader's wall clock: set by the pool
	Leader     string    // set by the pool
}

// Token returns the token of the term that sent the task, for whatever the task's handler passes on.
func (t Task) Token() regent.Token { return regent.NewToken(t.Epoch, t.Term) }

// Outcome is what became of a task.
type Outcome string

// The outcomes.
const (
	Done        Outcome = "done"
	Failed      Outcome = "failed"      // its handler returned an error, or panicked
	Expired     Outcome = "expired"     // its time was over before it began, or before it had ended
	Interrupted Outcome = "interrupted" // the worker stopped, or died, while it ran; nobody knows how far it got
)

// Result is how a task ended.
type Result struct {
	ID      string
	Kind    string
	Epoch   uint64
	Outcome Outcome
	Error   string          // why, unless it is done; or that its data was dropped: see Worker.KeepBytes
	Data    json.RawMessage // what its handler returned
	Began   time.Time       // by the worker's wall clock; zero if it did not
	Took    time.Duration
}

// MaxBody is how many bytes a request to a worker may have.
const MaxBody = 4 << 20

// Limits of what is sent.
const (
	maxID    = 256       // bytes of a task's id
	maxBatch = 1024      // tasks in a request
	maxBody  = MaxBody   // bytes of a request
	maxData  = 256 << 10 // bytes of a result's data
	maxError = 1000      // bytes of a result's error
)

const defaultTimeout = time.Minute

var (
	// ErrBusy says that a worker has no room.
	ErrBusy = errors.New("the worker is busy")
	// ErrUnknownKind says that a worker has no handler for a task.
	ErrUnknownKind = errors.New("the worker has no handler for this kind")
	// ErrStopping says that a worker takes nothing more.
	ErrStopping = errors.New("the worker is stopping")
	// ErrUnreachable says that a task was not taken, for certain, since its worker could not be reached.
	ErrUnreachable = errors.New("the worker cannot be reached")
	// ErrGone says that a worker was removed while it had a task. It may have run.
	ErrGone = errors.New("the worker is gone")
	// ErrForgotten says that a worker had a task, or may have had it, and knows nothing of it any more: it was started anew without a journal, or
	// has since ended more than it keeps. The task may have run.
	ErrForgotten = errors.New("the worker has forgotten the task")
	// ErrEnded says that the pool's term is over. The task may have run, and may yet.
	ErrEnded = errors.New("the term has ended")
	// ErrNoWorker says that there is nobody who could take a task.
	ErrNoWorker = errors.New("there is no worker for it")
)
