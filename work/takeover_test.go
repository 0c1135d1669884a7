package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// finder records the calls of Found and Ready, in order.
type finder struct {
	mu    sync.Mutex
	found map[string]int
	each  chan work.Result
	ready chan []string
}

func newFinder() *finder {
	return &finder{found: map[string]int{}, each: make(chan work.Result, 1<<16), ready: make(chan []string, 16)}
}

func (f *finder) options(o work.Options) work.Options {
	o.Found = func(_ string, r work.Result) {
		f.mu.Lock()
		f.found[r.ID]++
		f.mu.Unlock()
		f.each <- r
	}

	o.Ready = func(_ string, running []string) {
		slices.Sort(running)
		f.ready <- running
	}

	return o
}

func (f *finder) times(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found[id]
}

func TestTakeover(t *testing.T) {
	leaks(t)

	t.Run("a_new_term_finds_what_ended_in_the_last_one_and_what_still_runs_and_hears_how_that_ends",
		func(t *testing.T) {
			ran := newRan()
			w := worker(ran)
			addr := strings.TrimSuffix(serve(t, w), "/v1/tasks")
			store := memstore.New()
			a := lead(t, store, "a")
			p := a.pool(t, work.Options{})
			p.Add("w", addr)

			for _, id := range []string{"x", "y"} {
				next(t, send(t, p, "w", id))
			}

			ran.gate = make(chan struct{})
			runs := send(t, p, "w", "runs")
			for next(t, ran.begun) != "runs" {
			}

			p.Close()
			a.stop()
			if e := next(t, runs); !errors.Is(e.err, work.ErrEnded) {
				t.Errorf("ended %+v", e)
			}

			f := newFinder()
			b := lead(t, store, "b")
			p = b.pool(t, f.options(work.Options{}))
			p.Add("w", addr)
			if running := next(t, f.ready); !slices.Equal(running, []string{"runs"}) || f.times("x") != 1 ||
				f.times("y") != 1 || f.times("runs") != 0 {
				t.Errorf("%v run, found %v", running, f.found)
			}

			if r := next(t, f.each); r.ID != "x" || r.Epoch != a.Epoch || r.Outcome != work.Done ||
				string(r.Data) != `"did x"` {
				t.Errorf("found %+v", r)
			}

			next(t, f.each)
			// Nothing was sent in this term, and Found gets it all the same.
			close(ran.gate)
			if r := next(t, f.each); r.ID != "runs" || r.Outcome != work.Done {
				t.Errorf("found %+v", r)
			}
		})

	t.Run("however_long_a_worker_was_out_of_reach_it_reports_what_ended_before_the_term", func(t *testing.T) {
		w := worker(newRan())
		var refused atomic.Int32
		reached := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			select {
			case <-reached:
				w.ServeHTTP(rw, r)
			default:
				if refused.Add(1) == 6 { // each after a longer pause: all together longer than Recall
					close(reached)
				}
				rw.WriteHeader(http.StatusBadGateway)
			}
		}))

		t.Cleanup(server.Close)
		t.Cleanup(func() { _ = w.Close() })
		store := memstore.New()
		a := lead(t, store, "a")
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/v1/tasks",
			strings.NewReader(batch(a.Epoch, 0, task("x")))))

		if rec.Code != 200 {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}

		for w.Stats().Outcomes[work.Done] < 1 {
			<-time.After(time.Millisecond)
		}

		a.stop()
		f := newFinder()
		p := lead(t, store, "b").pool(t, f.options(work.Options{Recall: 2500 * time.Millisecond}))
		p.Add("w", server.URL)
		next(t, f.ready)

		if f.times("x") != 1 {
			t.Errorf("found %v", f.found)
		}
	})

	t.Run("thousands_of_results_come_in_pages_each_once_and_before_Ready", func(t *testing.T) {
		const n = 3500
		ran := newRan()
		w := worker(ran)
		w.Queue = n
		url := serve(t, w)
		var tasks []string

		for i := range n {
			if tasks = append(tasks, task(fmt.Sprint("t", i))); len(tasks) == 1000 || i == n-1 {
				post(t, url, batch(1, 0, tasks...)).wants(t, 200, "")
				tasks = nil
			}
		}

		for range n {
			next(t, ran.begun)
		}

		for w.Stats().Outcomes[work.Done] < n {
			<-time.After(time.Millisecond)
		}

		if r := post(t, url+"/results", ask(1)); len(r.Results) != 1000 || !r.More || r.Next != 1000 {
			t.Errorf("a page of %d up to %d, more: %v", len(r.Results), r.Next, r.More)
		}

		f := newFinder()
		p := lead(t, memstore.New(), "a").pool(t, f.options(work.Options{}))
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
		next(t, f.ready)
		for i := range n {
			if f.times(fmt.Sprint("t", i)) != 1 {
				t.Fatalf("t%d was found %d times", i, f.times(fmt.Sprint("t", i)))
			}
		}
	})
}

func TestTakeoverForgets(t *testing.T) {
	leaks(t)

	t.Run("what_ended_long_ago_is_not_recalled", func(t *testing.T) {
		ran := newRan()
		w := worker(ran)
		url := serve(t, w)
		post(t, url, batch(1, 0, task("old"))).wants(t, 200, "")
		for len(post(t, url+"/results", ask(1)).Results) == 0 {
		}

		f := newFinder()
		store := memstore.New()
		lead(t, store, "a").stop() // so that its epoch is not that of the task
		p := lead(t, store, "b").pool(t, f.options(work.Options{Recall: time.Nanosecond}))
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))

		if running := next(t, f.ready); len(running) != 0 || len(f.each) != 0 {
			t.Errorf("%v run, found %v", running, f.found)
		}
	})

	t.Run("a_leader_that_was_away_for_longer_than_a_worker_remembers_learns_that_its_task_is_forgotten",
		func(t *testing.T) {
			ran := newRan()
			w := worker(ran)
			w.Keep = 10
			serve(t, w)
			via := newProxy(t, w)
			f := newFinder()

			h := lead(t, memstore.New(), "a")
			p := h.pool(t, f.options(work.Options{}))
			p.Add("w", via.URL)
			next(t, f.ready)
			via.deaf.Store(true)
			via.CloseClientConnections()

			ends := send(t, p, "w", "first")
			next(t, ran.begun)
			for i := range 50 {
				post(t, via.URL+"/v1/tasks", named(h.Incarnation, batch(1, 0, task(fmt.Sprint("t", i))))).wants(t, 200,
					"")
			}

			for w.Stats().Outcomes[work.Done] < 51 {
				<-time.After(time.Millisecond)
			}

			via.deaf.Store(false)
			if e := next(t, ends); !errors.Is(e.err, work.ErrForgotten) {
				t.Errorf("ended %+v", e)
			}

			next(t, f.ready)
			if r := post(t, via.URL+"/v1/tasks/results", named(h.Incarnation, ask(1))); len(r.Results) > 13 {
				t.Errorf("%d results are kept", len(r.Results))
			}
		})
}

func TestTakeoverFences(t *testing.T) {
	leaks(t)

	t.Run("E01_nothing_of_the_last_term_is_taken_after_the_new_one_knows_what_runs", func(t *testing.T) {
		rounds := 150
		if testing.Short() {
			rounds = 20
		}

		for round := range rounds {
			var mu sync.Mutex
			begun := map[string]bool{}
			w := &work.Worker{Election: "seat", Queue: 1 << 16, Concurrency: 4, Keep: 1 << 16}
			w.Handle("do", func(_ context.Context, t work.Task) (json.RawMessage, error) {
				mu.Lock()
				defer mu.Unlock()
				begun[t.ID] = true
				return nil, nil
			})

			url := serve(t, w)
			f := newFinder()
			store := memstore.New()
			first := make(chan regent.Term, 1)
			lost := lead(t, store, "a")
			first <- lost.Term

			stop := make(chan struct{})
			var senders sync.WaitGroup
			for s := range 3 { // careless senders: the term of their epoch is over
				senders.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						default:
							post(t, url,
								batch(lost.Epoch, 0, task(fmt.Sprintf("old/%d/%d/a", s, n)),
									task(fmt.Sprintf("old/%d/%d/b", s, n))))
						}
					}
				})
			}

			lost.stop()
			p := lead(t, store, "b").pool(t, f.options(work.Options{}))
			p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
			running := next(t, f.ready)

			// From here on only tasks that the new leader knows of may run.
			f.mu.Lock()
			known := map[string]bool{}
			for id := range f.found {
				known[id] = true
			}
			f.mu.Unlock()

			for _, id := range running {
				known[id] = true
			}

			// Long enough for each sender to have tried again.
			refused := w.Stats().Stale
			for w.Stats().Stale < refused+12 {
				<-time.After(100 * time.Microsecond)
			}

			close(stop)
			senders.Wait()
			p.Close()
			check(t, w.Close())

			mu.Lock()
			for id := range begun {
				if !known[id] {
					t.Fatalf("round %d: %s ran, and the new leader does not know", round, id)
				}
			}
			mu.Unlock()
		}
	})
}

func TestCallbacks(t *testing.T) {
	leaks(t)

	t.Run("for_one_worker_they_come_one_at_a_time_and_may_use_the_pool", func(t *testing.T) {
		ran := newRan()
		addr := strings.TrimSuffix(serve(t, worker(ran)), "/v1/tasks")
		h := lead(t, memstore.New(), "a")
		var inside sync.Mutex
		once := func() func() {
			if !inside.TryLock() {
				t.Error("two at once")
				return func() {}
			}
			return inside.Unlock
		}

		var p *work.Pool
		made := make(chan struct{})
		p = h.pool(t, work.Options{Batch: 4, Ready: func(string, []string) { <-made; defer once()() }})
		close(made)
		p.Add("w", addr)
		ends := make(chan error, 1000)

		for i := range 200 {
			kind := []string{"do", "undo"}[i%2] // some end with an answer, some with a refusal
			check(t, p.Send("w", work.Task{ID: fmt.Sprint(i), Kind: kind}, func(_ work.Result, err error) {
				defer once()()

				if i < 100 {
					_ = p.Send("w", work.Task{ID: fmt.Sprint("more", i), Kind: "do"},
						func(work.Result, error) { defer once()() })
				}
				p.Workers()
				ends <- err
			}))
		}

		for range 200 {
			if err := next(t, ends); err != nil && !errors.Is(err, work.ErrUnknownKind) {
				t.Error(err)
			}
		}

		p.Add("w", addr+"/")
		p.Remove("w")
	})
}
