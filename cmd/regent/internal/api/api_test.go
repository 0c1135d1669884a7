package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/cmd/regent/internal/node"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/memstore"
)

// face is a node with a server, on the loopback.
type face struct {
	*node.Node
	t      *testing.T
	server *httptest.Server
}

func serve(t *testing.T, store driver.Store, id, token string, change ...func(*api.Options)) *face {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	n, err := node.New(node.Options{Config: regent.Cluster(), Election: "seat", ID: id, Addr: server.Listener.Addr().String(), Log: slog.New(slog.DiscardHandler),
		Open: func(context.Context) (driver.Store, error) { return store, nil }, Store: "memory:",
		Coordination: node.Coordination{Token: signed.NewSecret(token), Client: &http.Client{Transport: &http.Transport{}}, Worker: true, DataDir: t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	stopping := make(chan struct{})
	opts := api.Options{Node: n, Log: slog.New(slog.DiscardHandler), Token: signed.NewSecret(token), Version: "test"}
	for _, f := range change {
		f(&opts)
	}
	server.Config = api.Server(api.New(opts, stopping), opts.Log)
	server.Start()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		close(stopping)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return &face{n, t, server}
}

// becomes asks until the answer is as it should be.
func (f *face) becomes(path string, good func(map[string]any) bool) map[string]any {
	f.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(30 * time.Second); ; <-tick.C {
		_, body := f.ask("GET", path, "")
		if good(body) {
			return body
		}
		if time.Now().After(limit) {
			f.t.Fatalf("%s is %v", path, body)
		}
	}
}

// ask sends a request, and returns the code and the body.
func (f *face) ask(method, path, body string, header ...string) (int, map[string]any) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := f.server.Client().Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	var out map[string]any
	if len(b) > 0 && json.Unmarshal(b, &out) != nil {
		out = map[string]any{"text": string(b)}
	}
	return resp.StatusCode, out
}

// post sends a verb that succeeds.
func (f *face) post(path, body string) {
	f.t.Helper()
	if got, answer := f.ask("POST", path, body); got != 200 {
		f.t.Errorf("%s %s: %d %v", path, body, got, answer)
	}
}

// until asks until the answer has the code.
func (f *face) until(path string, code int) map[string]any {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		got, body := f.ask("GET", path, "")
		if got == code {
			return body
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s is %d %v, and not %d", path, got, body, code)
		}
	}
}

func TestFace(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)
	b := serve(t, store, "b", "")
	b.until("/standby", 200)

	t.Run("health_and_role_are_told_to_probes_and_load_balancers", func(t *testing.T) {
		for path, want := range map[string][2]int{"/livez": {200, 200}, "/readyz": {200, 200}, "/healthz": {200, 200}, "/leader": {200, 503}, "/standby": {503, 200}} {
			for i, f := range []*face{a, b} {
				if got, body := f.ask("GET", path, ""); got != want[i] {
					t.Errorf("GET %s of %s: %d %v", path, f.Member.ID, got, body)
				}
				if got, _ := f.ask("HEAD", path, ""); got != want[i] {
					t.Errorf("HEAD %s of %s: %d", path, f.Member.ID, got)
				}
			}
		}
		_, body := b.ask("GET", "/readyz", "")
		if body["node"] != "b" || body["role"] != "standby" || body["leader"] != "a" || body["leaderAddr"] != a.server.Listener.Addr().String() || body["epoch"] != 1.0 || body["leaseRemainingMs"] != 0.0 {
			t.Errorf("b says %v", body)
		}
		if body["store"].(map[string]any)["reachable"] != true || body["checks"].(map[string]any)["store"] != "ok" {
			t.Errorf("b says %v", body)
		}
	})

	t.Run("status_election_history_and_members_are_told_by_any_node", func(t *testing.T) {
		if got, body := b.ask("GET", "/v1/status", ""); got != 200 || body["election"] != "seat" || body["leader"] != "a" || body["version"] != "test" {
			t.Errorf("%d %v", got, body)
		}
		if got, body := b.ask("GET", "/v1/elections/seat", ""); got != 200 || body["leader"] != "a" || body["leaseDuration"] != "6s" || body["via"] != "regent/member/a" {
			t.Errorf("%d %v", got, body)
		}
		if got, _ := b.ask("GET", "/v1/elections/other", ""); got != 404 {
			t.Errorf("%d", got)
		}
		if got, body := b.ask("GET", "/v1/elections/seat/history", ""); got != 200 || len(body["terms"].([]any)) != 0 {
			t.Errorf("%d %v", got, body)
		}
		for _, n := range []*face{a, b} {
			n.becomes("/v1/members", func(body map[string]any) bool {
				got := fmt.Sprint(body)
				return strings.Contains(got, "id:a") && strings.Contains(got, "id:b") && body["status"] == "healthy" && body["leader"] == "a"
			})
		}
		if _, body := b.ask("GET", "/v1/status", ""); body["cluster"].(map[string]any)["status"] != "healthy" {
			t.Errorf("%v", body["cluster"])
		}
		if _, body := b.ask("GET", "/v1/status?local=1", ""); body["cluster"] != nil {
			t.Errorf("%v", body["cluster"])
		}
	})

	t.Run("E08_E09_figures_are_told_as_JSON_and_to_Prometheus", func(t *testing.T) {
		_, body := a.ask("GET", "/v1/metrics", "")
		for _, key := range []string{"heartbeatLatencyP99", "epochDriftEvents", "contentionEvents"} {
			if _, ok := body[key]; !ok {
				t.Errorf("%s is not in %v", key, body)
			}
		}
		_, body = a.ask("GET", "/metrics", "")
		for _, want := range []string{`regent_leader{election="seat"} 1`, `regent_epoch{election="seat"} 1`, `regent_lease_remaining_seconds{election="seat"}`,
			"regent_heartbeat_duration_seconds_count", "regent_renew_failures_total 0", `regent_leaderless_seconds_total{election="seat"}`,
			"regent_contention_events_total ", "regent_epoch_drift_events_total 0", `regent_build_info{`} {
			if text, _ := body["text"].(string); !strings.Contains(text, want) {
				t.Errorf("%s is not in %s", want, text)
			}
		}
	})

	t.Run("a_verb_needs_the_epoch_that_its_caller_has_seen", func(t *testing.T) {
		for body, want := range map[string]int{"": 400, "{}": 400, "nonsense": 400, `{"epoch":1,"who":"x"}`: 400, `{"epoch":7}`: 409,
			`{"epoch":1,"x":"` + strings.Repeat("x", 100<<10) + `"}`: 413} {
			if got, answer := a.ask("POST", "/v1/elections/seat/step-down", body); got != want {
				t.Errorf("%.30q: %d %v, want %d", body, got, answer, want)
			}
		}
		if got, body := b.ask("POST", "/v1/elections/seat/handoff", `{"epoch":1,"to":"ghost"}`); got != 422 || !strings.Contains(fmt.Sprint(body), "ghost") {
			t.Errorf("%d %v", got, body)
		}
		if got, _ := a.ask("GET", "/v1/elections/seat/step-down", ""); got != 405 {
			t.Errorf("GET of a verb: %d", got)
		}
	})

	t.Run("writes_from_another_site_and_under_another_name_are_refused", func(t *testing.T) {
		if got, _ := a.ask("POST", "/v1/elections/seat/pause", `{"epoch":1}`, "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"); got != 403 {
			t.Errorf("cross-origin: %d", got)
		}
		if got, _ := a.ask("GET", "/v1/status", "", "Host", "evil.example"); got != 421 {
			t.Errorf("other host: %d", got)
		}
	})

	t.Run("P02_a_handoff_asked_of_a_standby_reaches_the_leader_and_events_are_streamed", func(t *testing.T) {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", b.server.URL+"/v1/events", nil)
		r.Header.Set("Last-Event-ID", "0")
		resp, err := b.server.Client().Do(r)
		if err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%v %v", resp, err)
		}
		defer resp.Body.Close()
		if got, body := b.ask("POST", "/v1/elections/seat/handoff", `{"epoch":1,"to":"b"}`); got != 200 {
			t.Errorf("%d %v", got, body)
		}
		b.until("/leader", 200)
		a.until("/standby", 200)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e regent.Event
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				if e.Kind == regent.EventBecameLeader && e.Epoch == 2 {
					return
				}
			}
		}
		t.Error("the stream ended without the event")
	})
}

// looked is a store that calls then, once, after a request over HTTP has looked at a register.
type looked struct {
	*memstore.Store
	then atomic.Pointer[func()]
}

func (s *looked) Get(ctx context.Context, name string) (driver.Record, error) {
	l, err := s.Store.Get(ctx, name)
	if ctx.Value(http.ServerContextKey) != nil {
		if then := s.then.Swap(nil); then != nil {
			(*then)()
		}
	}
	return l, err
}

func TestVerbsAtOneInstant(t *testing.T) {
	for verb, to := range map[string]string{"step-down": "", "handoff": `,"to":"b"`, "pause": "", "resume": ""} {
		t.Run("a_verb_whose_epoch_passes_while_it_runs_is_409_with_the_current_one_"+verb, func(t *testing.T) {
			t.Parallel()
			store := memstore.New()
			a := serve(t, store, "a", "")
			a.until("/leader", 200)
			b := serve(t, store, "b", "")
			b.until("/standby", 200)
			for l, err := store.Get(t.Context(), driver.MemberRegister("b")); err != nil || l.Vacant(); l, err = store.Get(t.Context(), driver.MemberRegister("b")) {
				<-time.After(time.Millisecond) // it is yet to join
			}
			slow := &looked{Store: store}
			operator := serve(t, slow, "o", "")
			operator.until("/standby", 200)
			paused := verb == "resume"
			if paused {
				a.post("/v1/elections/seat/pause", `{"epoch":1}`)
			}
			other := func() { // another operator is quicker
				if paused {
					a.post("/v1/elections/seat/resume", `{"epoch":1}`)
					for v, _ := a.Member.View("seat"); v.Paused; v, _ = a.Member.View("seat") {
						<-time.After(time.Millisecond)
					}
				}
				a.post("/v1/elections/seat/handoff", `{"epoch":1,"to":"b"}`)
				b.until("/leader", 200)
				if paused {
					b.post("/v1/elections/seat/pause", `{"epoch":2}`)
				}
			}
			slow.then.Store(&other)
			if got, body := operator.ask("POST", "/v1/elections/seat/"+verb, `{"epoch":1`+to+`}`); got != 409 || body["epoch"] != 2.0 {
				t.Errorf("%d %v", got, body)
			}
			if l, err := store.Get(t.Context(), "seat"); err != nil || l.Holder.ID != "b" || l.Epoch != 2 || l.Next != "" || l.Paused != paused {
				t.Errorf("the record is %+v, %v", l, err)
			}
		})
	}
}
