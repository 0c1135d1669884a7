package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/internal/signed"
	"github.com/regentd/regent/memstore"
)

// signature returns the header of a request that another member sends to this one, with a challenge that this one has given.
func (f *face) signature(token, method, path, body string) []string {
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
		for header, want := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer": 401, "Bearer ": 401, "s3cret": 401, "Basic s3cret": 401,
			"Bearer s3cret": 200, "bearer s3cret": 200, "BEARER s3cret": 200, "Bearer  s3cret": 200} {
			if got, body := a.ask("POST", "/v1/elections/seat/resume", `{"epoch":1}`, "Authorization", header); got != want {
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
		for _, path := range []string{"/v1/elections/seat/resume", "/v1/polls/x/run", "/v1/tasks", "/v1/tasks/results"} {
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
		if got, body := a.ask("GET", "/v1/events", ""); got != 401 || !strings.Contains(body["error"].(string), "cluster's token") {
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
		for _, path := range []string{"/leader", "/readyz", "/healthz", "/livez", "/metrics", "/v1/status", "/v1/members", "/v1/elections/seat"} {
			if got, body := a.ask("GET", path, ""); got != 200 {
				t.Errorf("%s: %d %v", path, got, body)
			}
		}
	})
}

// stream opens an event stream.
func (f *face) stream(ctx context.Context, header ...string) *http.Response {
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

// lead has a member lead the seat at an address that may be anybody's.
func lead(t *testing.T, store driver.Store, id, addr string) {
	t.Helper()
	m := &regent.Member{Store: store, ID: id, Addr: addr}
	ctx, cancel := context.WithCancel(context.Background())
	won, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = m.Lead(ctx, "seat", func(ctx context.Context, _ regent.Term) error {
			close(won)
			<-ctx.Done()
			return nil
		})
	}()
	<-won
	t.Cleanup(func() { cancel(); <-done })
}

func TestLeaderWhoseAddressIsMoreThanAHostAndAPort(t *testing.T) {
	var asked atomic.Int64
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(attacker.Close)
	store := memstore.New()
	lead(t, store, "evil", attacker.Listener.Addr().String()+"/v1/elections/seat/pause?")
	a := serve(t, store, "a", "")
	a.becomes("/v1/status", func(s map[string]any) bool { return s["leader"] == "evil" })
	if got, body := a.ask("POST", "/v1/polls/x/run", `{"epoch":1}`); got != 503 || !strings.Contains(fmt.Sprint(body), "is no host:port") {
		t.Errorf("%d %v", got, body)
	}
	a.ask("GET", "/v1/members", "")
	if n := asked.Load(); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestLeaderOfTheStore has a member lead whose address is an attacker's: whoever can write the store can do that.
func TestLeaderOfTheStore(t *testing.T) {
	const token = "correct horse battery staple"
	type request struct {
		r    *http.Request
		body string
	}
	var mu sync.Mutex
	var all []request
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, request{r, string(body)})
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(attacker.Close)

	store := memstore.New()
	lead(t, store, "evil", attacker.Listener.Addr().String())
	a := serve(t, store, "a", token)
	a.becomes("/v1/status", func(s map[string]any) bool { return s["leader"] == "evil" })

	bearer := []string{"Authorization", "Bearer " + token, "Cookie", "session=" + token}
	for _, path := range []string{"/v1/polls/x/run", "/v1/polls/y/run"} {
		if got, body := a.ask("POST", path, `{"epoch":1}`, bearer...); got != http.StatusTeapot {
			t.Fatalf("not passed on: %d %v", got, body)
		}
	}
	if got, body := a.ask("POST", "/v1/polls/x/run", `{"epoch":1}`); got != 401 {
		t.Errorf("without the token: %d %v", got, body)
	}
	a.ask("GET", "/v1/members", "", bearer...)

	mu.Lock()
	defer mu.Unlock()
	signatures := 0
	for _, seen := range all {
		for name, values := range seen.r.Header {
			if strings.Contains(strings.Join(values, " "), token) {
				t.Errorf("%s %s has the token in the header %s", seen.r.Method, seen.r.RequestURI, name)
			}
		}
		if !signed.Present(seen.r) {
			if seen.r.Method != "GET" {
				t.Errorf("%s %s is not signed", seen.r.Method, seen.r.RequestURI)
			}
			continue
		}
		signatures++
		for _, path := range []string{seen.r.RequestURI, "/v1/elections/seat/step-down", "/v1/tasks"} {
			got, body := a.ask("POST", path, seen.body, "Authorization", seen.r.Header.Get("Authorization"), "Regent-Forwarded", "a")
			if got != 401 {
				t.Errorf("%s replayed to %s: %d %v", seen.r.RequestURI, path, got, body)
			}
		}
	}
	if signatures != 2 {
		t.Errorf("%d requests were signed", signatures)
	}
}
