package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// proxy stands between a pool and a worker that may be replaced behind it.
type proxy struct {
	*httptest.Server
	mu      sync.Mutex
	to      http.Handler
	swallow atomic.Int32 // answers to batches that are lost
	drop    atomic.Int32 // batches that are lost
	lost    chan struct{}
	deaf    atomic.Bool // queries get no answer
}

func newProxy(t testing.TB, to http.Handler) *proxy {
	p := &proxy{to: to, lost: make(chan struct{}, 100)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		to := p.to
		p.mu.Unlock()

		if p.deaf.Load() && strings.HasSuffix(r.URL.Path, "/results") {
			panic(http.ErrAbortHandler)
		}

		if strings.HasSuffix(r.URL.Path, "/results") {
			to.ServeHTTP(rw, r)
			return
		}

		if p.drop.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}

		if p.swallow.Add(-1) < 0 {
			to.ServeHTTP(rw, r)
			return
		}

		to.ServeHTTP(httptest.NewRecorder(), r)
		p.lost <- struct{}{}
		panic(http.ErrAbortHandler)
	}))

	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

// restart puts another worker behind the proxy, as if the first one had died.
func (p *proxy) restart(to http.Handler) {
	p.mu.Lock()
	p.to = to
	p.mu.Unlock()
	p.CloseClientConnections()
}

// aTaskRunsOnce wants a task to have ended, and to have run once.
func aTaskRunsOnce(t *testing.T, ran *ran, id string, ends <-chan end) {
	t.Helper()
	e := next(t, ends)
	if e.err != nil || e.Outcome != work.Done || string(e.Data) != fmt.Sprintf("%q", "did "+id) || e.ID != id ||
		e.Kind != "do" || e.Began.IsZero() {
		t.Errorf("ended %+v", e)
	}

	if n := ran.count(id); n != 1 {
		t.Errorf("it ran %d times", n)
	}

	if len(ends) > 0 {
		t.Errorf("it ended again: %+v", <-ends)
	}
}

func TestATaskRunsOnce(t *testing.T) {
	leaks(t)

	t.Run("delivered_many_times_at_once", func(t *testing.T) {
		ran := newRan()
		w := worker(ran)
		url := serve(t, w)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { post(t, url, batch(1, 0, task("a"), task("b"), task("a"))).wants(t, 200, "") })
		}

		wg.Wait()
		if s := w.Stats(); ran.count("a") > 1 || ran.count("b") > 1 || s.Taken != 2 || s.Duplicates != 58 {
			t.Errorf("a %d, b %d, %+v", ran.count("a"), ran.count("b"), s)
		}
	})

	t.Run("sent_again_after_its_end_and_the_sender_gets_its_result", func(t *testing.T) {
		ran, found := newRan(), make(chan string, 10)
		w := worker(ran)
		url := serve(t, w)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{Found: func(_ string, r work.Result) { found <- r.ID }})
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
		for range 3 {
			aTaskRunsOnce(t, ran, "x", send(t, p, "w", "x"))
		}

		if len(found) > 0 {
			t.Errorf("found %s", <-found)
		}
	})

	t.Run("sent_by_the_next_term_after_its_end", func(t *testing.T) {
		ran := newRan()
		w := worker(ran)
		addr := strings.TrimSuffix(serve(t, w), "/v1/tasks")
		store := memstore.New()
		a := lead(t, store, "a")
		p := a.pool(t, work.Options{})
		p.Add("w", addr)

		aTaskRunsOnce(t, ran, "x", send(t, p, "w", "x"))
		p.Close()
		a.stop()
		ready := make(chan []string, 1)

		// It ended too long ago to be reported by itself.
		p = lead(t, store, "b").pool(t, work.Options{Recall: 1,
			Ready: func(_ string, running []string) { ready <- running }})
		p.Add("w", addr)
		next(t, ready)
		aTaskRunsOnce(t, ran, "x", send(t, p, "w", "x"))
	})
}

func TestATaskRunsOnceOverLosses(t *testing.T) {
	leaks(t)

	t.Run("although_answers_are_lost", func(t *testing.T) {
		ran, found := newRan(), make(chan string, 10)
		w := worker(ran)
		serve(t, w)
		via := newProxy(t, w)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{Found: func(_ string, r work.Result) { found <- r.ID }})
		via.swallow.Store(3)

		p.Add("w", via.URL)
		ends := send(t, p, "w", "x")
		aTaskRunsOnce(t, ran, "x", ends)
		next(t, via.lost)
		aTaskRunsOnce(t, ran, "y", send(t, p, "w", "y"))

		if len(found) > 0 {
			t.Errorf("found %s", <-found)
		}
	})

	t.Run("although_many_requests_are_lost", func(t *testing.T) {
		for range 5 {
			ran := newRan()
			w := worker(ran)
			serve(t, w)
			via := newProxy(t, w)
			ready := make(chan struct{}, 1)
			p := lead(t, memstore.New(), "a").pool(t,
				work.Options{Batch: 4, Ready: func(string, []string) { ready <- struct{}{} }})
			p.Add("w", via.URL)

			next(t, ready)
			via.drop.Store(4)
			var all []<-chan end
			for i := range 16 {
				all = append(all, send(t, p, "w", fmt.Sprint("x", i)))
			}

			for i, ends := range all {
				aTaskRunsOnce(t, ran, fmt.Sprint("x", i), ends)
			}

			p.Close()
		}
	})
}

func TestATaskRunsOnceOverRestarts(t *testing.T) {
	leaks(t)

	t.Run("over_a_restart_with_a_journal_and_what_ran_is_interrupted", func(t *testing.T) {
		ran := newRan()
		journal := filepath.Join(t.TempDir(), "journal")
		w := worker(ran)
		w.Journal = journal
		via := newProxy(t, w)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w", via.URL)

		aTaskRunsOnce(t, ran, "x", send(t, p, "w", "x"))
		ran.gate = make(chan struct{})
		z := send(t, p, "w", "z")
		for next(t, ran.begun) != "z" {
		}

		// The process dies: its last writes are lost.
		again := worker(ran)
		again.Journal = copied(t, journal)
		serve(t, again)
		via.restart(again)

		if e := next(t, z); e.err != nil || e.Outcome != work.Interrupted || e.Error == "" || e.Epoch != 1 {
			t.Errorf("z ended %+v", e)
		}

		for _, id := range []string{"x", "z"} {
			if e := next(t, send(t, p, "w", id)); e.err != nil || ran.count(id) != 1 {
				t.Errorf("%s ended %+v, and ran %d times", id, e, ran.count(id))
			}
		}

		if s := again.Stats(); s.Taken != 0 || s.Duplicates < 2 || s.Outcomes[work.Done] != 0 ||
			s.Outcomes[work.Interrupted] != 1 {
			t.Errorf("stats %+v", s)
		}

		close(ran.gate)
		check(t, w.Close())
	})

	t.Run("over_a_restart_without_a_journal_and_what_ran_is_forgotten", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		via := newProxy(t, w)
		ready := make(chan []string, 10)
		p := lead(t, memstore.New(), "a").pool(t,
			work.Options{Ready: func(_ string, running []string) { ready <- running }})
		p.Add("w", via.URL)

		if running := next(t, ready); len(running) != 0 {
			t.Errorf("%v run", running)
		}

		z := send(t, p, "w", "z")
		next(t, ran.begun)

		// The answer to a second one is lost, and then the process dies: it is unknown whether it has run.
		via.swallow.Store(1)
		y := send(t, p, "w", "y")
		next(t, via.lost)
		next(t, ran.begun)
		again := worker(ran)
		serve(t, again)

		via.restart(again)
		for id, ends := range map[string]<-chan end{"z": z, "y": y} {
			if e := next(t, ends); !errors.Is(e.err, work.ErrForgotten) || ran.count(id) != 1 {
				t.Errorf("%s ended %+v, and ran %d times", id, e, ran.count(id))
			}
		}

		if running := next(t, ready); len(running) != 0 {
			t.Errorf("%v run", running)
		}

		close(ran.gate)
		check(t, w.Close())
	})
}

func TestATaskRunsOnceBehindAGateway(t *testing.T) {
	leaks(t)

	t.Run("and_not_elsewhere_although_a_gateway_has_given_up", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		target, err := url.Parse(serve(t, w))
		check(t, err)
		target.Path = ""

		var bad atomic.Int32
		gateway := httputil.NewSingleHostReverseProxy(target)
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/results") || bad.Add(1) > 2 {
				gateway.ServeHTTP(rw, r)
				return
			}
			gateway.ServeHTTP(httptest.NewRecorder(), r)
			http.Error(rw, "the upstream is slow", http.StatusGatewayTimeout)
		}))

		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
		other := newRan()
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w1", s.URL)
		done := make(chan end, 1)
		go func() {
			r, err := p.Do(t.Context(), work.Task{ID: "x", Kind: "do"})
			done <- end{r, err}
		}()

		next(t, ran.begun)
		p.Add("w2", strings.TrimSuffix(serve(t, worker(other)), "/v1/tasks"))
		close(ran.gate)
		aTaskRunsOnce(t, ran, "x", done)
		if other.count("x") != 0 {
			t.Error("it ran elsewhere")
		}
	})

	t.Run("and_results_that_do_not_fit_into_one_answer_come_in_several", func(t *testing.T) {
		w := &work.Worker{Election: "seat"}
		large, _ := json.Marshal(strings.Repeat("x", 250_000))
		w.Handle("do", func(context.Context, work.Task) (json.RawMessage, error) { return large, nil })
		url := serve(t, w)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))

		for range 2 {
			var all []<-chan end
			for i := range 40 { // 10 MB
				all = append(all, send(t, p, "w", fmt.Sprint("x", i)))
			}

			for _, ends := range all {
				if e := next(t, ends); e.err != nil || len(e.Data) != len(large) {
					t.Fatalf("ended with %d bytes, %v", len(e.Data), e.err)
				}
			}
		}

		if s := w.Stats(); s.Taken != 40 {
			t.Errorf("stats %+v", s)
		}

		resp, err := http.Post(url+"/results", "", strings.NewReader(ask(1)))
		check(t, err)
		defer resp.Body.Close()

		if b, err := io.ReadAll(resp.Body); err != nil || len(b) > 5<<20 {
			t.Errorf("a page has %d bytes, %v", len(b), err)
		}
	})
}
