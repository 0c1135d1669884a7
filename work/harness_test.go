package work_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/work"
)

// waitTimeout is how long a test waits for what must happen. Nothing is measured by it.
const waitTimeout = 20 * time.Second

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// next waits for an event.
func next[T any](t testing.TB, events <-chan T) (e T) {
	t.Helper()
	select {
	case e = <-events:
	case <-time.After(waitTimeout):
		t.Fatalf("nothing came:\n%s", stacks())
	}
	return e
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// leaks fails the test if a goroutine of this package is left after all cleanups.
func leaks(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		for end := time.Now().Add(waitTimeout); ; time.Sleep(time.Millisecond) {
			left := 0
			for _, s := range strings.Split(stacks(), "\n\n") {
				if strings.Contains(s, "regent/work.") {
					left++
				}
			}

			if left == 0 {
				return
			}

			if time.Now().After(end) {
				t.Fatalf("%d goroutines are left:\n%s", left, stacks())
			}
		}
	})
}

// quick is a cluster whose leases are short.
func quick() regent.Config {
	c := regent.Cluster()
	c.LeaseDuration = 5 * time.Second
	c.StopTimeout = 300 * time.Millisecond
	c.TakeoverDelay = 0
	c.HeartbeatInterval, c.RenewInterval = 200*time.Millisecond, 200*time.Millisecond
	c.ElectionInterval, c.ElectionIntervalMax = 200*time.Millisecond, 200*time.Millisecond
	c.RenewBackoff = []time.Duration{100 * time.Millisecond}
	return c
}

// held is a term that a real member leads.
type held struct {
	regent.Term
	ctx  context.Context
	m    *regent.Member
	stop func()
}

// lead makes a member win the seat, and lead until the test ends or stop is called.
func lead(t testing.TB, store driver.Store, id string, change ...func(*regent.Member)) *held {
	t.Helper()
	h := &held{m: &regent.Member{Store: store, ID: id}}
	for _, f := range change {
		f(h.m)
	}

	ctx, cancel := context.WithCancel(context.Background())
	won, done := make(chan struct{}), make(chan struct{})
	first := true
	go func() {
		defer close(done)

		_ = h.m.Lead(ctx, "seat", func(ctx context.Context, term regent.Term) error {
			if first {
				first = false
				h.Term, h.ctx = term, ctx
				close(won)
			}
			<-ctx.Done()
			return nil
		})
	}()

	h.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(h.stop)
	next(t, won)

	return h
}

// pool returns a pool of the term, closed at the end of the test.
func (h *held) pool(t testing.TB, opts work.Options) *work.Pool {
	p := work.NewPool(h.ctx, h.Term, opts)
	t.Cleanup(p.Close)
	return p
}

// serve serves a worker until the test ends.
func serve(t testing.TB, w *work.Worker) string {
	t.Helper()
	if w.Election == "" {
		w.Election = "seat"
	}

	s := httptest.NewServer(w)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		s.CloseClientConnections()
		s.Close()
	})

	return s.URL + "/v1/tasks"
}

// reply is what a worker answers.
type reply struct {
	code    int
	header  http.Header
	Session string
	Error   string
	Epoch   uint64
	Term    string
	Refused []struct{ ID, Why string }
	Next    uint64
	More    bool
	Running []string
	Results []struct {
		ID      string
		Outcome work.Outcome
		Epoch   uint64
		Data    json.RawMessage
	}
}

func post(t testing.TB, url, body string, header ...string) (r reply) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	check(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return do(t, req)
}

// do sends a request to a worker.
func do(t testing.TB, req *http.Request) (r reply) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	check(t, err)
	defer resp.Body.Close()

	b, err := io.ReadAll(resp.Body)
	check(t, err)
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("answered %d: %s: %v", resp.StatusCode, b, err)
	}

	r.code, r.header = resp.StatusCode, resp.Header
	return r
}

// batch is a request's body, dispatched some time ago.
func batch(epoch uint64, ago time.Duration, tasks ...string) string {
	return fmt.Sprintf(`{"election":"seat","leader":"x","epoch":%d,"dispatchedMs":%d,"tasks":[%s]}`, epoch,
		time.Now().Add(-ago).UnixMilli(), strings.Join(tasks, ","))
}

// named is a batch or a query with the name of its term.
func named(term, body string) string {
	return strings.Replace(body, `,"epoch":`, fmt.Sprintf(`,"term":%q,"epoch":`, term), 1)
}

func task(id string) string { return fmt.Sprintf(`{"id":%q,"kind":"do"}`, id) }

func idempotent(id string) string { return fmt.Sprintf(`{"id":%q,"kind":"do","idempotent":true}`, id) }

// ask is a query for all results.
func ask(epoch uint64) string {
	return fmt.Sprintf(`{"election":"seat","leader":"x","epoch":%d,"recallMs":60000}`, epoch)
}

// wants fails unless the answer has the code and the reason for its first refusal.
func (r reply) wants(t testing.TB, code int, why string) {
	t.Helper()
	if r.code != code || why != "" && (len(r.Refused) == 0 || r.Refused[0].Why != why) || why == "" &&
		len(r.Refused) > 0 {
		t.Errorf("answered %d, %q, refused %v; want %d %q", r.code, r.Error, r.Refused, code, why)
	}
}

// ran counts how often each task has run, and reports each start.
type ran struct {
	mu    sync.Mutex
	times map[string]int
	begun chan string
	gate  chan struct{} // tasks end when it is closed, if it is there
}

func newRan() *ran { return &ran{times: map[string]int{}, begun: make(chan string, 1<<16)} }

func (r *ran) handle(ctx context.Context, t work.Task) (json.RawMessage, error) {
	r.mu.Lock()
	r.times[t.ID]++
	r.mu.Unlock()

	select {
	case r.begun <- t.ID:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}

	if r.gate != nil {
		select {
		case <-r.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}

	return json.Marshal("did " + t.ID)
}

func (r *ran) count(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[id]
}

// worker returns one whose tasks of kind do are counted.
func worker(r *ran) *work.Worker {
	w := &work.Worker{Election: "seat"}
	w.Handle("do", r.handle)
	return w
}

type end struct {
	work.Result
	err error
}

// send sends a task, and returns how it ends.
func send(t testing.TB, p *work.Pool, worker, id string) <-chan end {
	t.Helper()
	ends := make(chan end, 2) // a second one would be a fault
	err := p.Send(worker, work.Task{ID: id, Kind: "do"}, func(r work.Result, err error) { ends <- end{r, err} })
	if errors.Is(err, work.ErrEnded) { // before the task was taken: the worker has refused a question of this term
		ends <- end{err: err}
		return ends
	}

	check(t, err)
	return ends
}

// logs is a log that can be read while it is written.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
