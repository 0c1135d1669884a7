// Package work carries tasks from a leader to workers over HTTP, and keeps tasks of former leaders from running.
//
// Every task carries the token of the term that sends it: its epoch and its term. A [Worker] keeps the highest token
// that it has seen, on disk if its Fence has a Path. It refuses an older token, or another term with the same epoch,
// with 409 and the token that it has seen. A [Pool] that gets this answer ends its term.
//
// A task can reach a worker late, twice, or from a leader that has not noticed the end of its term. Arrival is not
// guaranteed. A worker runs a task ID at most once, however often it is delivered, as long as the worker remembers it:
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

// Task is a piece of work that a [Worker] runs at most once.
type Task struct {
	ID      string          // unique among all tasks that are ever sent
	Kind    string          // selects the worker's handler
	Payload json.RawMessage // input of the handler: valid JSON, or empty
	Timeout time.Duration   // from when the worker has received it, waiting included; a minute if 0
	// Idempotent marks a task that may still run after the next leader has started: see [regent.Fence.AdmitLate].
	Idempotent bool

	Epoch      uint64    // of the term that sends it; set by the pool
	Term       string    // the incarnation of that term; empty if the leader did not send one; set by the pool
	Dispatched time.Time // by the leader's wall clock: set by the pool
	Leader     string    // set by the pool
}

// Token returns the token of the term that sent the task. A handler passes it on with what it writes elsewhere.
func (t Task) Token() regent.Token { return regent.NewToken(t.Epoch, t.Term) }

// Outcome classifies how a task ended.
type Outcome string

// The outcomes.
const (
	Done        Outcome = "done"
	Failed      Outcome = "failed"      // the handler returned an error, or panicked
	Expired     Outcome = "expired"     // the timeout passed before it started, or while it ran
	Interrupted Outcome = "interrupted" // the worker stopped or crashed while it ran: it may have run in part
)

// Result describes how a task ended.
type Result struct {
	ID      string
	Kind    string
	Epoch   uint64
	Outcome Outcome
	Error   string          // why the task is not Done; or that Data was dropped: see Worker.KeepBytes
	Data    json.RawMessage // what the handler returned
	Began   time.Time       // by the worker's wall clock; zero if the task never started
	Took    time.Duration
}

// MaxBody is the largest body of a request to a worker, in bytes.
const MaxBody = 4 << 20

// Limits of requests and results.
const (
	maxID    = 256       // bytes of a task's id
	maxBatch = 1024      // tasks in a request
	maxBody  = MaxBody   // bytes of a request
	maxData  = 256 << 10 // bytes of a result's data
	maxError = 1000      // bytes of a result's error
)

const defaultTimeout = time.Minute

var (
	// ErrBusy is returned if the queue of a worker is full.
	ErrBusy = errors.New("the worker is busy")
	// ErrUnknownKind is returned if a worker has no handler for the kind of a task.
	ErrUnknownKind = errors.New("the worker has no handler for this kind")
	// ErrStopping is returned if a worker is draining or closed. It accepts no tasks.
	ErrStopping = errors.New("the worker is stopping")
	// ErrUnreachable is returned if the worker could not be reached. The task was certainly not taken.
	ErrUnreachable = errors.New("the worker cannot be reached")
	// ErrGone is returned if a worker was removed while it had the task. The task may have run.
	ErrGone = errors.New("the worker is gone")
	// ErrForgotten is returned if a worker may have taken a task and has no record of it: it restarted without a
	// journal, or has ended more tasks since than it keeps. The task may have run.
	ErrForgotten = errors.New("the worker has forgotten the task")
	// ErrEnded is returned if the pool's term is over. The task may have run, or may still run.
	ErrEnded = errors.New("the term has ended")
	// ErrNoWorker is returned if the pool has no worker for the task.
	ErrNoWorker = errors.New("no worker can take the task")
)
