package health

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/virtual"
)

const (
	heartbeat = 1500 * time.Millisecond
	lease     = 6 * time.Second
)

// world is a cluster of members that are not real, seen by the monitor of a: what it lists and what it reaches, in virtual time.
type world struct {
	t       *testing.T
	start   time.Time
	opts    Options
	mu      sync.Mutex
	fakes   []*fake
	fail    error // of listings
	events  []regent.Event
	lists   atomic.Int64
	probes  atomic.Int64
	running atomic.Int64 // probes under way
	most    atomic.Int64 // at once
	changed chan driver.Record
}

// ctx is short for what every function here takes.
type ctx = context.Context

// fake is a member. Its heartbeat is computed from the time, so that nothing runs.
type fake struct {
	view   regent.MemberView
	joined time.Time
	silent time.Time // when its heartbeat stopped; zero while it goes on
	phase  time.Duration
	report Report
	slow   time.Duration
	cut    bool
}

func (f *fake) at(now time.Time) regent.MemberView {
	v := f.view
	if !f.silent.IsZero() && now.After(f.silent) {
		now = f.silent
	}
	v.Rev = fmt.Sprintf("%s/%s/%d", v.ID, v.Incarnation, (now.Sub(f.joined)+f.phase)/heartbeat)
	return v
}

// bubble runs f with a world in virtual time.
func bubble(t *testing.T, f func(*world)) {
	t.Helper()
	virtual.Test(t, func(t *testing.T) {
		w := &world{t: t, start: time.Now(), changed: make(chan driver.Record, 1)}
		w.opts = Options{Self: "a", Members: w.list, Probe: w.probe, Changed: w.changed, Emit: func(e regent.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		}}
		f(w)
	})
}

// join adds members, or lets them join again.
func (w *world) join(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		f := &fake{joined: time.Now(), phase: time.Duration(id[0]) * 37 * time.Millisecond, report: Report{Role: "standby", Version: "1", Healthy: true},
			view: regent.MemberView{ID: id, Addr: id + ":1", Incarnation: fmt.Sprintf("%s@%d", id, time.Now().UnixNano()), Lease: lease,
				MemberInfo: regent.MemberInfo{Eligible: true, Healthy: true, Elections: []string{"seat"}}}}
		w.fakes = slices.DeleteFunc(w.fakes, func(f *fake) bool { return f.view.ID == id })
		w.fakes = append(w.fakes, f)
	}
	slices.SortFunc(w.fakes, func(a, b *fake) int { return cmp.Compare(a.view.ID, b.view.ID) })
}

// change changes a member.
func (w *world) change(id string, f func(*fake)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.fakes, func(f *fake) bool { return f.view.ID == id })
	f(w.fakes[i])
}

// die stops a member for good, without a word.
func (w *world) die(id string) {
	w.change(id, func(f *fake) { f.silent, f.cut = time.Now(), true })
}

// leave makes a member's register vacant, as leaving and revoking do.
func (w *world) leave(id string) {
	w.change(id, func(f *fake) { f.view, f.cut = regent.MemberView{ID: id, Lease: lease}, true })
}

func (w *world) list(context.Context) ([]regent.MemberView, error) {
	w.lists.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return nil, w.fail
	}
	var all []regent.MemberView
	for _, f := range w.fakes {
		all = append(all, f.at(time.Now()))
	}
	return all, nil
}

func (w *world) probe(ctx context.Context, v regent.MemberView) (Report, error) {
	w.probes.Add(1)
	for n := w.running.Add(1); ; {
		if most := w.most.Load(); n <= most || w.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer w.running.Add(-1)
	w.mu.Lock()
	i := slices.IndexFunc(w.fakes, func(f *fake) bool { return f.view.ID == v.ID })
	f := *w.fakes[i]
	w.mu.Unlock()
	if f.cut {
		return Report{}, fmt.Errorf("connection refused")
	}
	select {
	case <-time.After(f.slow):
		return f.report, nil
	case <-ctx.Done():
		return Report{}, ctx.Err()
	}
}

// run starts a monitor. Stop ends its term, and waits.
func (w *world) run() (m *Monitor, stop func()) {
	w.t.Helper()
	m, err := New(w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return m, w.runTerm(m, 7)
}

func (w *world) runTerm(m *Monitor, epoch uint64) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx, regent.Term{Election: "seat", Epoch: epoch}) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
}

// log returns the member events so far, as "kind member from>to", and forgets them.
func (w *world) log() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := []string{}
	for _, e := range w.events {
		if e.Kind != EventHealthCheck {
			log = append(log, fmt.Sprintf("%s %s %s>%s", strings.TrimPrefix(e.Kind, "cluster:"), e.Metadata["member"], e.Metadata["from"], e.Metadata["to"]))
		}
	}
	w.events = nil
	return log
}

func (w *world) wantLog(want ...string) {
	w.t.Helper()
	if got := w.log(); !slices.Equal(got, want) {
		w.t.Errorf("after %v: told %q, want %q", time.Since(w.start), got, want)
	}
}

// member returns one member of a snapshot; zero if it is not in it.
func (c Cluster) member(id string) Member {
	for _, m := range c.Members {
		if m.ID == id {
			return m
		}
	}
	return Member{}
}

// await returns how long it takes until a member has a status.
func (w *world) await(m *Monitor, id string, s Status, limit time.Duration) time.Duration {
	w.t.Helper()
	const step = 50 * time.Millisecond
	for took := time.Duration(0); took <= limit; took += step {
		synctest.Wait()
		if m.Snapshot().member(id).Status == s {
			return took
		}
		time.Sleep(step)
	}
	w.t.Fatalf("%s is %+v after %v, want %s", id, m.Snapshot().member(id), limit, s)
	return 0
}
