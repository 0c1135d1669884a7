package health

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
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
	interval = 1500 * time.Millisecond
	lease    = 6 * time.Second
)

// virtualCluster is a cluster of fake members in virtual time, with the monitor of member a.
type virtualCluster struct {
	driver.Store // only List is used

	t       *testing.T
	start   time.Time
	opts    Options
	mu      sync.Mutex
	members []*fakeMember
	fail    error         // of listings
	request time.Duration // how long the request for a listing takes
	answer  time.Duration // how long its answer takes
	events  []regent.Event
	lists   atomic.Int64
	probes  atomic.Int64
	running atomic.Int64 // probes under way
	most    atomic.Int64 // at once
	changed chan driver.Record
}

// fakeMember is a member whose heartbeat is computed from the time.
type fakeMember struct {
	view   regent.MemberView
	joined time.Time
	silent time.Time // when its heartbeat stopped; zero while it continues
	phase  time.Duration
	report Report
	slow   time.Duration
	beats  *uint64 // its heartbeats, if they are not computed
	cut    bool
}

// record returns the register of the member at a time.
func (f *fakeMember) record(prefix string, now time.Time) driver.Record {
	if !f.silent.IsZero() && now.After(f.silent) {
		now = f.silent
	}
	beats := uint64((now.Sub(f.joined) + f.phase) / interval)
	if f.beats != nil {
		beats = *f.beats
	}

	v := f.view
	r := driver.Record{Name: prefix + v.ID, Addr: v.Addr, Duration: v.Lease, Nonce: beats + 1}
	r.Rev = fmt.Sprintf("%s/%s/%d", v.ID, v.Incarnation, beats)
	if v.Incarnation != "" {
		r.Holder = driver.Identity{ID: v.ID, Incarnation: v.Incarnation}
		r.Data, _ = json.Marshal(v.MemberInfo)
	}

	return r
}

// runVirtual runs a function with a cluster in virtual time.
func runVirtual(t *testing.T, f func(*virtualCluster)) {
	t.Helper()
	virtual.Test(t, func(t *testing.T) {
		w := &virtualCluster{t: t, start: time.Now(), changed: make(chan driver.Record, 1)}
		w.opts = Options{
			Self:      "a",
			NewRoster: (&regent.Member{Store: w}).NewRoster,
			Probe:     w.probe,
			Changed:   w.changed,
			Emit: func(e regent.Event) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.events = append(w.events, e)
			},
		}
		f(w)
	})
}

// candidate returns the view of a healthy candidate.
func candidate(id string) regent.MemberView {
	info := regent.MemberInfo{Eligible: true, Healthy: true, Elections: []string{"seat"}}
	return regent.MemberView{ID: id, MemberInfo: info}
}

// join adds members, or lets them join again.
func (w *virtualCluster) join(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		f := &fakeMember{
			joined: time.Now(),
			phase:  time.Duration(id[0]) * 37 * time.Millisecond,
			report: Report{Role: "standby", Version: "1", Healthy: true},
			view:   candidate(id),
		}
		f.view.Addr = id + ":1"
		f.view.Incarnation = fmt.Sprintf("%s@%d", id, time.Now().UnixNano())
		f.view.Lease = lease
		w.members = slices.DeleteFunc(w.members, func(f *fakeMember) bool { return f.view.ID == id })
		w.members = append(w.members, f)
	}
	slices.SortFunc(w.members, func(a, b *fakeMember) int { return cmp.Compare(a.view.ID, b.view.ID) })
}

// change changes a member.
func (w *virtualCluster) change(id string, f func(*fakeMember)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.members, func(f *fakeMember) bool { return f.view.ID == id })
	f(w.members[i])
}

// die stops a member, which does not leave.
func (w *virtualCluster) die(id string) {
	w.change(id, func(f *fakeMember) {
		f.silent = time.Now()
		f.cut = true
	})
}

// leave makes the register of a member vacant, as leaving and revoking do.
func (w *virtualCluster) leave(id string) {
	w.change(id, func(f *fakeMember) {
		f.view = regent.MemberView{ID: id, Lease: lease}
		f.cut = true
	})
}

// List implements [driver.Store]: it yields the registers as they are between the request and the answer.
func (w *virtualCluster) List(ctx context.Context, prefix string) iter.Seq2[driver.Record, error] {
	return func(yield func(driver.Record, error) bool) {
		w.lists.Add(1)
		w.mu.Lock()
		request := w.request
		answer := w.answer
		w.mu.Unlock()

		err := sleep(ctx, request)
		all, failed := w.registers(prefix)
		if err = cmp.Or(err, failed, sleep(ctx, answer)); err != nil {
			yield(driver.Record{}, err)
			return
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (w *virtualCluster) registers(prefix string) ([]driver.Record, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []driver.Record
	for _, f := range w.members {
		all = append(all, f.record(prefix, time.Now()))
	}

	return all, w.fail
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *virtualCluster) probe(ctx context.Context, v regent.MemberView) (Report, error) {
	w.probes.Add(1)
	for n := w.running.Add(1); ; {
		if most := w.most.Load(); n <= most || w.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer w.running.Add(-1)

	w.mu.Lock()
	i := slices.IndexFunc(w.members, func(f *fakeMember) bool { return f.view.ID == v.ID })
	f := *w.members[i]
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

// run starts a monitor. stop ends its term, and waits.
func (w *virtualCluster) run() (m *Monitor, stop func()) {
	w.t.Helper()
	m, err := New(w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return m, w.runTerm(m, 7)
}

func (w *virtualCluster) runTerm(m *Monitor, epoch uint64) (stop func()) {
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

// memberEvents returns the events about members since the last call, as "kind member from>to".
func (w *virtualCluster) memberEvents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := []string{}
	for _, e := range w.events {
		if e.Kind == EventHealthCheck {
			continue
		}
		kind := strings.TrimPrefix(string(e.Kind), "cluster:")
		data := e.Metadata
		events = append(events, fmt.Sprintf("%s %s %s>%s", kind, data["member"], data["from"], data["to"]))
	}
	w.events = nil

	return events
}

// wantEvents checks the events about members since the last call.
func (w *virtualCluster) wantEvents(want ...string) {
	w.t.Helper()
	if got := w.memberEvents(); !slices.Equal(got, want) {
		w.t.Errorf("after %v: events %q, want %q", time.Since(w.start), got, want)
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
func (w *virtualCluster) await(m *Monitor, id string, s Status, limit time.Duration) time.Duration {
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
