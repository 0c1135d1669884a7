package orchestrate

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/work"
)

// term is what an orchestrator does and knows during one term of its node.
type term struct {
	regent.Term
	o      *Orchestrator
	ctx    context.Context
	cancel context.CancelFunc
	pool   *work.Pool
	polls  *poll.Store

	wake       chan struct{}  // has the loop step at once
	firstPoll  chan struct{}  // receives when a poll was added
	goroutines sync.WaitGroup // all but the one of run
	beganMono  time.Time      // by the monotonic clock

	editing sync.Mutex // held during a change of polls
	saving  sync.Mutex // held while a checkpoint is saved

	mu        sync.Mutex
	began     time.Time // by the wall clock
	clock     wallClock
	entries   map[string]*entry
	due       dueHeap
	pending   []*entry // entries that may have slots to send
	open      map[*slot]struct{}
	members   map[string]regent.MemberView
	stopWatch context.CancelFunc // ends the watch of the members; nil before it begins
	// unanswered are workers that may run slots of the last leader and have not answered yet.
	unanswered  map[string]bool
	firstLeader bool      // there was no leader before
	listedAt    time.Time // when members were first listed; zero before
	turn        int       // of the workers, for assignment in turns
	quiescing   bool      // nothing more is sent
	through     time.Time // all slots that are due up to here were queued
	repeatMark  int64     // slots that are due up to here may have run before a clock was set back: see repeatOf

	missed        map[string]uint64 // missed slots that no event was sent for, by poll
	missedReasons map[string]bool

	changes uint64 // counts what a checkpoint must contain
	saved   uint64 // changes in the last saved checkpoint
	savedAt time.Time
	gaveUp  time.Time     // when giveUpLocked last checked all open slots
	idle    chan struct{} // closed when workers run nothing, if quiesce waits for that
}

func newTerm(ctx context.Context, o *Orchestrator, lead regent.Term) *term {
	t := &term{
		Term:       lead,
		o:          o,
		polls:      poll.NewStore(o.opts.Store, lead.Election, lead.Epoch, lead.Valid),
		wake:       make(chan struct{}, 1),
		firstPoll:  make(chan struct{}, 1),
		began:      o.now(),
		beganMono:  time.Now(),
		entries:    map[string]*entry{},
		open:       map[*slot]struct{}{},
		members:    map[string]regent.MemberView{},
		unanswered: map[string]bool{},
	}
	t.ctx, t.cancel = context.WithCancel(ctx)

	return t
}

// run steps until the term ends.
func (t *term) run() {
	t.goroutines.Go(t.watchMembers)
	t.goroutines.Go(t.keepCheckpoint)

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.wake:
		case <-t.ctx.Done():
			return
		}
		timer.Reset(t.step(t.o.now()))
	}
}

// close ends the term. It returns when no request and no goroutine is left.
func (t *term) close() {
	t.cancel()
	t.editing.Lock() // a change of polls ends with the context
	defer t.editing.Unlock()

	if t.pool != nil {
		t.pool.Close()
	}
	t.goroutines.Wait()
}

// wakeLoop has the loop step at once.
func (t *term) wakeLoop() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// step queues the slots that are due and sends what can be sent. It returns the time until the next step.
func (t *term) step(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if offset := t.clock.jumped(now, time.Now()); offset != 0 {
		t.clockJumpedLocked(offset, now)
	}

	t.enqueueDueLocked(now)
	t.through = later(t.through, now)
	wait := time.Minute
	if len(t.due) > 0 {
		wait = min(clockInterval, t.due[0].next.Sub(now))
	}
	if at := t.dispatchLocked(now, time.Now()); !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	if len(t.open) > 0 {
		t.giveUpLocked(time.Now())
		wait = min(wait, giveUpInterval)
	}

	t.emitMissedLocked()
	return max(wait, time.Millisecond)
}

// enqueueDueLocked queues the slots that are due up to a time.
func (t *term) enqueueDueLocked(until time.Time) {
	for len(t.due) > 0 && !t.due[0].next.After(until) {
		e := t.due[0]
		if s := e.enqueueNext(); s != nil {
			s.Repeat = t.repeatOfLocked(s.Due)
			t.open[s] = struct{}{}
			t.addPendingLocked(e)
			t.changes++
		}

		if e.next.IsZero() {
			heap.Pop(&t.due)
		} else {
			heap.Fix(&t.due, 0)
		}
	}
}

// addPendingLocked notes that an entry may have slots to send.
func (t *term) addPendingLocked(e *entry) {
	if !e.pending {
		e.pending = true
		t.pending = append(t.pending, e)
	}
}

func (t *term) hasPolls() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries) > 0
}

func (t *term) emit(kind regent.EventKind, metadata map[string]string) {
	t.o.opts.Emit(regent.Event{Kind: kind, Election: t.Election, Epoch: t.Epoch, Metadata: metadata})
}

// dueHeap is a [container/heap] of entries, ordered by their next due times.
type dueHeap []*entry

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool { return h[i].next.Before(h[j].next) }

func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex = i
	h[j].heapIndex = j
}

// Push implements [container/heap.Interface].
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.heapIndex = len(*h)
	*h = append(*h, e)
}

// Pop implements [container/heap.Interface].
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.heapIndex = -1

	return e
}
