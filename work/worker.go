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

// Handler runs the tasks of one kind. Its context ends when the task's timeout has passed, or when the worker is
// closed. What it returns is sent to the leader: it must be valid JSON, or empty.
type Handler func(ctx context.Context, t Task) (json.RawMessage, error)

// Worker runs the tasks that leaders of one election send. Set its fields and handlers before its first use, and do not
// copy it afterwards. It is an [http.Handler]: serve it at one path for tasks, and at the path below it called results.
// Call Close at the end.
type Worker struct {
	Election string
	Fence    *regent.Fence // if nil, a fence that forgets its epoch at a restart
	Token    string        // leaders must sign with it, unless TLS has verified their certificate; empty for none
	// ID and Addr are the ID and the address that leaders give to [Pool.Add] for this worker. With a Token, set both:
	// the worker then refuses a request that was signed for another worker and forwarded.
	ID, Addr string
	// Journal is a file that records which tasks were started and how they ended; empty for none. With it, a worker
	// that restarts runs no task twice, and reports the tasks that were running as interrupted. The file is written,
	// not synced: it survives a crash of the process, not of the machine. Open returns ErrInUse if another worker uses
	// the file, on systems with file locks.
	Journal     string
	Concurrency int // most tasks that run at once; 64 if 0
	Queue       int // most tasks that wait besides; 1024 if 0
	Keep        int // ended tasks that are remembered; 10,000 if 0
	// KeepBytes limits the results that are kept, in memory and in the journal, and separately the payloads of tasks
	// that have not ended. 32 MiB if 0. Beyond the limit, the oldest results lose their data: the task is still
	// remembered, so it does not run twice, and its result says in Error that the data was dropped. The worker accepts
	// no task while the results that no leader has received take more than half of KeepBytes.
	KeepBytes int
	Log       *slog.Logger

	handlers  map[string]Handler
	verifier  *signed.Verifier
	opening   sync.Once
	openErr   error
	journal   *journal
	session   string
	ctx       context.Context
	cancel    context.CancelCauseFunc
	runners   sync.WaitGroup // everything that may write the journal
	admission sync.RWMutex   // read-locked from when the fence admits a batch until its tasks are in runs

	mu              sync.Mutex
	runs            map[string]*run // by ID: tasks that wait, run, or have ended and are remembered
	open            int             // how many of them have not ended
	payloadBytes    int             // of the tasks that have not ended
	keptBytes       int             // of the results that are kept
	unreportedBytes int             // of the results that no leader has received
	withoutData     int             // how many of the oldest in ended have lost their data
	waiting         []*run
	running         int
	stopping        bool
	unwritable      time.Time // until then no task is accepted: the journal could not be written
	journalErr      error     // why it could not; nil since it can
	unflushed       []*run    // ended, and not in the journal yet
	flushing        bool
	ended           []*run        // by number, from base on
	base            uint64        // the number of ended[0]; the first is 1
	reported        uint64        // the last number that a leader has received
	changed         chan struct{} // closed when a task has ended; nil if nobody waits for that
	stats           WorkerStats
	refusals        []Refusal // the last ones, the oldest first
}

// WorkerStats are counts since the worker was created.
type WorkerStats struct {
	Taken      uint64             `json:"taken"`
	Duplicates uint64             `json:"duplicates"` // tasks that were delivered again
	Stale      uint64             `json:"stale"`      // tasks and queries of former leaders that the fence refused
	Late       uint64             `json:"late"`       // tasks of former leaders, admitted within the fence's grace
	Busy       uint64             `json:"busy"`       // tasks refused: the queue is full, or the journal fails
	Unknown    uint64             `json:"unknown"`    // tasks refused because they have no handler
	Dropped    uint64             `json:"dropped"`    // results whose data was dropped: see Worker.KeepBytes
	KeptBytes  int                `json:"keptBytes"`  // size of the results that are kept
	Outcomes   map[Outcome]uint64 `json:"outcomes"`
	Waiting    int                `json:"waiting"`
	Running    int                `json:"running"`
}

// Handle sets the handler of a kind of task.
func (w *Worker) Handle(kind string, h Handler) {
	if w.handlers == nil {
		w.handlers = map[string]Handler{}
	}
	w.handlers[kind] = h
}

// ErrInUse is returned by Open if another worker, in this process or another, has the journal open.
var ErrInUse = errors.New("another worker has it open")

// Open reads the journal. The first request does that too, but at the start an error is noticed sooner.
func (w *Worker) Open() error {
	w.opening.Do(func() {
		w.session = rand.Text()
		w.base = 1
		w.runs = map[string]*run{}
		w.stats.Outcomes = map[Outcome]uint64{}
		w.ctx, w.cancel = context.WithCancelCause(context.Background())
		if w.Fence == nil {
			w.Fence = &regent.Fence{}
		}

		if w.Log == nil {
			w.Log = slog.New(slog.DiscardHandler)
		}

		w.Concurrency = orDefault(w.Concurrency, 64)
		w.Queue = orDefault(w.Queue, 1024)
		w.Keep = orDefault(w.Keep, 10_000)
		w.KeepBytes = orDefault(w.KeepBytes, 32<<20)
		w.verifier = signed.NewVerifier(signed.NewSecret(w.Token), w.ID, w.Addr)
		w.openErr = w.restore()
	})

	return w.openErr
}

func orDefault(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// restore reads from the journal which tasks an earlier process of this worker had.
func (w *Worker) restore() error {
	if w.Journal == "" {
		return nil
	}

	journal, past, err := openJournal(w.Journal, w.Keep, w.KeepBytes, w.Log, w.snapshot)
	if err != nil {
		return err
	}

	w.journal = journal
	now := time.Now()
	w.restoreEnded(past.ended, now)

	interrupted := make([]*run, 0, len(past.unfinished))
	for _, o := range past.unfinished {
		o.Outcome = Interrupted
		o.Error = "the worker died while it had the task"
		interrupted = append(interrupted, &run{ended: true, result: o, endedAt: now})
	}

	if err := w.journal.end(interrupted); err != nil {
		return errors.Join(err, w.journal.close()) // otherwise nobody could open it again
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	for _, r := range interrupted {
		w.rememberLocked(r)
		w.stats.Outcomes[Interrupted]++
	}
	return nil
}

// restoreEnded remembers the results of an earlier process. They count as reported: a leader that wanted them has
// received them, or asks again.
func (w *Worker) restoreEnded(results []wireResult, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for i := range results {
		o := &results[i]
		r := &run{ended: true, result: *o, endedAt: now}
		if o.BeganMs != 0 {
			r.endedAt = time.UnixMilli(o.BeganMs).Add(time.Duration(o.TookUs) * time.Microsecond)
		}
		w.rememberLocked(r)
	}
	w.reported = w.lastLocked()
}

// snapshot returns what a rewritten journal must hold.
func (w *Worker) snapshot() (ended, open []*run) {
	w.mu.Lock()
	defer w.mu.Unlock()

	for _, r := range w.runs {
		if !r.ended {
			open = append(open, r)
		}
	}

	// A run that has ended is never changed, only replaced by another one: see dropDataLocked.
	return slices.Clone(w.ended), open
}

// Stats returns the worker's counts.
func (w *Worker) Stats() WorkerStats {
	if w.Open() != nil {
		return WorkerStats{}
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	s := w.stats
	s.Outcomes = maps.Clone(s.Outcomes)
	s.Waiting, s.Running = len(w.waiting), w.running
	s.KeptBytes = w.keptBytes
	s.Stale, s.Late = w.Fence.Refused(), w.Fence.Late()
	return s
}

// Drain stops accepting tasks, and returns when every task has ended and every result was sent to a leader, or when ctx
// is done.
func (w *Worker) Drain(ctx context.Context) error {
	if err := w.Open(); err != nil {
		return err
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	w.stopping = true
	for w.open > 0 || w.reported < w.lastLocked() {
		changed := w.changedLocked()
		w.mu.Unlock()

		select {
		case <-changed:
		case <-ctx.Done():
		}

		w.mu.Lock()
		if ctx.Err() != nil {
			return fmt.Errorf("drain: %d tasks have not ended, %d results wait for a leader: %w", w.open,
				w.lastLocked()-w.reported, context.Cause(ctx))
		}
	}

	return nil
}

// lastLocked returns the number of the newest result.
func (w *Worker) lastLocked() uint64 { return w.base + uint64(len(w.ended)) - 1 }

// Close interrupts all tasks, waits for their handlers, and closes the journal. Leaders can still ask for results.
func (w *Worker) Close() error {
	if err := w.Open(); err != nil {
		return err
	}

	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()

	w.cancel(ErrStopping)
	w.runners.Wait()
	return w.journal.close()
}
