package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// copied copies a file.
func copied(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, err)
	to := filepath.Join(t.TempDir(), "copy")
	check(t, os.WriteFile(to, b, 0o600))
	return to
}

func TestHandlers(t *testing.T) {
	leaks(t)
	w := &work.Worker{Election: "seat", Concurrency: 1}
	release := make(chan struct{})
	began := make(chan struct{}, 10)
	for kind, h := range map[string]work.Handler{
		"panics":  func(context.Context, work.Task) (json.RawMessage, error) { panic("no paper") },
		"garbage": func(context.Context, work.Task) (json.RawMessage, error) { return json.RawMessage(`{"a":`), nil },
		"too much": func(context.Context, work.Task) (json.RawMessage, error) {
			return make(json.RawMessage, 300_000),
				nil
		},
		"fails": func(context.Context, work.Task) (json.RawMessage, error) {
			return nil, errors.New("no paper \xff" + strings.Repeat("x", 5000))
		},
		"leaves": func(context.Context, work.Task) (json.RawMessage, error) { runtime.Goexit(); return nil, nil },
		"times out": func(ctx context.Context, _ work.Task) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"indents": func(context.Context, work.Task) (json.RawMessage, error) {
			return json.RawMessage("{\n\t\"a\": [1, 2]\n}"), nil
		},
		"does": func(context.Context, work.Task) (json.RawMessage, error) { return nil, nil },
		"will not go": func(context.Context, work.Task) (json.RawMessage, error) {
			began <- struct{}{}
			<-release
			return nil, nil
		},
	} {
		w.Handle(kind, h)
	}

	url := serve(t, w)
	p := lead(t, memstore.New(), "a").pool(t, work.Options{})
	p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
	for _, c := range []struct {
		fact, kind string
		timeout    time.Duration
		outcome    work.Outcome
		text       string // in the error
		data       string
	}{
		{"one_that_panics_has_failed", "panics", 0, work.Failed, "panic: no paper", ""},
		{"one_that_returns_no_JSON_has_failed", "garbage", 0, work.Failed, "not valid JSON", ""},
		{"one_that_returns_too_much_has_failed", "too much", 0, work.Failed, "at most", ""},
		{"one_that_errs_has_failed_and_its_error_is_cut", "fails", 0, work.Failed, "no paper xxx", ""},
		{"one_that_ends_its_goroutine_has_failed", "leaves", 0, work.Failed, "Goexit", ""},
		{"one_that_takes_too_long_has_expired", "times out", 2 * time.Second, work.Expired, "deadline", ""},
		{"one_that_returns_lines_returns_one", "indents", 0, work.Done, "", `{"a":[1,2]}`},
		{"and_after_all_that_tasks_are_done", "does", 0, work.Done, "", ""},
	} {
		t.Run(c.fact, func(t *testing.T) {
			r, err := p.Do(t.Context(), work.Task{ID: c.fact, Kind: c.kind, Timeout: c.timeout})
			if err != nil || r.Outcome != c.outcome || !strings.Contains(r.Error, c.text) ||
				string(r.Data) != c.data || len(r.Error) > 1000 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}

	t.Run("a_task_whose_time_is_over_in_the_queue_does_not_begin_and_one_that_ignores_its_end_is_done",
		func(t *testing.T) {
			ends := map[string]chan end{}
			const timeout = 2 * time.Second // enough to get there
			for _, task := range []work.Task{{ID: "stays", Kind: "will not go", Timeout: timeout},
				{ID: "waits", Kind: "does", Timeout: timeout}} {
				c := make(chan end, 2)
				ends[task.ID] = c
				check(t, p.Send("w", task, func(r work.Result, err error) { c <- end{r, err} }))
				if task.ID == "stays" {
					next(t, began)
				}
			}

			for w.Stats().Waiting == 0 {
				runtime.Gosched()
			}

			<-time.After(timeout) // its time passes
			close(release)
			if e := next(t, ends["waits"]); e.Outcome != work.Expired || !e.Began.IsZero() || e.err != nil {
				t.Errorf("waits: %+v", e)
			}

			if e := next(t, ends["stays"]); e.Outcome != work.Done || e.err != nil {
				t.Errorf("stays: %+v", e)
			}
		})
}

func TestDrain(t *testing.T) {
	leaks(t)

	t.Run("it_takes_nothing_more_and_waits_for_what_runs_and_until_a_leader_was_told", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		url := serve(t, w)
		post(t, url, batch(1, 0, task("a"))).wants(t, 200, "")
		next(t, ran.begun)

		drained := make(chan error, 1)
		go func() { drained <- w.Drain(t.Context()) }()
		// Some may be taken before it begins.
		for n := 0; post(t, url, batch(1, 0, task(fmt.Sprint("b", n)))).code != 503; n++ {
		}

		post(t, url, batch(1, 0, task("c"))).wants(t, 503, "stopping")
		post(t, url, batch(1, 0, task("a"))).wants(t, 200, "") // it has that one
		if len(drained) > 0 {
			t.Error("drained while a task ran")
		}

		close(ran.gate)
		for w.Stats().Outcomes[work.Done] < w.Stats().Taken {
			runtime.Gosched()
		}

		if len(drained) > 0 {
			t.Error("drained before a leader had the results")
		}

		if n := len(post(t, url+"/results", ask(1)).Results); uint64(n) != w.Stats().Taken {
			t.Errorf("%d results are reported", n)
		}

		check(t, next(t, drained))
	})

	t.Run("many_times_and_it_never_misses_the_end", func(t *testing.T) {
		for range 200 {
			ran := newRan()
			w := worker(ran)
			url := serve(t, w)
			p := lead(t, memstore.New(), "a").pool(t, work.Options{})
			p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))
			ends := send(t, p, "w", "a")

			next(t, ran.begun)
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			check(t, w.Drain(ctx))
			cancel()
			next(t, ends)
			p.Close()

			check(t, w.Close())
		}
	})

	t.Run("it_ends_with_its_context_and_says_what_is_left", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		post(t, serve(t, w), batch(1, 0, task("a"))).wants(t, 200, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no more time"))
		if err := w.Drain(ctx); err == nil || !strings.Contains(err.Error(), "1 tasks have not ended") ||
			!strings.Contains(err.Error(), "no more time") {
			t.Error(err)
		}
	})

	t.Run("an_idle_worker_drains_at_once_with_a_past_as_well", func(t *testing.T) {
		journal := filepath.Join(t.TempDir(), "journal")
		for range 2 {
			ran := newRan()
			w := worker(ran)
			w.Journal = journal
			if err := w.Open(); err != nil {
				t.Fatal(err)
			}

			check(t, w.Drain(t.Context()))
			check(t, w.Close())
			again := worker(ran)
			again.Journal = journal
			post(t, serve(t, again), batch(1, 0, task("a"))).wants(t, 200, "")
			check(t, again.Close())
		}
	})
}

func TestClose(t *testing.T) {
	leaks(t)

	t.Run("it_interrupts_what_runs_and_what_waits_and_leaders_can_still_ask", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		w.Concurrency = 1
		url := serve(t, w)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))

		a, b := send(t, p, "w", "a"), send(t, p, "w", "b")
		next(t, ran.begun)
		for w.Stats().Waiting == 0 {
			runtime.Gosched()
		}

		check(t, w.Close())
		for _, ends := range []<-chan end{a, b} {
			if e := next(t, ends); e.err != nil || e.Outcome != work.Interrupted ||
				!strings.Contains(e.Error, "stopping") {
				t.Errorf("%+v", e)
			}
		}

		if e := next(t, send(t, p, "w", "c")); !errors.Is(e.err, work.ErrStopping) {
			t.Errorf("%+v", e)
		}

		check(t, w.Close())
	})

	t.Run("under_load_nothing_begins_after_it_and_nothing_is_left_open", func(t *testing.T) {
		for range 50 {
			ran := newRan()
			w := worker(ran)
			w.Journal = filepath.Join(t.TempDir(), "journal")
			url := serve(t, w)
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)

				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
						post(t, url, batch(1, 0, task(time.Now().String()+string(rune('a'+n%26)))))
					}
				}
			}()

			next(t, ran.begun)
			check(t, w.Close())
			begun := len(ran.begun)
			close(stop)
			<-done

			if len(ran.begun) != begun {
				t.Fatal("a task began after Close")
			}

			if r := post(t, url+"/results", ask(1)); len(r.Running) != 0 {
				t.Fatalf("%v have not ended", r.Running)
			}
		}
	})

	t.Run("a_journal_that_cannot_be_opened_is_told_by_Open_and_by_every_request", func(t *testing.T) {
		w := worker(newRan())
		w.Journal = filepath.Join(t.TempDir(), "no", "such", "place")
		if err := w.Open(); err == nil {
			t.Fatal("opened")
		}

		if w.Close() == nil || w.Drain(t.Context()) == nil || w.Stats().Outcomes != nil {
			t.Error("it goes on as if nothing had happened")
		}

		other := worker(newRan())
		other.Journal = t.TempDir()
		if err := other.Open(); err == nil {
			t.Error("a directory was opened")
		}
	})
}

func TestLastWords(t *testing.T) {
	leaks(t)

	t.Run("what_a_worker_told_before_it_left_is_heard_after_it_was_removed", func(t *testing.T) {
		w := worker(newRan())
		held, through := make(chan struct{}, 16), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/results") {
				w.ServeHTTP(rw, r)
				return
			}

			rec := httptest.NewRecorder()
			w.ServeHTTP(rec, r)
			if strings.Contains(rec.Body.String(), `"x"`) { // the answer is on its way, and takes its time
				held <- struct{}{}
				<-through
			}

			_, _ = rw.Write(rec.Body.Bytes())
		}))

		t.Cleanup(server.Close)
		t.Cleanup(func() { _ = w.Close() })
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w", server.URL)
		end := send(t, p, "w", "x")
		next(t, held)

		removed := time.Now() // from then on it has half a second
		p.Remove("w")
		close(through)
		if e := next(t, end); (e.err != nil || e.Outcome != work.Done) && time.Since(removed) < 400*time.Millisecond {
			t.Errorf("ended %+v", e)
		}
	})

	t.Run("one_that_says_nothing_more_is_not_waited_for", func(t *testing.T) {
		ran := newRan()
		ran.gate = make(chan struct{})
		w := worker(ran)
		url := serve(t, w)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{})
		p.Add("w", strings.TrimSuffix(url, "/v1/tasks"))

		end := send(t, p, "w", "x")
		next(t, ran.begun)
		p.Remove("w")
		if e := next(t, end); !errors.Is(e.err, work.ErrGone) {
			t.Errorf("ended %+v", e)
		}

		close(ran.gate)
	})
}
