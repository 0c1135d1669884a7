package api_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/api"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/memstore"
)

// signature returns the header of a request that another member sends to this one, with a challenge that this one has
// given.
func (f *testNode) signature(token, method, path, body string) []string {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.server.URL+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}

	var header string
	resp, err := signed.NewSigner(signed.NewSecret(token)).Do(func(r *http.Request) (*http.Response, error) {
		first := header == ""
		if header = r.Header.Get("Authorization"); first {
			return f.server.Client().Do(r)
		}
		return &http.Response{Body: http.NoBody}, nil // it is for the caller to send
	}, r, f.Member.ID, f.Member.Addr, []byte(body))
	if err != nil {
		f.t.Fatal(err)
	}

	_ = resp.Body.Close()
	return []string{"Authorization", header}
}

func TestToken(t *testing.T) {
	a := serve(t, memstore.New(), "a", "s3cret")
	a.until("/leader", 200)

	t.Run("a_write_needs_it", func(t *testing.T) {
		for header, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer": 401, "Bearer ": 401,
			"s3cret": 401, "Basic s3cret": 401,
			"Bearer s3cret": 200, "bearer s3cret": 200, "BEARER s3cret": 200, "Bearer  s3cret": 200} {
			if got, body := a.ask("POST", "/v1/elections/seat/resume", `{"epoch":1}`, "Authorization",
				header); got != want {
				t.Errorf("%q: %d %v", header, got, body)
			}
		}
	})

	t.Run("a_signature_stands_for_it_once", func(t *testing.T) {
		header := a.signature("s3cret", "POST", "/v1/elections/seat/resume", `{"epoch":1}`)
		for _, want := range []int{200, 401} {
			if got, body := a.ask("POST", "/v1/elections/seat/resume", `{"epoch":1}`, header...); got != want {
				t.Errorf("%d %v, want %d", got, body, want)
			}
		}
	})

	t.Run("answers_to_writes_carry_a_challenge_and_a_signature_without_one_is_asked_for_again", func(t *testing.T) {
		for _, path := range []string{"/v1/elections/seat/resume", "/v1/polls/x/run", "/v1/tasks",
			"/v1/tasks/results"} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", a.server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}

			var codes, given []string
			resp, err := signed.NewSigner(signed.NewSecret("s3cret")).Do(func(r *http.Request) (*http.Response, error) {
				resp, err := a.server.Client().Do(r)
				if err == nil {
					codes = append(codes, resp.Status[:3])
					given = append(given, resp.Header.Values(signed.Header)...)
				}

				return resp, err
			}, r, a.Member.ID, a.Member.Addr, []byte(`{"epoch":1}`))
			if err != nil {
				t.Fatal(err)
			}

			_ = resp.Body.Close()
			if len(codes) != 2 || codes[0] != "401" || codes[1] == "401" || len(given) != 2 {
				t.Errorf("%s: answers %v with challenges %q", path, codes, given)
			}
		}
	})

	t.Run("a_stream_needs_it", func(t *testing.T) {
		if got, body := a.ask("GET", "/v1/events", ""); got != 401 ||
			!strings.Contains(body["error"].(string), "cluster's token") {
			t.Errorf("%d %v", got, body)
		}

		resp := a.stream(t.Context(), "Authorization", "Bearer s3cret")
		if resp.Body.Close(); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
	})

	t.Run("a_HEAD_of_a_stream_ends", func(t *testing.T) {
		if got, body := a.ask("HEAD", "/v1/events", "", "Authorization", "Bearer s3cret"); got != 200 {
			t.Errorf("%d %v", got, body)
		}
		eventually(t, "no stream is left", func() bool { return a.metric("regent_event_streams") == "0" })
	})

	t.Run("a_probe_that_names_no_host_is_answered", func(t *testing.T) {
		conn, err := net.Dial("tcp", a.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()

		fmt.Fprint(conn, "GET /leader HTTP/1.0\r\n\r\n")
		if b, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(b), "HTTP/1.0 200") {
			t.Errorf("%.100s, %v", b, err)
		}
	})

	t.Run("probes_and_reads_do_not", func(t *testing.T) {
		for _, path := range []string{"/leader", "/readyz", "/healthz", "/livez", "/metrics", "/v1/status",
			"/v1/members", "/v1/elections/seat"} {
			if got, body := a.ask("GET", path, ""); got != 200 {
				t.Errorf("%s: %d %v", path, got, body)
			}
		}
	})
}

// stream opens an event stream.
func (f *testNode) stream(ctx context.Context, header ...string) *http.Response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", f.server.URL+"/v1/events", nil)
	if err != nil {
		f.t.Fatal(err)
	}

	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := f.server.Client().Do(r)
	if err != nil {
		f.t.Fatal(err)
	}

	return resp
}

func TestGuarded(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	open := a.server.Config.Handler
	for guarded, want := range map[bool]int{true: 403, false: 404} {
		h := open
		if guarded {
			h = api.New(api.Options{Node: a.Node, Log: slog.New(slog.DiscardHandler), Guarded: true},
				make(chan struct{}))
		}

		for _, path := range []string{"DELETE /v1/polls/none", "POST /v1/polls/none/run"} {
			method, path, _ := strings.Cut(path, " ")
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, path, strings.NewReader(`{"epoch": 1}`))
			r.Host = "localhost"
			h.ServeHTTP(w, r)

			if w.Code != want {
				t.Errorf("guarded %v: %s is %d %s", guarded, path, w.Code, w.Body)
			}
		}

		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/v1/tasks", strings.NewReader(`{"election":"seat","epoch":1,"tasks":[]}`))
		r.Host = "localhost"
		h.ServeHTTP(w, r)

		if refused := w.Code == 403; refused != guarded {
			t.Errorf("guarded %v: tasks are answered %d", guarded, w.Code)
		}

		w = httptest.NewRecorder()
		r = httptest.NewRequest("HEAD", "/v1/events", nil)
		r.Host = "localhost"
		h.ServeHTTP(w, r)

		if refused := w.Code == 403; refused != guarded {
			t.Errorf("guarded %v: events are answered %d", guarded, w.Code)
		}
	}
}
