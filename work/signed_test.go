package work_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

// recorded is a request as an attacker has received it.
type recorded struct {
	method, uri string
	header      http.Header
	body        []byte
}

// attacker is a server at an address that whoever can write the store has named as a worker's. It records everything.
type attacker struct {
	*httptest.Server
	challenge string // that it hands out, if any
	mu        sync.Mutex
	all       []recorded
}

func newAttacker(t *testing.T) *attacker {
	t.Helper()
	a := &attacker{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.all = append(a.all, recorded{r.Method, r.RequestURI, r.Header.Clone(), body})
		a.mu.Unlock()

		if a.challenge != "" {
			w.Header().Set(signed.Header, a.challenge)
			w.Header().Set("WWW-Authenticate", signed.Demand(signed.ErrStale))
			w.WriteHeader(http.StatusUnauthorized)
			return
		}

		w.WriteHeader(http.StatusBadGateway)
	}))

	t.Cleanup(a.Close)
	return a
}

// await returns the first request to a path.
func (a *attacker) await(t *testing.T, uri string) recorded {
	t.Helper()
	return a.find(t, uri, func(r recorded) bool { return r.uri == uri })
}

// awaitSigned returns the first batch of tasks that is signed with its challenge.
func (a *attacker) awaitSigned(t *testing.T) recorded {
	t.Helper()
	return a.find(t, "/v1/tasks with the challenge", func(r recorded) bool {
		return r.uri == "/v1/tasks" && strings.Contains(r.header.Get("Authorization"), "challenge="+a.challenge)
	})
}

func (a *attacker) find(t *testing.T, what string, is func(recorded) bool) recorded {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(time.Millisecond) {
		a.mu.Lock()
		for _, r := range a.all {
			if is(r) {
				a.mu.Unlock()
				return r
			}
		}
		a.mu.Unlock()

		if time.Now().After(deadline) {
			t.Fatalf("no request to %s", what)
		}
	}
}

// replay sends a recorded request to another server.
func (r recorded) replay(t *testing.T, server, uri string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, server+uri, bytes.NewReader(r.body))
	check(t, err)
	req.Header = r.header.Clone()
	return do(t, req)
}

func TestAnAttackersAddress(t *testing.T) {
	leaks(t)
	const token = "correct horse battery staple"
	ran := newRan()
	w := worker(ran)
	w.Token, w.ID = token, "w"
	s := httptest.NewUnstartedServer(w)
	w.Addr = s.Listener.Addr().String()

	s.Start()
	t.Cleanup(func() { check(t, w.Close()); s.CloseClientConnections(); s.Close() })

	evil := newAttacker(t)
	p := lead(t, memstore.New(), "a").pool(t, work.Options{Token: token})
	p.Add("evil", evil.Listener.Addr().String())
	_ = p.Send("evil", work.Task{ID: "a", Kind: "do"}, func(work.Result, error) {})
	tasks, question := evil.await(t, "/v1/tasks"), evil.await(t, "/v1/tasks/results")

	t.Run("the_token_is_in_nothing_that_it_receives", func(t *testing.T) {
		evil.mu.Lock()
		defer evil.mu.Unlock()

		for _, r := range evil.all {
			for name, values := range r.header {
				if text := strings.Join(values, " "); strings.Contains(text, token) ||
					strings.HasPrefix(text, "Bearer") {
					t.Errorf("header %s: %s", name, text)
				}
			}
			if bytes.Contains(r.body, []byte(token)) {
				t.Errorf("body: %s", r.body)
			}
		}
	})

	t.Run("what_it_receives_is_of_no_use_with_a_real_worker", func(t *testing.T) {
		for _, r := range []recorded{tasks, question} {
			for _, uri := range []string{"/v1/tasks", "/v1/tasks/results"} {
				if got := r.replay(t, s.URL, uri); got.code != http.StatusUnauthorized {
					t.Errorf("%s replayed to %s: %+v", r.uri, uri, got)
				}
			}
		}

		if got := tasks.replay(t, s.URL, "/v1/tasks"); !strings.Contains(got.Error,
			"signed for member evil, and this is w") {
			t.Errorf("got %q", got.Error)
		}
	})

	t.Run("under_the_name_of_a_real_worker_neither", func(t *testing.T) {
		second := newAttacker(t)
		p.Add("w", second.Listener.Addr().String())
		_ = p.Send("w", work.Task{ID: "b", Kind: "do"}, func(work.Result, error) {})
		got := second.await(t, "/v1/tasks").replay(t, s.URL, "/v1/tasks")
		if got.code != http.StatusUnauthorized ||
			!strings.Contains(got.Error, "signed for the address "+second.Listener.Addr().String()) {
			t.Errorf("got %+v", got)
		}
		p.Remove("w")
	})

	t.Run("the_real_worker_takes_what_was_signed_for_it", func(t *testing.T) {
		p.Add("w", w.Addr)
		if e := next(t, send(t, p, "w", "c")); e.err != nil {
			t.Error(e.err)
		}
	})

	t.Run("with_a_challenge_of_the_real_worker_neither", func(t *testing.T) {
		for _, name := range []string{"evil2", "w"} {
			relay := newAttacker(t)
			relay.challenge = post(t, s.URL, batch(7, 0, task("x"))).header.Get(signed.Header)
			if relay.challenge == "" {
				t.Fatal("the worker gives none")
			}

			p.Remove(name)
			p.Add(name, relay.Listener.Addr().String())
			_ = p.Send(name, work.Task{ID: "d", Kind: "do"}, func(work.Result, error) {})
			got := relay.awaitSigned(t).replay(t, s.URL, "/v1/tasks")
			if got.code != http.StatusUnauthorized || !strings.Contains(got.Error, "signed for ") {
				t.Errorf("%s: got %+v", name, got)
			}

			p.Remove(name)
		}
	})

	if ran.count("a")+ran.count("b")+ran.count("d") > 0 {
		t.Error("a task ran that was signed for another worker")
	}

	p.Remove("evil")
}

// TestAWorkerThatStartsAnew has the worker behind one address replaced, with all challenges that it has given.
func TestAWorkerThatStartsAnew(t *testing.T) {
	leaks(t)
	const token = "correct horse battery staple"
	ran := newRan()
	var now atomic.Pointer[work.Worker]
	var refused atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		counted := &codes{ResponseWriter: rw}
		now.Load().ServeHTTP(counted, r)
		if counted.code == http.StatusUnauthorized {
			refused.Add(1)
		}
	}))

	begin := func() {
		w := worker(ran)
		w.Token = token
		w.ID = "w"
		w.Addr = s.Listener.Addr().String()
		if former := now.Swap(w); former != nil {
			check(t, former.Close())
		}
	}

	begin()
	s.Start()
	t.Cleanup(func() { check(t, now.Load().Close()); s.CloseClientConnections(); s.Close() })

	p := lead(t, memstore.New(), "a").pool(t, work.Options{Token: token})
	p.Add("w", s.Listener.Addr().String())
	for i, id := range []string{"a", "b", "c", "d"} {
		if i == 2 {
			begin()
		}

		if e := next(t, send(t, p, "w", id)); e.err != nil {
			t.Errorf("task %s: %v", id, e.err)
		}

		if n := ran.count(id); n != 1 {
			t.Errorf("task %s ran %d times", id, n)
		}
	}

	// For each start at most one of each of the three loops that send, and one after a late answer of the former
	// worker.
	if n := refused.Load(); n < 2 || n > 7 {
		t.Errorf("%d requests were refused", n)
	}
}

// codes keeps the code of an answer.
type codes struct {
	http.ResponseWriter
	code int
}

func (c *codes) WriteHeader(code int) {
	c.code = code
	c.ResponseWriter.WriteHeader(code)
}

func (c *codes) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestVersionsThatDoNotKnowSignatures(t *testing.T) {
	leaks(t)

	t.Run("a_worker_that_wants_a_bearer_token_is_not_sent_it", func(t *testing.T) {
		old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"session":"x","error":`+
				`"this needs the cluster's token: Authorization: Bearer …"}`)
		}))

		t.Cleanup(old.Close)
		p := lead(t, memstore.New(), "a").pool(t, work.Options{Token: "secret"})
		p.Add("w", old.Listener.Addr().String())
		e := next(t, send(t, p, "w", "a"))
		if !errors.Is(e.err, work.ErrUnreachable) ||
			!strings.Contains(e.err.Error(), "older version of Regent, upgrade it") {
			t.Errorf("ended %v", e.err)
		}
	})

	t.Run("a_leader_that_sends_a_bearer_token_hears_why_it_is_refused", func(t *testing.T) {
		w := worker(newRan())
		w.Token = "secret"
		r := post(t, serve(t, w), batch(7, 0, task("a")), "Authorization", "Bearer secret")
		if r.wants(t, 401, ""); !strings.Contains(r.Error, "its sender is an older version of Regent, upgrade it") {
			t.Errorf("answered %+v", r)
		}
	})
}
