package orchestrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// cluster is a store, workers with real servers, and members that lead one after the other.
type cluster struct {
	eventLog
	t     *testing.T
	store driver.Store
	fixed []poll.Poll

	mu      sync.Mutex
	workers map[string]*worker
	runs    []finished
	changed chan struct{} // closed and replaced with each run
}

// finished is a run of a slot that has ended.
type finished struct {
	id     string
	worker string
	epoch  uint64
}

// worker makes checks of one kind.
type worker struct {
	*work.Worker
	name   string
	server *httptest.Server
	labels map[string]string
	gone   bool
}

func newCluster(t *testing.T, polls ...poll.Poll) *cluster {
	return &cluster{
		t:       t,
		store:   memstore.New(),
		fixed:   polls,
		workers: map[string]*worker{},
		changed: make(chan struct{}),
	}
}

// addWorker starts a worker for a kind. Its checks succeed, unless do returns an error.
func (c *cluster) addWorker(name, kind string, labels map[string]string,
	do func(context.Context, work.Task) error) *worker {
	c.t.Helper()
	w := &worker{Worker: &work.Worker{Election: "seat"}, name: name, labels: labels}
	w.Handle(kind, func(ctx context.Context, t work.Task) (json.RawMessage, error) {
		found := check.Outcome{OK: true, Latency: time.Millisecond}
		if do != nil {
			if err := do(ctx, t); err != nil {
				found = check.Outcome{Message: err.Error()}
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.mu.Lock()
		c.runs = append(c.runs, finished{t.ID, name, t.Epoch})
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		return json.Marshal(found)
	})
	w.server = httptest.NewServer(w)
	c.mu.Lock()
	c.workers[name] = w
	c.mu.Unlock()
	c.t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		_ = w.Close()
	})
	return w
}

// watchMembers yields the workers, as [regent.Member.WatchMembers] does.
func (c *cluster) watchMembers(ctx context.Context) iter.Seq2[[]regent.MemberState, error] {
	return watch(ctx, 50*time.Millisecond, func() []regent.MemberState {
		c.mu.Lock()
		defer c.mu.Unlock()
		var all []regent.MemberState
		for _, w := range c.workers {
			m := aliveWorker(w.name, strings.TrimPrefix(w.server.URL, "http://"), w.labels)
			if w.gone {
				m.Incarnation = ""
				m.Alive = false
			}
			all = append(all, m)
		}
		return all
	})
}

// leader is a member that orchestrates polls while it leads.
type leader struct {
	*regent.Member
	*orchestrate.Orchestrator
	stop func()
}

func (c *cluster) leader(id string) *leader {
	const interval = 250 * time.Millisecond // to campaign again soon
	cfg := regent.Cluster()
	cfg.HeartbeatInterval = interval
	cfg.RenewInterval = interval
	cfg.ElectionInterval = interval
	cfg.ElectionIntervalMax = interval

	l := &leader{Member: &regent.Member{Store: c.store, ID: id, Config: cfg}}
	l.Orchestrator = orchestrate.New(orchestrate.Options{
		Store:    c.store,
		Election: "seat",
		Leader:   id,
		Fixed:    c.fixed,
		Members:  c.watchMembers,
		Log:      slog.New(slog.DiscardHandler),
		Emit:     c.emit,
	})

	l.stop = runMember(c.t, l.Member, l.Orchestrator.Run)
	c.t.Cleanup(l.stop)
	return l
}

// await waits until the runs are as they should be.
func (c *cluster) await(good func([]finished) bool) []finished {
	c.t.Helper()
	limit := time.After(60 * time.Second)
	for {
		c.mu.Lock()
		runs := slices.Clone(c.runs)
		changed := c.changed
		c.mu.Unlock()
		if good(runs) {
			return runs
		}
		select {
		case <-changed:
		case <-limit:
			c.t.Fatalf("the runs never became as expected: %v", runs)
		}
	}
}

// define returns the poll with a name that the rest of its JSON definition describes.
func define(t *testing.T, name, rest string) poll.Poll {
	t.Helper()
	p, err := poll.Decode(name, []byte(`{"target":"127.0.0.1:1",`+kindOf(rest)+rest+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// slotsOf returns the due times of a poll's runs, in order.
func slotsOf(t *testing.T, runs []finished, name string) []int64 {
	t.Helper()
	var dues []int64
	for _, r := range runs {
		var due int64
		id, _, _ := strings.Cut(r.id, "#")
		if rest, ok := strings.CutPrefix(id, name+"/"); ok {
			if _, err := fmt.Sscan(rest, &due); err != nil {
				t.Fatal(err)
			}
			dues = append(dues, due)
		}
	}
	slices.Sort(dues)
	return dues
}

// kindOf returns the JSON of the kind tcp, unless the rest of a definition has a kind.
func kindOf(rest string) string {
	if strings.Contains(rest, `"kind"`) {
		return ""
	}

	return `"kind":"tcp",`
}
