package orchestrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
	"github.com/regentd/regent/cmd/regent/internal/poll"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/work"
)

func TestOrchestrator(t *testing.T) {
	t.Run("C08_however_terms_end_each_slot_is_run_once", func(t *testing.T) {
		t.Parallel()
		var polls []poll.Poll
		for i := range 40 {
			polls = append(polls, define(t, fmt.Sprintf("p%d", i), `"interval":"1s"`))
		}

		c := newCluster(t, polls...)
		slow := func(ctx context.Context, _ work.Task) error { // so that some are under way whenever a term ends
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			return nil
		}
		for _, name := range []string{"w1", "w2", "w3"} {
			c.addWorker(name, "tcp", nil, slow)
		}

		leaders := []*leader{c.leader("a"), c.leader("b")}
		ended := 0
		for n := 60; n < 500; n += 60 {
			c.await(func(runs []finished) bool { return len(runs) >= n })
			for _, l := range leaders {
				if t, ok := l.Leads("seat"); ok {
					ended++
					switch ended % 3 {
					case 0:
						t.Fenced(t.Epoch) // at once, with all that is under way
					case 1:
						go func() { _ = l.StepDown(context.Background(), "seat") }()
					default:
						_ = l.Quiesce(context.Background())
						go func() { _ = l.StepDown(context.Background(), "seat") }()
					}
				}
			}
		}

		runs := c.await(func(runs []finished) bool { return len(runs) >= 560 })
		if ended < 4 {
			t.Errorf("only %d terms ended", ended)
		}

		epochs := map[uint64]bool{}
		for _, r := range runs {
			epochs[r.epoch] = true
		}
		if len(epochs) < 4 {
			t.Errorf("runs of %d terms only", len(epochs))
		}

		for _, p := range polls {
			dues := slotsOf(t, runs, p.Name)
			for i := 1; i < len(dues); i++ {
				if dues[i]-dues[i-1] != 1000 {
					t.Errorf("%s: %d follows %d", p.Name, dues[i], dues[i-1])
				}
			}
		}
	})

	t.Run("a_slot_of_a_worker_that_left_goes_to_another", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, define(t, "p", `"interval":"1s","timeout":"1s"`))
		begun := make(chan string, 100)
		hang := func(name string) func(context.Context, work.Task) error {
			return func(ctx context.Context, t work.Task) error {
				select {
				case begun <- name + " " + t.ID:
				default:
				}
				if name == "w1" {
					<-ctx.Done()
				}
				return nil
			}
		}

		w1 := c.addWorker("w1", "tcp", nil, hang("w1"))
		c.leader("a")
		first := <-begun
		c.addWorker("w2", "tcp", nil, hang("w2"))
		c.mu.Lock()
		w1.gone = true
		c.mu.Unlock()
		_, id, _ := strings.Cut(first, " ")
		c.await(func(runs []finished) bool {
			return slices.ContainsFunc(runs, func(r finished) bool {
				return r.worker == "w2" && strings.HasPrefix(r.id, id)
			})
		})
	})

	t.Run("a_failed_check_is_retried_on_another_worker", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, define(t, "p", `"interval":"1s","retries":1`))
		c.addWorker("w1", "tcp", nil, func(context.Context, work.Task) error { return errors.New("no") })
		c.addWorker("w2", "tcp", nil, func(context.Context, work.Task) error { return errors.New("no") })
		l := c.leader("a")
		runs := c.await(func(runs []finished) bool { return len(runs) >= 4 })
		if runs[2].worker == runs[3].worker || runs[2].id+"#1" != runs[3].id { // by the second slot both are known
			t.Errorf("got %v", runs)
		}
		for len(c.eventsOf(orchestrate.EventChanged)) == 0 {
			runtime.Gosched()
		}
		v, err := l.Get("p")
		if err != nil || v.State != orchestrate.Down {
			t.Fatalf("%+v %v", v, err)
		}
		if r := v.Results[0]; r.Attempts != 2 || r.Message != "no" {
			t.Errorf("%+v", r)
		}
	})

	t.Run("a_poll_runs_only_on_workers_that_match_and_know_its_kind", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t,
			define(t, "labelled", `"interval":"1s","assign":"label:zone=x"`),
			define(t, "named", `"interval":"1s","assign":"node:w2"`))
		c.addWorker("w1", "tcp", map[string]string{"zone": "x"}, nil)
		c.addWorker("w2", "tcp", map[string]string{"zone": "y"}, nil)
		c.addWorker("w3", "udp", map[string]string{"zone": "x"}, nil) // it does not know the kind
		c.leader("a")
		runs := c.await(func(runs []finished) bool {
			return len(slotsOf(t, runs, "labelled")) > 2 && len(slotsOf(t, runs, "named")) > 2
		})
		for _, r := range runs {
			if strings.HasPrefix(r.id, "labelled") != (r.worker == "w1") {
				t.Errorf("got %v", r)
			}
		}
	})

	t.Run("a_worker_that_cannot_be_reached_is_not_used", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, define(t, "p", `"interval":"1s"`))
		c.addWorker("w1", "tcp", nil, nil).server.Close()
		c.addWorker("w2", "tcp", nil, nil)
		c.leader("a")
		c.await(func(runs []finished) bool { return len(runs) >= 2 })
	})

	t.Run("polls_are_changed_enabled_and_removed_while_they_run", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.addWorker("w1", "tcp", nil, nil)
		l := c.leader("a")
		ctx := t.Context()
		put := func(p poll.Poll) (bool, error) {
			l.Await(ctx)
			return l.Put(ctx, p, 0)
		}
		if created, err := put(define(t, "p", `"interval":"1s"`)); !created || err != nil {
			t.Fatal(created, err)
		}
		c.await(func(runs []finished) bool { return len(runs) >= 1 })
		if created, err := put(define(t, "p", `"interval":"1s","enabled":false`)); created || err != nil {
			t.Fatal(created, err)
		}
		if v, err := l.Get("p"); err != nil || !v.Next.IsZero() {
			t.Errorf("%+v %v", v, err)
		}
		if r, err := l.RunNow(ctx, "p", 0); err != nil || r.Outcome != "ok" || !strings.Contains(r.Slot, "now-") {
			t.Errorf("%+v %v", r, err)
		}
		if err := l.Remove(ctx, "p", 0); err != nil {
			t.Error(err)
		}
		if _, err := l.RunNow(ctx, "p", 0); !errors.Is(err, orchestrate.ErrNoPoll) {
			t.Error(err)
		}
		if all, err := l.List(false); err != nil || len(all) != 0 {
			t.Errorf("%v %v", all, err)
		}
	})
}

// goroutineStore is a store that checks all goroutines whenever the election is released.
type goroutineStore struct {
	driver.Store
	released atomic.Int32
	left     atomic.Value
}

func (s *goroutineStore) Swap(ctx context.Context, l driver.Record) (driver.Record, error) {
	if l.Name == "seat" && l.Vacant() && l.Epoch > 0 {
		for _, g := range goroutinesOfATerm() {
			s.left.Store(g)
		}
		s.released.Add(1)
	}
	return s.Store.Swap(ctx, l)
}

// A goroutine of a term, and one of a link of its pool, has a method of these types on its stack.
const (
	termGoroutine = "orchestrate.(*term)"
	linkGoroutine = "work.(*link)"
)

// goroutinesOfATerm returns the stacks of goroutines that a term and its pool run, by the type whose methods they run.
func goroutinesOfATerm() map[string]string {
	b := make([]byte, 4<<20)
	b = b[:runtime.Stack(b, true)]
	found := map[string]string{}
	for _, g := range strings.Split(string(b), "\n\n") {
		for _, of := range []string{termGoroutine, linkGoroutine, "work.(*Pool)"} {
			if strings.Contains(g, of) {
				found[of] = g
			}
		}
	}
	return found
}

func TestNothingIsLeftOfATerm(t *testing.T) {
	c := newCluster(t, define(t, "p", `"interval":"1s"`), define(t, "q", `"interval":"1s"`))
	watch := &goroutineStore{Store: c.store}
	c.store = watch
	var active atomic.Int32
	begun := make(chan struct{}, 100)
	w := c.addWorker("w1", "tcp", nil, func(ctx context.Context, _ work.Task) error {
		begun <- struct{}{}
		<-ctx.Done() // under way when the term ends
		return nil
	})
	inner := w.server.Config.Handler
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		active.Add(1)
		defer active.Add(-1)
		inner.ServeHTTP(rw, r)
	})
	l := c.leader("a")

	for round := range 3 {
		<-begun
		if found := goroutinesOfATerm(); found[termGoroutine] == "" || found[linkGoroutine] == "" {
			t.Fatal("no goroutine of a term, or of a link, is found while they run: were the types renamed?")
		}
		if err := l.StepDown(t.Context(), "seat"); err != nil {
			t.Fatal(err)
		}
		if n := watch.released.Load(); n != int32(round)+1 {
			t.Fatalf("%d releases", n)
		}
		if g := watch.left.Load(); g != nil {
			t.Fatalf("when the election was released, this goroutine was left:\n%s", g)
		}
		for len(begun) > 0 {
			<-begun
		}
		if err := l.Resume(t.Context(), "seat"); err != nil {
			t.Log(err)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	c := newCluster(t, define(t, "p", `"interval":"1h","kind":"unheard-of"`), define(t, "other", `"interval":"1s"`))
	var asked atomic.Int32
	w := c.addWorker("w1", "tcp", nil, nil)
	inner := w.server.Config.Handler
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/results") {
			asked.Add(1)
		}
		inner.ServeHTTP(rw, r)
	})
	l := c.leader("a")
	c.await(func(runs []finished) bool { return len(runs) > 0 })
	asked.Store(0)
	r, err := l.RunNow(t.Context(), "p", 0)
	if err != nil || r.Outcome != "error" || !strings.Contains(r.Message, "unheard-of") {
		t.Errorf("%+v %v", r, err)
	}
	if n := asked.Load(); n > 20 {
		t.Errorf("the worker was asked %d times", n)
	}
	c.await(func(runs []finished) bool { return len(runs) > 3 }) // nothing else waits for it
}
