package regent

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/shell"
)

// run is one run of a member: from its start until its last user has left, or until its driver has panicked. It is the
// host of a shell, which steps the core and calls the run with the core's effects.
type run struct {
	m     *Member
	cfg   Config
	core  *core.Core
	shell *shell.Shell

	ctx    context.Context // of the goroutines beside the shell: health checks, and timers of duties
	cancel context.CancelFunc
	wg     sync.WaitGroup // the goroutines beside the shell
	duties sync.WaitGroup // terms whose duties have not stopped
	over   chan struct{}  // closed when the run has ended

	results results
	began   time.Duration
	phase   float64          // when in an interval this member of a fleet sends its requests, from 0 to 1
	ended   map[string]*term // by election: terms that still have a duty, or are not released; only the shell uses it

	// The member's mutex guards what follows.
	withdrawals map[string][]*candidate
	many        bool // the member has too many elections to list them in its register
	unpublished bool // the member's info has changed since it was last published

	died atomic.Pointer[panicError] // the panic that ended the run
}

// newRun starts a run. again says that the run before has panicked.
func (m *Member) newRun(cfg Config, again bool) *run {
	r := &run{m: m, cfg: cfg, over: make(chan struct{}), began: m.clock.Now()}
	r.ended = map[string]*term{}
	r.withdrawals = map[string][]*candidate{}
	r.ctx, r.cancel = context.WithCancel(context.Background())

	m.mu.Lock()
	m.prepareLocked(r, again)
	m.mu.Unlock()

	if again {
		r.recoverAll()
	}

	r.shell.Do()
	if m.Health != nil {
		r.wg.Go(r.checkHealth)
	}
	return r
}

// prepareLocked makes the core and the shell of a run, and queues what the member's users want of it.
func (m *Member) prepareLocked(r *run, again bool) {
	if m.Health != nil && !again {
		m.checkErr = errUnchecked
	}

	r.core = core.New(r.coreConfigLocked(again), shell.Source{})
	if m.last != nil {
		r.core.Inherit(m.last)
	}
	for election, epoch := range m.memory {
		r.core.Remember(election, epoch)
	}

	r.shell = shell.New(shell.Config{
		Core: r.core, Store: m.Store, Clock: m.clock, Host: r, Cause: r.cause, Panicked: r.panicked,
	})
	for election := range m.cands {
		r.shell.Queue(core.Campaign{Election: election})
	}
	for election, n := range m.watchers {
		for range n {
			r.shell.Queue(core.Watch{Election: election})
		}
	}

	for _, v := range m.views {
		v.seen = false
	}

	r.shell.Queue(core.Join{})
	m.run = r
}

// closeWatchers is how many candidates watch a leader closely. The others watch it seldom: see docs/OPERATIONS.md.
const closeWatchers = 3

// coreConfigLocked returns the configuration of the core.
func (r *run) coreConfigLocked(again bool) core.Config {
	cfg := r.cfg
	c := core.Config{
		ID: r.m.ID, Addr: r.m.Addr,
		LeaseDuration: cfg.LeaseDuration, OwnLease: cfg.OwnLease, RenewInterval: cfg.RenewInterval,
		RenewBackoff: cfg.RenewBackoff, StopTimeout: cfg.StopTimeout, ElectionInterval: cfg.ElectionInterval,
		ElectionIntervalMax: cfg.ElectionIntervalMax, TakeoverDelay: cfg.TakeoverDelay,
		HeartbeatInterval: cfg.HeartbeatInterval, WorkerTimeout: cfg.WorkerTimeout, Register: cfg.Register,
		Eligible: !cfg.Ineligible, CheckHealth: r.m.Health != nil, Restarted: again,
		Rank: string(cfg.Rank), Priority: cfg.Priority, Region: cfg.Region, Preempt: cfg.Preempt,
		Latency: r.m.latency, Watchers: closeWatchers,
		StartDelayMax: cfg.StartupJitterMax, Info: r.infoLocked(), Rest: driver.Rest,
	}
	if !cfg.ContentionDetectionOff {
		c.ContentionThreshold = cfg.ContentionThreshold
	}
	r.phase = rand.Float64()
	c.Phase = r.phase

	if again {
		c.StartDelay = time.Second
		return c
	}

	c.StartDelay = cfg.StartupJitterMin
	if spread := cfg.StartupJitterMax - cfg.StartupJitterMin; spread > 0 {
		c.StartDelay += rand.N(spread + 1)
	}
	return c
}

// wait returns when the run has ended: nil if ctx has ended, and otherwise the panic that has ended the run.
func (r *run) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-r.shell.Closed():
	}

	r.shell.Close()
	r.duties.Wait() // a panic of the core leaves them behind
	r.cancel()
	r.wg.Wait()

	r.m.mu.Lock()
	defer r.m.mu.Unlock()

	r.m.last = r.core
	close(r.over)
	if died := r.died.Load(); died != nil && ctx.Err() == nil {
		return died // the next run takes its place: what callers queue meanwhile that one takes over
	}
	r.m.run = nil
	return nil
}

// panicked ends the run after a panic of the driver, or of the core.
func (r *run) panicked(err error) {
	r.died.CompareAndSwap(nil, &panicError{err})
	go r.shell.Do(core.Close{Cause: core.Panicked})
}

// Parent returns the parent of a term's context. A call that passes the term's context is known by it to come from the
// term's own duty.
func (r *run) Parent(b core.Begin) context.Context {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()

	ctx := context.Background()
	if c := r.m.cands[b.Election]; c != nil {
		ctx = c.ctx
	}
	return &dutyContext{ctx, insideTerm{r, b.Election, b.Epoch}}
}

// insideTerm is a key of the context of a term.
type insideTerm struct {
	r        *run
	election string
	epoch    uint64
}

// dutyContext is a context with one key, whose value is true. A context of the standard library would take another
// allocation for the key.
type dutyContext struct {
	context.Context
	key insideTerm
}

// Value implements [context.Context].
func (c *dutyContext) Value(key any) any {
	if k, ok := key.(insideTerm); ok && k == c.key {
		return true
	}

	return c.Context.Value(key)
}

// Begin makes a term and runs its duty.
func (r *run) Begin(st *shell.Term) {
	m := r.m
	t := &term{r: r, core: st}
	t.public = Term{Election: st.Election, Epoch: st.Epoch, Incarnation: st.Incarnation, t: t}

	m.mu.Lock()
	t.cand = m.cands[st.Election]
	if v := m.views[st.Election]; v != nil {
		t.public.Since = v.record.Since
		if data := v.record.Data; data != nil { // the view gets other records, while the term is asked for this one
			t.saved.Store(&data)
		}
	}

	m.mu.Unlock()

	r.ended[st.Election] = t
	r.duties.Add(1)
	m.terms.Store(st.Election, t)
	if t.cand != nil && t.cand.run != nil {
		t.run = t.cand.run
		if t.cand.here {
			t.cand.steps <- candidateStep{kind: termBegan, term: t}
		} else {
			go t.serve()
		}
	}
}

// End takes in that a term has ended. A term without a duty has stopped by that.
func (r *run) End(st *shell.Term, e core.End) {
	t := r.ended[e.Election]
	if t == nil || t.core != st {
		return
	}

	t.next = e.Next
	r.m.terms.CompareAndDelete(e.Election, t)
	if t.run == nil {
		t.dutyStopped(false)
	}
}

// Handle carries out the other effects of the core.
func (r *run) Handle(e core.Effect) {
	switch e := e.(type) {
	case core.Finished:
		r.finished(e)
	case core.Changed:
		r.changed(e.Record)
	case core.Learned:
		r.m.mu.Lock()
		r.m.learnLocked(e.Election, e.Epoch)
		r.m.mu.Unlock()
	case core.Forgotten:
		r.m.mu.Lock()
		delete(r.m.memory, e.Election)
		r.m.mu.Unlock()
	case core.Event:
		r.event(e)
	case core.Lifeline:
		r.lifeline(e)
	case core.Measured:
		r.m.mu.Lock()
		r.m.latency = e.Latency
		r.publishLocked()
		r.m.mu.Unlock()
	case core.Result:
		r.result(e)
	case core.Withdrawn:
		r.withdrawn(e.Election)
	}
}

// finished takes in that the duty of a term has stopped, and that the term was released if the store took the release.
func (r *run) finished(e core.Finished) {
	t := r.ended[e.Election]
	if t == nil || t.public.Epoch != e.Epoch {
		return
	}

	delete(r.ended, e.Election)
	t.kept = e.Kept
	t.finished.set()
	if t.returned {
		t.cand.err = t.err
		t.cand.steps <- candidateStep{kind: dutyReturned}
	}

	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.forgetViewLocked(e.Election)
}

// withdrawn wakes those who have withdrawn from an election.
func (r *run) withdrawn(election string) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()

	for _, c := range r.withdrawals[election] {
		close(c.withdrawn)
	}

	delete(r.withdrawals, election)
	r.m.forgetViewLocked(election)
}

// changed keeps the record of an election for those who watch it.
func (r *run) changed(record driver.Record) {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()

	if r.ended[record.Name] == nil && m.cands[record.Name] == nil && m.watchers[record.Name] == 0 {
		return
	}

	m.viewLocked(record.Name).showLocked(record)
}

// results are the requests to the core that somebody waits for.
type results struct {
	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan core.Result
}

// request returns the ID of a new request, and a channel that receives its result.
func (r *run) request() (uint64, <-chan core.Result) {
	w := &r.results
	w.mu.Lock()
	defer w.mu.Unlock()

	w.last++
	if w.waiting == nil {
		w.waiting = map[uint64]chan core.Result{}
	}

	result := make(chan core.Result, 1)
	w.waiting[w.last] = result
	return w.last, result
}

// result passes a result on to whoever waits for it.
func (r *run) result(e core.Result) {
	w := &r.results
	w.mu.Lock()
	defer w.mu.Unlock()

	if result := w.waiting[e.ID]; result != nil {
		result <- e
		delete(w.waiting, e.ID)
	}
}
