package work_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

var nolog = log.New(io.Discard, "", 0)

// deaf returns an address at which nobody listens.
func deaf(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

// hung is a server that takes requests and never answers.
func hung(t testing.TB) (addr string, reached chan struct{}, active *atomic.Int32) {
	reached, active = make(chan struct{}, 100), new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		active.Add(1)
		defer active.Add(-1)

		_, _ = io.ReadAll(r.Body)
		if !strings.HasSuffix(r.URL.Path, "/results") {
			reached <- struct{}{}
		}
		<-r.Context().Done()
	}))

	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL, reached, active
}

func TestUnreachableWorkers(t *testing.T) {
	leaks(t)

	t.Run("a_worker_that_cannot_be_reached_ends_a_task_at_once_and_another_takes_it", func(t *testing.T) {
		ran := newRan()
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("a", deaf(t))
		for range 5 {
			if e := next(t, send(t, p, "a", "x")); !errors.Is(e.err, work.ErrUnreachable) {
				t.Errorf("ended %+v", e)
			}
		}

		if _, err := p.Do(t.Context(), work.Task{ID: "x", Kind: "do"}); !errors.Is(err, work.ErrUnreachable) {
			t.Error(err)
		}

		p.Add("b", strings.TrimSuffix(serve(t, worker(ran)), "/v1/tasks"))
		if r, err := p.Do(t.Context(), work.Task{ID: "x", Kind: "do"}); err != nil || r.Outcome != work.Done {
			t.Errorf("%+v, %v", r, err)
		}

		v := p.Workers()
		// It tells of the task in the answer that makes it so.
		for end := time.Now().Add(waitTimeout); !v[1].Usable() && time.Now().Before(end); v = p.Workers() {
			<-time.After(time.Millisecond)
		}

		if len(v) != 2 || v[0].Usable() || v[0].Err == nil || !v[1].Usable() {
			t.Errorf("seen as %+v", v)
		}
	})

	t.Run("a_worker_that_comes_back_is_usable_again_without_being_sent_to", func(t *testing.T) {
		addr := deaf(t)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("a", addr)
		next(t, send(t, p, "a", "x"))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skip(err)
		}

		w := worker(newRan())
		s := &http.Server{Handler: w}
		go s.Serve(l)
		t.Cleanup(func() { check(t, w.Close()); check(t, s.Close()) })
		for end := time.Now().Add(waitTimeout); !p.Workers()[0].Usable(); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("seen as %+v", p.Workers())
			}
		}
	})

	t.Run("a_task_that_may_be_with_a_worker_is_given_to_nobody_else_until_it_is_removed", func(t *testing.T) {
		ran := newRan()
		addr, reached, _ := hung(t)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("a", addr)
		done := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), work.Task{ID: "x", Kind: "do"})
			done <- err
		}()

		next(t, reached)
		p.Add("b", strings.TrimSuffix(serve(t, worker(ran)), "/v1/tasks"))
		if r, err := p.Do(t.Context(), work.Task{ID: "y", Kind: "do"}, "b"); err != nil || r.Outcome != work.Done {
			t.Errorf("%+v, %v", r, err)
		}

		if len(done) > 0 || ran.count("x") != 0 {
			t.Error("it was given away")
		}

		p.Remove("a")
		if err := next(t, done); !errors.Is(err, work.ErrGone) {
			t.Error(err)
		}

		if err := p.Send("a", work.Task{ID: "z", Kind: "do"}, nil); !errors.Is(err, work.ErrNoWorker) {
			t.Error(err)
		}
	})

	t.Run("a_worker_at_a_new_address_has_nothing_of_the_old_one", func(t *testing.T) {
		ran := newRan()
		addr, reached, _ := hung(t)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("a", addr)
		ends := send(t, p, "a", "x")
		next(t, reached)

		now := strings.TrimSuffix(serve(t, worker(ran)), "/v1/tasks")
		p.Add("a", now)
		p.Add("a", now)
		if e := next(t, ends); !errors.Is(e.err, work.ErrGone) {
			t.Errorf("ended %+v", e)
		}

		aTaskRunsOnce(t, ran, "x", send(t, p, "a", "x"))
	})

	t.Run("a_transport_that_tells_nothing_of_its_connections_is_not_trusted_to_have_sent_nothing", func(t *testing.T) {
		failed := make(chan struct{}, 100)
		client := &http.Client{Transport: silent(func(*http.Request) (*http.Response, error) {
			failed <- struct{}{}
			return nil, errors.New("no answer")
		})}

		p := lead(t, memstore.New(), "a").pool(t, work.Options{Client: client})
		p.Add("a", "nowhere")
		ends := send(t, p, "a", "x")
		for range 4 {
			next(t, failed)
		}

		if len(ends) > 0 {
			t.Errorf("ended %+v", <-ends)
		}

		p.Close()
		if e := next(t, ends); !errors.Is(e.err, work.ErrEnded) {
			t.Errorf("ended %+v", e)
		}
	})

	t.Run("what_is_no_worker_is_not_believed", func(t *testing.T) {
		for body, code := range map[string]int{`{}`: 200, `hello`: 200, `not here`: 404, ``: 204} {
			asked := make(chan struct{}, 1000)
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rw.WriteHeader(code)
				fmt.Fprint(rw, body)
				asked <- struct{}{}
			}))

			p := lead(t, memstore.New(), "a").pool(t, work.Options{Ready: func(string, []string) { t.Error("ready") }})
			p.Add("a", s.URL)
			ends := send(t, p, "a", "x")
			for range 4 {
				next(t, asked)
			}

			p.Close()
			if e := next(t, ends); e.err == nil {
				t.Errorf("%d %s: done", code, body)
			}

			s.Close()
		}
	})
}

type silent func(*http.Request) (*http.Response, error)

func (f silent) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestPoolClose(t *testing.T) {
	leaks(t)

	t.Run("what_has_not_ended_ends_with_ErrEnded_and_nothing_of_the_pool_is_left", func(t *testing.T) {
		addr, reached, active := hung(t)
		ran := newRan()
		ran.gate = make(chan struct{})
		url := serve(t, worker(ran))
		before := runtime.NumGoroutine()
		h := lead(t, memstore.New(), "a")
		p := work.NewPool(h.ctx, h.Term, work.Options{})
		p.Add("hung", addr)

		p.Add("deaf", deaf(t))
		p.Add("runs", strings.TrimSuffix(url, "/v1/tasks"))
		x, y := send(t, p, "hung", "x"), send(t, p, "runs", "y")
		next(t, reached)
		next(t, ran.begun)
		waits := make(chan error, 1)
		go func() {
			_, err := p.Do(context.Background(), work.Task{ID: "z", Kind: "do"}, "hung")
			waits <- err
		}()

		for p.Workers()[slices.IndexFunc(p.Workers(),
			func(v work.WorkerView) bool { return v.ID == "hung" })].Tasks < 2 {
			runtime.Gosched()
		}

		p.Close()
		// All of it has happened already.
		for _, ends := range []<-chan end{x, y} {
			if len(ends) != 1 {
				t.Fatal("a task has not ended")
			}
			if e := <-ends; !errors.Is(e.err, work.ErrEnded) {
				t.Errorf("ended %+v", e)
			}
		}

		if err := next(t, waits); !errors.Is(err, work.ErrEnded) {
			t.Error(err)
		}

		if s := stacks(); strings.Contains(s, "work.(*link)") || strings.Contains(s, "work.(*Pool)") {
			t.Errorf("something runs:\n%s", s)
		}

		if err := p.Send("runs", work.Task{ID: "late", Kind: "do"}, nil); !errors.Is(err, work.ErrEnded) {
			t.Error(err)
		}

		p.Add("late", addr)
		p.Close()
		h.stop()
		// Servers notice in their own time.
		for end := time.Now().Add(waitTimeout); active.Load() > 0 ||
			runtime.NumGoroutine() > before+1; <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d requests, %d goroutines are left, of %d:\n%s", active.Load(), runtime.NumGoroutine(),
					before, stacks())
			}
		}
	})

	t.Run("a_term_that_has_ended_sends_nothing", func(t *testing.T) {
		ran := newRan()
		url := serve(t, worker(ran))
		h := lead(t, memstore.New(), "a")
		ready := make(chan struct{}, 1)

		// A context that outlives the term, which the documentation forbids.
		p := work.NewPool(context.Background(), h.Term,
			work.Options{Ready: func(string, []string) { ready <- struct{}{} }})
		t.Cleanup(p.Close)
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
		next(t, ready)
		h.stop()

		if e := next(t, send(t, p, "w", "x")); !errors.Is(e.err, work.ErrEnded) || ran.count("x") != 0 {
			t.Errorf("ended %+v", e)
		}
	})

	t.Run("a_Do_ends_with_its_context", func(t *testing.T) {
		addr, reached, _ := hung(t)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		if _, err := p.Do(t.Context(), work.Task{ID: "x", Kind: "do"}); !errors.Is(err, work.ErrNoWorker) {
			t.Error(err)
		}

		p.Add("w", addr)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		go func() { <-reached; cancel(enough) }()
		if _, err := p.Do(ctx, work.Task{ID: "x", Kind: "do"}); !errors.Is(err, enough) {
			t.Error(err)
		}
	})
}
