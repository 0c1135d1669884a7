package poll_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/check"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// stage is a store, workers with real servers, and leaders that conduct one after the other.
type stage struct {
	t     *testing.T
	store driver.Store
	fixed []poll.Poll

	mu      sync.Mutex
	workers map[string]*worker
	runs    []ran
	events  []regent.Event
	rev     int
	changed chan struct{} // closed and replaced with each run
}

// ran is a run of a slot that came to its end.
type ran struct {
	id     string
	worker string
	epoch  uint64
}

// worker makes whatever check it is asked for, as do says.
type worker struct {
	*work.Worker
	name   string
	server *httptest.Server
	labels map[string]string
	gone   bool
}

func newStage(t *testing.T, polls ...poll.Poll) *stage {
	return &stage{t: t, store: memstore.New(), fixed: polls, workers: map[string]*worker{}, changed: make(chan struct{})}
}

// hire adds a worker for a kind. Its checks succeed, unless do says otherwise.
func (s *stage) hire(name, kind string, labels map[string]string, do func(context.Context, work.Task) error) *worker {
	s.t.Helper()
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
		s.mu.Lock()
		s.runs = append(s.runs, ran{t.ID, name, t.Epoch})
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		return json.Marshal(found)
	})
	w.server = httptest.NewServer(w)
	s.mu.Lock()
	s.workers[name] = w
	s.mu.Unlock()
	s.t.Cleanup(func() {
		w.server.CloseClientConnections()
		w.server.Close()
		_ = w.Close()
	})
	return w
}

// members lists the workers as their registers would.
func (s *stage) members(context.Context) ([]regent.MemberView, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []regent.MemberView
	for _, w := range s.workers {
		v := regent.MemberView{ID: w.name, Addr: strings.TrimPrefix(w.server.URL, "http://"), Incarnation: "1", Lease: 6 * time.Second, Rev: fmt.Sprint(s.rev)}
		v.Worker, v.Labels = true, w.labels
		if w.gone {
			v.Incarnation = ""
		}
		s.rev++
		all = append(all, v)
	}
	return all, nil
}

// leader is a member that conducts while it leads.
type leader struct {
	*regent.Member
	*poll.Orchestrator
	stop func()
}

func (s *stage) leader(id string) *leader {
	cfg := regent.Cluster() // but quick to stand again
	cfg.HeartbeatInterval, cfg.RenewInterval, cfg.ElectionInterval, cfg.ElectionIntervalMax = 250*time.Millisecond, 250*time.Millisecond, 250*time.Millisecond, 250*time.Millisecond
	l := &leader{Member: &regent.Member{Store: s.store, ID: id, Config: cfg}}
	l.Orchestrator = poll.NewOrchestrator(poll.Options{Store: s.store, Election: "seat", Leader: id, Fixed: s.fixed, Members: s.members, Look: 50 * time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Emit: func(e regent.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		}})
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Member.Run(ctx, regent.Duty{Election: "seat", Name: "polls", Run: l.Orchestrator.Run})
	}()
	l.stop = sync.OnceFunc(func() { cancel(); <-done })
	s.t.Cleanup(l.stop)
	return l
}

// await waits until the runs are as they should be.
func (s *stage) await(good func([]ran) bool) []ran {
	s.t.Helper()
	limit := time.After(60 * time.Second)
	for {
		s.mu.Lock()
		runs, changed := slices.Clone(s.runs), s.changed
		s.mu.Unlock()
		if good(runs) {
			return runs
		}
		select {
		case <-changed:
		case <-limit:
			s.t.Fatalf("it never came: %v", runs)
		}
	}
}

func (s *stage) kinds(kind string) []regent.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.events), func(e regent.Event) bool { return e.Kind != kind })
}

func define(t *testing.T, name, rest string) poll.Poll {
	t.Helper()
	p, err := poll.Decode(name, []byte(`{"target":"127.0.0.1:1",`+kindOf(rest)+rest+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// slotsOf returns the due times of a poll's runs, in order.
func slotsOf(t *testing.T, runs []ran, name string) []int64 {
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
