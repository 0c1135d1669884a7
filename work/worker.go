package work

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/signed"
)

// Handler does the tasks of a kind. Its context ends when the task's time is over, or the worker stops. What it returns is passed to the leader: it
// must be valid JSON, or nothing.
type Handler func(ctx context.Context, t Task) (json.RawMessage, error)

// Worker takes the tasks of one election's leaders. Set its fields and handlers before its first use, and do not copy it after. It is an
// [http.Handler], to be served at a path of its own and at the path below it called results; Close it at the end.
type Worker struct {
	Election string
	Fence    *regent.Fence // one that remembers nothing over a restart if nil
	Token    string        // that leaders must sign with, unless their certificate was verified; empty for none
	// ID and Addr are the names under which leaders know this worker: those given to [Pool.Add]. With a Token, set both: a
	// request that was signed for another worker, and passed on by whoever received it, is then refused.
	ID, Addr string
	// Journal is a file that tells which tasks were begun and how they ended, so that a worker that is started again runs none of them
	// twice, and tells the leader of those that it was running. Empty for none. It is written, not synced: it survives the death of
	// the process, not that of the machine. A second worker that opens it is refused, where the system has file locks.
	Journal     string
	Concurrency int // tasks at once; 64 if 0
	Queue       int // tasks that wait beyond that; 1024 if 0
	Keep        int // ended tasks that are remembered; 10,000 if 0
	// KeepBytes is how much of what handlers have returned is kept, in memory and after that in the journal; and, apart from it, how
	// much the payloads of tasks that have not ended may take. 32 MiB if 0. Of results beyond it the oldest lose their data: the task is
	// still remembered, so that it does not run twice, and its result says in Error that the data was dropped. While half as much
	// waits to be told to a leader, no task is taken.
	KeepBytes int
	Log       *slog.Logger

	handlers map[string]Handler
	verifier *signed.Verifier
	opening  sync.Once
	openErr  error
	journal  *journal
	session  string
	life     context.Context
	end      context.CancelCauseFunc
	runners  sync.WaitGroup // all that may touch the journal
	gate     sync.RWMutex   // read-locked from the fence's word on a batch until its tasks are in runs

	mu       sync.Mutex
	runs     map[string]*run // by id: what waits, runs, or has ended and is remembered
	open     int             // those that have not ended
	payload  int             // bytes of their payloads
	kept     int             // bytes of what those that have ended returned
	unheard  int             // bytes of that which no leader was told of yet
	stripped int             // how many of the oldest in ended have no data any more
	waiting  []*run
	running  int
	stopping bool
	ending   []*run // ended, and not in the journal yet
	flushing bool
	ended    []*run        // in the order of their numbers, the first one's is base
	base     uint64        // numbers begin at 1
	told     uint64        // the last one that a leader was told of
	news     chan struct{} // closed when a task has ended, if somebody waits for that
	stats    WorkerStats
}

// WorkerStats are a worker's figures since it was made.
type WorkerStats struct {
	Taken      uint64             `json:"taken"`
	Duplicates uint64             `json:"duplicates"` // delivered again
	Stale      uint64             `json:"stale"`      // tasks and questions refused, being a former leader's: the fence's count
	Late       uint64             `json:"late"`       // a former leader's, taken within the grace: the fence's count
	Busy       uint64             `json:"busy"`       // refused for want of room
	Unknown    uint64             `json:"unknown"`    // refused for want of a handler
	Dropped    uint64             `json:"dropped"`    // results whose data was dropped for want of room
	KeptBytes  int                `json:"keptBytes"`  // of the data that is kept
	Outcomes   map[Outcome]uint64 `json:"outcomes"`
	Waiting    int                `json:"waiting"`
	Running    int                `json:"running"`
}

// Handle sets the handler of a kind.
func (w *Worker) Handle(kind string, h Handler) {
	if w.handlers == nil {
		w.handlers = map[string]Handler{}
	}
	w.handlers[kind] = h
}

// ErrInUse says that another worker, of this process or another one, has the journal open.
var ErrInUse = errors.New("another worker uses it")

// Open reads the journal. The first request does that too; an error is better seen at the start.
func (w *Worker) Open() error {
	w.opening.Do(func() {
		w.session, w.base, w.runs = rand.Text(), 1, map[string]*run{}
		w.stats.Outcomes = map[Outcome]uint64{}
		w.life, w.end = context.WithCancelCause(context.Background())
		if w.Fence == nil {
			w.Fence = &regent.Fence{}
		}
		if w.Log == nil {
			w.Log = slog.New(slog.DiscardHandler)
		}
		w.Concurrency, w.Queue, w.Keep = or(w.Concurrency, 64), or(w.Queue, 1024), or(w.Keep, 10_000)
		w.KeepBytes = or(w.KeepBytes, 32<<20)
		w.verifier = signed.NewVerifier(signed.NewSecret(w.Token), w.ID, w.Addr)
		w.openErr = w.recall()
	})
	return w.openErr
}

func or(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// recall takes from the journal what an earlier run of this worker had.
func (w *Worker) recall() error {
	if w.Journal == "" {
		return nil
	}
	journal, past, err := openJournal(w.Journal, w.Keep, w.KeepBytes, w.Log, w.memory)
	if err != nil {
		return err
	}
	w.journal = journal
	now := time.Now()
	for i := range past.ended {
		o := &past.ended[i]
		r := &run{ended: true, result: *o, endedAt: now}
		if o.BeganMs != 0 {
			r.endedAt = time.UnixMilli(o.BeganMs).Add(time.Duration(o.TookUs) * time.Microsecond)
		}
		w.remember(r)
	}
	w.told = w.last() // whoever wanted to know of those has asked, or asks again
	interrupted := make([]*run, 0, len(past.begun))
	for _, o := range past.begun {
		o.Outcome, o.Error = Interrupted, "the worker died while it had the task"
		interrupted = append(interrupted, &run{ended: true, result: o, endedAt: now})
	}
	if err := w.journal.end(interrupted); err != nil {
		return errors.Join(err, w.journal.close()) // else nobody could open it
	}
	for _, r := range interrupted {
		w.remember(r)
		w.stats.Outcomes[Interrupted]++
	}
	return nil
}

// memory is what a journal that is written anew has to tell.
func (w *Worker) memory() (ended, open []*run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if !r.ended {
			open = append(open, r)
		}
	}
	return slices.Clone(w.ended), open // a run that has ended is not changed any more, but another one may take its place
}

// Stats returns the worker's figures.
func (w *Worker) Stats() WorkerStats {
	if w.Open() != nil {
		return WorkerStats{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Outcomes = maps.Clone(s.Outcomes)
	s.Waiting, s.Running = len(w.waiting), w.running
	s.KeptBytes = w.kept
	s.Stale, s.Late = w.Fence.Refused(), w.Fence.Late()
	return s
}

// Drain takes nothing more, and returns when every task has ended and an answer that tells of it has left for a leader, or ctx has ended.
func (w *Worker) Drain(ctx context.Context) error {
	if err := w.Open(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopping = true
	for w.open > 0 || w.told < w.last() {
		news := w.awaitNews()
		w.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
		}
		w.mu.Lock()
		if ctx.Err() != nil {
			return fmt.Errorf("drain: %d tasks have not ended, %d results wait for a leader: %w", w.open, w.last()-w.told, context.Cause(ctx))
		}
	}
	return nil
}

// last is the number of the newest result. The mutex is held.
func (w *Worker) last() uint64 { return w.base + uint64(len(w.ended)) - 1 }

// Close ends all tasks, which count as interrupted, waits for their handlers, and closes the journal. Leaders can still ask for results.
func (w *Worker) Close() error {
	if err := w.Open(); err != nil {
		return err
	}
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.end(ErrStopping)
	w.runners.Wait()
	return w.journal.close()
}
