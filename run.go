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

// run is one run of a member: from its start until its last user has left, or its driver has panicked. It is the host
// of a shell, which steps the core.
type run struct {
	m      *Member
	cfg    Config
	core   *core.Core
	shell  *shell.Shell
	ctx    context.Context // of what runs beside the shell: health checks, and the timers of duties
	cancel context.CancelFunc
	wg     sync.WaitGroup // those
	duties sync.WaitGroup // its terms, until their duties have stopped
	over   chan struct{}  // closed when it has ended

	results results
	began   time.Duration
	phase   float64          // its share of what a fleet spreads
	ended   map[string]*term // by election: those whose duties have not stopped, or that are not released; the shell's

	// The member's mutex guards what follows.
	withdrawals map[string][]*candidate
	many        bool // elections: the member's register does not list them

	died atomic.Pointer[panicError] // the panic that ended it
}

// newRun starts a run.
func (m *Member) newRun(cfg Config, again bool) *run {
	r := &run{m: m, cfg: cfg, over: make(chan struct{}), began: m.clock.Now()}
	r.ended = map[string]*term{}
	r.withdrawals = map[string][]*candidate{}
	r.ctx, r.cancel = context.WithCancel(context.Background())

	m.mu.Lock()
	if m.Health != nil && !again {
		m.sick = errUnchecked
	}
	r.core = core.New(r.coreConfig(again), shell.Source{})
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
	for election, n := range m.watched {
		for range n {
			r.shell.Queue(core.Watch{Election: election})
		}
	}
	for _, v := range m.views {
		v.seen = false
	}
	r.shell.Queue(core.Join{})
	m.run = r
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

// coreConfig is the configuration of the core. The member's mutex is held.
func (r *run) coreConfig(again bool) core.Config {
	cfg := r.cfg
	c := core.Config{
		ID: r.m.ID, Addr: r.m.Addr,
		LeaseDuration: cfg.LeaseDuration, OwnLease: cfg.OwnLease, RenewInterval: cfg.RenewInterval,
		RenewBackoff: cfg.RenewBackoff, StopTimeout: cfg.StopTimeout, ElectionInterval: cfg.ElectionInterval,
		ElectionIntervalMax: cfg.ElectionIntervalMax, TakeoverDelay: cfg.TakeoverDelay,
		HeartbeatInterval: cfg.HeartbeatInterval, WorkerTimeout: cfg.WorkerTimeout, Register: cfg.Register,
		Eligible: !cfg.Ineligible, CheckHealth: r.m.Health != nil, Restarted: again,
		Rank: string(cfg.Rank), Priority: cfg.Priority, Region: cfg.Region, Preempt: cfg.Preempt,
		StartDelayMax: cfg.StartupJitterMax, Info: r.infoLocked(), Rest: driver.Rest,
	}
	if !cfg.ContentionDetectionOff {
		c.ContentionThreshold = cfg.ContentionThreshold
	}
	if cfg.StartupJitterMax > 0 {
		r.phase = rand.Float64()
		c.Phase = r.phase
	}
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

// wait returns when the run has ended: nil after ctx has ended, else the panic that has ended it.
func (r *run) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-r.shell.Closed():
	}
	r.shell.Close()
	r.duties.Wait() // after a panic of the core itself they are all that is left
	r.cancel()
	r.wg.Wait()

	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.last = r.core
	r.m.run = nil
	close(r.over)
	if died := r.died.Load(); died != nil && ctx.Err() == nil {
		return died
	}
	return nil
}

// panicked ends the run: the driver has panicked, or the core has.
func (r *run) panicked(err error) {
	r.died.CompareAndSwap(nil, &panicError{err})
	go r.shell.Do(core.Close{Cause: core.Panicked})
}

// Parent returns the context that the context of a term descends from: whoever asks from inside the duty is known by
// it.
func (r *run) Parent(b core.Begin) context.Context {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	ctx := context.Background()
	if c := r.m.cands[b.Election]; c != nil {
		ctx = c.ctx
	}
	return context.WithValue(ctx, inside{r, b.Election, b.Epoch}, true)
}

// inside is the key of the context of a term.
type inside struct {
	r        *run
	election string
	epoch    uint64
}

// Begin makes a term and runs its duty.
func (r *run) Begin(st *shell.Term) {
	m := r.m
	t := &term{r: r, core: st}
	t.stopped = make(chan struct{})
	t.finished = make(chan struct{})
	t.public = Term{Election: st.Election, Epoch: st.Epoch, Incarnation: st.Incarnation, t: t}

	m.mu.Lock()
	t.cand = m.cands[st.Election]
	if v := m.views[st.Election]; v != nil {
		t.public.Since = v.record.Since
		t.saved.Store(&v.record.Data)
	}
	m.mu.Unlock()

	r.ended[st.Election] = t
	r.duties.Add(1)
	m.terms.Store(st.Election, t)
	if t.cand != nil && t.cand.run != nil {
		t.run = t.cand.run
		go t.serve()
	}
}

// End notes why a term has ended. One without a duty has nothing to wait for.
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

// Handle takes what else the core says.
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
	case core.Event:
		r.event(e)
	case core.Lifeline:
		r.lifeline(e)
	case core.Result:
		r.result(e)
	case core.Withdrawn:
		r.withdrawn(e.Election)
	}
}

// finished follows the end of a term: its duty has stopped, and it is released if the store took that.
func (r *run) finished(e core.Finished) {
	t := r.ended[e.Election]
	if t == nil || t.public.Epoch != e.Epoch {
		return
	}
	delete(r.ended, e.Election)
	t.kept = e.Kept
	close(t.finished)
	if t.returned {
		t.cand.result <- t.err
	}
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.m.forgetViewLocked(e.Election)
}

// withdrawn tells those who have withdrawn from an election.
func (r *run) withdrawn(election string) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	for _, c := range r.withdrawals[election] {
		close(c.withdrawn)
	}
	delete(r.withdrawals, election)
	r.m.forgetViewLocked(election)
}

// changed takes in the record of an election, for those who watch it.
func (r *run) changed(record driver.Record) {
	m := r.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.ended[record.Name] == nil && m.cands[record.Name] == nil && m.watched[record.Name] == 0 {
		return
	}
	m.viewLocked(record.Name).show(record)
}

// lifeline tells the observer of heartbeats, if there is one.
func (r *run) lifeline(e core.Lifeline) {
	if r.m.OnLifeline == nil {
		return
	}
	l := Lifeline{Register: e.Register, Holder: e.Holder, Holds: e.Holds, Stopped: e.Stopped, Over: e.Over}
	if e.Deadline != 0 {
		l.Left = max(0, time.Duration(e.Deadline)-r.m.clock.Now())
	}
	r.m.guarded(func() { r.m.OnLifeline(l) }, true)
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

// result passes a result on.
func (r *run) result(e core.Result) {
	w := &r.results
	w.mu.Lock()
	defer w.mu.Unlock()
	if result := w.waiting[e.ID]; result != nil {
		result <- e
		delete(w.waiting, e.ID)
	}
}
