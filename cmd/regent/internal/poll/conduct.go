package poll

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/work"
)

const (
	// recoverFor is how long a new leader holds everything back for workers that do not answer.
	recoverFor = time.Second
	// doubtFor is how long, beyond its timeout, a slot of the last leader's time waits for such a worker: it may be there.
	doubtFor = 30 * time.Second
	// skew is by how much the clock of the last leader may have been ahead of this one's, as far as doubt goes.
	skew = time.Second
	// queueFor is how long a slot may wait at its worker.
	queueFor = 5 * time.Second
	// askedFor is how long a run that somebody waits for is offered.
	askedFor = 3 * time.Second
	// again is when a slot that no worker takes is offered again.
	again = time.Second
)

// conduct is one term of an orchestrator.
type conduct struct {
	o       *Orchestrator
	term    regent.Term
	ctx     context.Context
	cancel  context.CancelFunc
	pool    *work.Pool
	shelf   *shelf
	wake    chan struct{}
	needed  chan struct{}  // there is a poll
	began   time.Time      // by the wall clock
	beganAt time.Time      // by the one that is never set
	others  sync.WaitGroup // its goroutines but the one of run

	editing sync.Mutex // of polls
	saving  sync.Mutex // of checkpoints

	mu       sync.Mutex
	entries  map[string]*entry
	heap     dueHeap
	listed   []*entry // with something to send, maybe
	open     map[*slot]struct{}
	members  map[string]*member
	suspects map[string]bool // workers that the last leader may have sent to, and that have not answered
	first    bool            // there was no leader before
	looked   time.Time       // when members were first listed
	turn     int             // of the workers
	quiet    bool            // nothing more is sent
	through  time.Time       // all slots that are due up to here were released
	mark     int64           // slots that are due up to here may have been run before a clock went back: see markOf
	clock    clock
	moved    uint64            // counts what a checkpoint should tell
	late     map[string]uint64 // slots that it was too late for, by poll, and that were not told of yet
	reasons  map[string]bool   // why
	told     uint64            // moved, when it was last saved
	savedAt  time.Time
	idle     chan struct{} // closed when nothing is out, if somebody waits for it
}

func newConduct(ctx context.Context, o *Orchestrator, t regent.Term) *conduct {
	c := &conduct{o: o, term: t, wake: make(chan struct{}, 1), needed: make(chan struct{}, 1), began: o.now(), beganAt: time.Now(), entries: map[string]*entry{}, open: map[*slot]struct{}{},
		members: map[string]*member{}, suspects: map[string]bool{}}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.shelf = &shelf{store: o.opts.Store, election: t.Election, epoch: t.Epoch, valid: t.Valid}
	return c
}

// load takes up where the last term ended.
func (c *conduct) load() error {
	stored, spoilt, err := c.shelf.load(c.ctx)
	if err != nil {
		return err
	}
	if spoilt != nil {
		c.o.opts.Log.Error("some polls cannot be read, and are not conducted", "error", spoilt)
	}
	cp, err := readCheckpoint(c.term.Saved())
	if err != nil {
		c.o.opts.Log.Error("checkpoint cannot be read: slots since the last leader's end may be lost", "error", err)
	}
	now := c.began
	if cp.Through == 0 {
		cp.Through = now.UnixMilli()
		c.first = c.term.Epoch == 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range stored {
		e, err := newEntry(p, false)
		if err != nil { // a time zone that this machine does not know, say
			c.o.opts.Log.Error("a poll cannot be conducted", "poll", p.Name, "error", err)
			continue
		}
		c.entries[p.Name] = e
	}
	for _, p := range c.o.opts.Fixed {
		e, err := newEntry(p, true)
		if err != nil {
			return err
		}
		c.entries[p.Name] = e
	}
	from := cp.begin()
	c.mark = cp.Again
	ahead, furthest := 0, time.UnixMilli(cp.Through)
	for _, e := range c.entries {
		if start, restarted := c.enter(e, time.UnixMilli(cp.Through), time.UnixMilli(cp.Again), now); restarted {
			ahead++
			furthest = later(furthest, start)
		}
	}
	c.behind(ahead, furthest, now)
	for _, id := range cp.Open {
		i, ok := parseID(id)
		if e := c.entries[i.name]; ok && e != nil && e.poll.Enabled && !i.manual {
			if c.markOf(i.due) != i.again && e.next.UnixMilli() <= i.due {
				continue // it is run again, when its time comes by this clock
			}
			s := &slot{entry: e, due: i.due, again: i.again, attempt: i.attempt}
			if !e.next.IsZero() && i.due >= e.next.UnixMilli() { // it would be released once more
				e.reserve(s)
			} else {
				e.putBack(s)
			}
			c.open[s] = struct{}{}
			c.list(e)
		}
	}
	for _, name := range cp.Down {
		if e := c.entries[name]; e != nil {
			e.state, e.since = Down, now
		}
	}
	c.through = time.UnixMilli(cp.Through)
	c.tellMissed()
	opts := c.o.opts.Pool
	opts.Leader, opts.Found, opts.Ready = c.o.opts.Leader, c.found, c.ready
	opts.Recall = max(15*time.Second, now.Sub(from).Abs()+10*time.Second)
	c.pool = work.NewPool(c.ctx, c.term, opts)
	return nil
}

// enter computes a poll's slots from a time on, where all slots were released, and returns that time. All up to again were
// released too, before a clock went back: so that is where it begins if it can wait for so long. It reports whether the
// poll begins at now instead, because that time is too far ahead. The mutex is held.
func (c *conduct) enter(e *entry, from, again, now time.Time) (start time.Time, restarted bool) {
	e.ran = time.Now()
	start = later(later(from, again), e.poll.Since)
	missed := e.begin(start, now)
	if e.tooFar(now) {
		start = later(from, e.poll.Since)
		missed = e.begin(start, now)
	}
	if restarted = e.tooFar(now); restarted {
		e.restart(now)
	}
	if missed > 0 {
		c.missed(e, missed, fmt.Sprintf("they were due more than %v before %s, when this leader began: nobody led, or clocks differ",
			catchUp, now.UTC().Format(time.RFC3339)))
	}
	if !e.next.IsZero() {
		heap.Push(&c.heap, e)
	}
	return start, restarted
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// list notes that a poll may have something to send. The mutex is held.
func (c *conduct) list(e *entry) {
	if !e.listed {
		e.listed = true
		c.listed = append(c.listed, e)
	}
}

// run conducts until the term ends.
func (c *conduct) run() {
	c.others.Go(c.lookAround)
	c.others.Go(c.keepCheckpoint)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.ctx.Done():
			return
		}
		timer.Reset(c.step(c.o.now()))
	}
}

// close returns when nothing of the conduct is left.
func (c *conduct) close() {
	c.cancel()
	c.editing.Lock() // an edit under way ends with the context
	defer c.editing.Unlock()
	if c.pool != nil {
		c.pool.Close()
	}
	c.others.Wait()
}

func (c *conduct) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// step releases what is due and sends what can be sent. It returns how long nothing will happen by itself.
func (c *conduct) step(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset := c.clock.moved(now, time.Now()); offset != 0 {
		c.adjust(offset, now)
	}
	c.release(now)
	c.through = later(c.through, now)
	wait := time.Minute
	if len(c.heap) > 0 {
		wait = min(longestWait, c.heap[0].next.Sub(now))
	}
	if at := c.dispatch(now, time.Now()); !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	c.tellMissed()
	return max(wait, time.Millisecond)
}

// release releases what is due until a time. The mutex is held.
func (c *conduct) release(until time.Time) {
	for len(c.heap) > 0 && !c.heap[0].next.After(until) {
		e := c.heap[0]
		if s := e.release(); s != nil {
			s.again = c.markOf(s.due)
			c.open[s] = struct{}{}
			c.list(e)
			c.moved++
		}
		if e.next.IsZero() {
			heap.Pop(&c.heap)
		} else {
			heap.Fix(&c.heap, 0)
		}
	}
}

// missed counts slots that it was too late for, and notes why. The mutex is held.
func (c *conduct) missed(e *entry, n uint64, why string) {
	e.count(outcomeMissed, n)
	c.moved++
	c.o.count(outcomeMissed, e.poll.Kind, 0, n)
	if c.late == nil {
		c.late = map[string]uint64{}
		c.reasons = map[string]bool{}
	}
	c.late[e.poll.Name] += n
	c.reasons[why] = true
}

// tellMissed tells of them, all in one: there may be thousands, and other events should not get lost among them. The mutex is held.
func (c *conduct) tellMissed() {
	if len(c.late) == 0 {
		return
	}
	const named = 10
	names, total := slices.Sorted(maps.Keys(c.late)), uint64(0)
	for _, n := range c.late {
		total += n
	}
	text := strings.Join(names[:min(len(names), named)], ", ")
	if more := len(names) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	why := slices.Sorted(maps.Keys(c.reasons))
	if more := len(why) - named; more > 0 {
		why = append(why[:named], fmt.Sprintf("and %d more reasons", more))
	}
	c.emit(EventMissed, map[string]string{"polls": text, "slots": strconv.FormatUint(total, 10), "reason": strings.Join(why, "; ")})
	c.late, c.reasons = nil, nil
}

func (c *conduct) emit(kind string, metadata map[string]string) {
	c.o.opts.Emit(regent.Event{Kind: kind, Election: c.term.Election, Epoch: c.term.Epoch, Metadata: metadata})
}
