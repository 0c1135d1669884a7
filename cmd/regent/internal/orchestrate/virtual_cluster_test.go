package orchestrate_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/cmd/regent/internal/schedule"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// virtualCluster is a cluster in virtual time: workers are called without a network, and the clock of each leader can
// be set.
type virtualCluster struct {
	eventLog
	t     *testing.T
	store *memstore.Store
	fixed []poll.Poll

	mu      sync.Mutex
	workers map[string]*work.Worker
	runs    []started
	down    atomic.Bool  // what the checks find
	deaf    atomic.Bool  // the answers of w1 are lost
	watches atomic.Int32 // of the members, at the moment
}

// started is a run of a slot, with its time by the clock that is never set.
type started struct {
	id  string
	due time.Time
	at  time.Time
}

func newVirtualCluster(t *testing.T, polls ...poll.Poll) *virtualCluster {
	h := &virtualCluster{t: t, store: memstore.New(), fixed: polls, workers: map[string]*work.Worker{}}
	for _, name := range []string{"w1", "w2"} {
		w := &work.Worker{Election: "seat"}
		w.Handle("tcp", func(_ context.Context, t work.Task) (json.RawMessage, error) {
			id, _ := schedule.ParseSlot(t.ID)
			h.mu.Lock()
			h.runs = append(h.runs, started{t.ID, id.DueTime(), time.Now()})
			h.mu.Unlock()
			return json.Marshal(check.Outcome{OK: !h.down.Load(), Latency: time.Millisecond})
		})
		h.workers[name] = w
	}
	return h
}

// RoundTrip calls a worker.
func (h *virtualCluster) RoundTrip(r *http.Request) (*http.Response, error) {
	w := h.workers[r.URL.Hostname()]
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if h.deaf.Load() && r.URL.Hostname() == "w1" {
		return nil, errors.New("connection reset by peer")
	}
	return rec.Result(), nil
}

// watchMembers yields the workers, as [regent.Member.WatchMembers] does.
func (h *virtualCluster) watchMembers(ctx context.Context) iter.Seq2[[]regent.MemberState, error] {
	h.watches.Add(1)
	context.AfterFunc(ctx, func() { h.watches.Add(-1) })
	return watch(ctx, time.Second, func() []regent.MemberState {
		h.mu.Lock()
		defer h.mu.Unlock()
		var all []regent.MemberState
		for name := range h.workers {
			all = append(all, aliveWorker(name, name+":1", nil))
		}
		return all
	})
}

// skewedLeader is a leader whose clock is wrong by an offset.
type skewedLeader struct {
	*orchestrate.Orchestrator
	client *memstore.Client
	offset atomic.Int64
	stop   func()
}

func (n *skewedLeader) set(d time.Duration) { n.offset.Store(int64(d)) }

func (h *virtualCluster) leader(id string, offset time.Duration) *skewedLeader {
	n := &skewedLeader{}
	n.set(offset)
	n.client = h.store.Client(id, memstore.Faults{})
	m := &regent.Member{Store: n.client, ID: id, Config: regent.Cluster()}
	n.Orchestrator = orchestrate.New(orchestrate.Options{
		Store:    n.client,
		Election: "seat",
		Leader:   id,
		Fixed:    h.fixed,
		Members:  h.watchMembers,
		Pool:     work.Options{Client: &http.Client{Transport: h}},
		Log:      slog.New(slog.DiscardHandler),
		Now:      func() time.Time { return time.Now().Add(time.Duration(n.offset.Load())) },
		Emit:     h.emit,
	})

	n.stop = runMember(h.t, m, n.Orchestrator.Run)
	return n
}

// take returns what has run since the last call.
func (h *virtualCluster) take() []started {
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := h.runs
	h.runs = nil
	return runs
}

func (h *virtualCluster) close() {
	for _, w := range h.workers {
		_ = w.Close()
	}
}

// longest returns the longest time without a run, from a time on until now.
func longest(runs []started, from time.Time) (gap time.Duration) {
	for _, r := range runs {
		gap = max(gap, r.at.Sub(from))
		from = r.at
	}
	return max(gap, time.Since(from))
}

// most returns how often the slot that ran most often did.
func most(runs []started) (n int) {
	times := map[int64]int{}
	for _, r := range runs {
		times[r.due.UnixMilli()]++
		n = max(n, times[r.due.UnixMilli()])
	}
	return n
}
