package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/core"
	"github.com/regentd/regent/internal/virtual"
	"github.com/regentd/regent/memstore"
)

// wallClock is Go's clock, which is virtual in a bubble.
type wallClock struct{ start time.Time }

func (c wallClock) Now() time.Duration                   { return time.Since(c.start) + time.Hour }
func (c wallClock) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// process is one member: a shell, and a host whose duty runs until its context ends.
type process struct {
	t      *testing.T
	id     string
	client *memstore.Client
	shell  *Shell

	mu      sync.Mutex
	log     []string
	events  []core.Event
	results map[uint64]core.Result
	latest  *Term
	terms   map[string]*Term // the newest of each election
	block   chan struct{}    // Handle waits for it, if there is one
	stop    func(*Term)      // what the duty does after its context has ended
	panics  []error
	bomb    atomic.Bool // Handle panics
}

type causeError core.Cause

func (c causeError) Error() string { return string(c) }

func clusterConfig(id string) core.Config {
	return core.Config{
		ID: id, LeaseDuration: 6 * time.Second, RenewInterval: 1500 * time.Millisecond, StopTimeout: time.Second,
		RenewBackoff:     []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		ElectionInterval: 5 * time.Second, ElectionIntervalMax: 5 * time.Second, TakeoverDelay: time.Second,
		HeartbeatInterval: 1500 * time.Millisecond, WorkerTimeout: 6 * time.Second, Eligible: true,
	}
}

func lockConfig(id string) core.Config {
	cfg := clusterConfig(id)
	cfg.OwnLease = true
	cfg.TakeoverDelay = 0
	return cfg
}

var configs = map[string]func(string) core.Config{"member": clusterConfig, "own": lockConfig}

// each runs a test in a bubble of virtual time, for both kinds of lease.
func each(t *testing.T, f func(t *testing.T, store *memstore.Store, config func(string) core.Config)) {
	t.Helper()
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			virtual.Test(t, func(t *testing.T) { f(t, memstore.New(), config) })
		})
	}
}

// start starts a process that campaigns.
func start(t *testing.T, store *memstore.Store, cfg core.Config, elections ...string) *process {
	t.Helper()
	p := &process{t: t, id: cfg.ID, client: store.Client(cfg.ID, memstore.Faults{})}
	p.results = map[uint64]core.Result{}
	p.run(p.client, cfg)
	p.shell.Do(core.Join{})
	for _, e := range elections {
		p.shell.Do(core.Campaign{Election: e})
	}
	return p
}

func (p *process) run(store driver.Store, cfg core.Config) {
	p.shell = New(Config{
		Core: core.New(cfg, Source{}), Store: store, Clock: wallClock{time.Now()}, Host: p,
		Cause: func(c core.Cause, _ string) error { return causeError(c) },
		Panicked: func(err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.panics = append(p.panics, err)
		},
	})
}

func (p *process) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// Info is for Host.
func (p *process) Info() ([]byte, bool) { return nil, false }

// Parent is for Host.
func (p *process) Parent(core.Begin) context.Context { return context.Background() }

// Begin is for Host.
func (p *process) Begin(t *Term) {
	p.note("begin %d", t.Epoch)
	p.mu.Lock()
	p.latest = t
	if p.terms == nil {
		p.terms = map[string]*Term{}
	}
	p.terms[t.Election] = t
	stop := p.stop
	p.mu.Unlock()
	go func() {
		<-t.Context().Done()
		p.note("stop %d: %v", t.Epoch, context.Cause(t.Context()))
		if stop != nil {
			stop(t)
		}
		p.shell.Do(core.DutyStopped{Election: t.Election, Epoch: t.Epoch})
	}()
}

// End is for Host.
func (p *process) End(*Term, core.End) {}

// Stepped is for Host.
func (p *process) Stepped(*core.Core) {}

// Handle is for Host.
func (p *process) Handle(e core.Effect) {
	if p.bomb.Load() {
		panic(errBroken)
	}
	p.mu.Lock()
	switch e := e.(type) {
	case core.Event:
		p.events = append(p.events, e)
	case core.Result:
		p.results[e.ID] = e
	}
	block := p.block
	p.mu.Unlock()
	if block != nil {
		<-block
	}
}

// blockHost makes every callback block until the function returned is called.
func (p *process) blockHost() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	block := make(chan struct{})
	p.block = block
	return func() {
		p.mu.Lock()
		p.block = nil
		p.mu.Unlock()
		close(block)
	}
}

func (p *process) leads(election string) bool {
	p.mu.Lock()
	t := p.terms[election]
	p.mu.Unlock()
	return t != nil && t.Valid()
}

// term returns the term that began last.
func (p *process) term() *Term {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// await waits until a condition holds, and fails the test if that takes longer than limit.
func await(t *testing.T, what string, limit time.Duration, ok func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	return time.Since(began)
}

// neverTwo watches two processes, and fails the test if both lead.
func neverTwo(t *testing.T, d time.Duration, a, b *process) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if a.leads("e") && b.leads("e") {
			t.Fatal("two leaders at once")
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

var errBroken = errors.New("broken")

// counting is a store without batches and notifications that counts its calls.
type counting struct {
	driver.Store
	now, most atomic.Int64
}

func (c *counting) enter() func() {
	n := c.now.Add(1)
	for {
		most := c.most.Load()
		if n <= most || c.most.CompareAndSwap(most, n) {
			return func() { c.now.Add(-1) }
		}
	}
}

// Get is for driver.Store.
func (c *counting) Get(ctx context.Context, name string) (driver.Record, error) {
	defer c.enter()()
	return c.Store.Get(ctx, name)
}

// Swap is for driver.Store.
func (c *counting) Swap(ctx context.Context, r driver.Record) (driver.Record, error) {
	defer c.enter()()
	return c.Store.Swap(ctx, r)
}
