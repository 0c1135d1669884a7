package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/regentd/regent"
)

const goodStatus = `{"node":"b","role":"standby","leader":"a","leaderAddr":"a:1","epoch":7,"leaseRemainingMs":0,
	"store":{"address":"memory:","reachable":true,"answeredMs":12},"checks":{"loop":"ok","store":"ok"},
	"election":"seat","version":"v1.2.3","heartbeatP50Ms":1.5,"heartbeatP99Ms":-3}`

func TestHTTPProbe(t *testing.T) {
	// ask probes a server with a handler.
	ask := func(t *testing.T, answer http.HandlerFunc, timeout time.Duration) (Report, error) {
		t.Helper()
		server := httptest.NewServer(answer)
		defer server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		return HTTPProbe(nil, "http")(ctx, regent.MemberView{ID: "b", Addr: server.Listener.Addr().String()})
	}

	body := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s) }
	}

	t.Run("a_healthy_node_has_no_problems", func(t *testing.T) {
		got, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/status" {
				t.Errorf("asked for %s %s", r.Method, r.URL)
			}
			fmt.Fprint(w, goodStatus)
		}, 10*time.Second)
		want := Report{Role: "standby", Version: "v1.2.3", Election: "seat", Epoch: 7, Healthy: true,
			HeartbeatP50Ms: 1.5}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v", got, err)
		}
	})

	t.Run("failed_checks_are_problems", func(t *testing.T) {
		for status, want := range map[string][]string{
			`"store":{"reachable":false},"checks":{"store":"no answer\nfor 6s","loop":"overdue by 1s"}`: {
				"loop: overdue by 1s", "store: no answer for 6s",
			},
			`"store":{"reachable":false},"checks":{"store":"ok"}`: {"store: not reachable"},
			`"epoch":1`: nil,
		} {
			got, err := ask(t, body(`{"node":"b","role":"unknown",`+status+`}`), 10*time.Second)
			if err != nil || !slices.Equal(got.Problems, want) || got.Healthy != (want == nil) {
				t.Errorf("%s: got %+v, %v", status, got, err)
			}
		}
	})

	t.Run("an_answer_that_is_not_a_status_is_an_error", func(t *testing.T) {
		for want, answer := range map[string]http.HandlerFunc{
			"500 Internal Server Error": func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprint(w, goodStatus)
			},
			"307 Temporary Redirect": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
			},
			"is not a status: invalid":        body("<html>"),
			"is not a status: json":           body(`["node"]`),
			"is not a status: it has no node": body(`{"hello":"world"}`),
			"is not a status: unexpected":     body(""),
			"more than 65536 bytes":           body(`{"node":"` + strings.Repeat("x", 1<<20)),
			"the node a answers there: check the address that b advertises": body(
				strings.Replace(goodStatus, `"b"`, `"a"`, 1)),
			"read its answer": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				fmt.Fprint(w, "{")
			},
		} {
			if got, err := ask(t, answer, 10*time.Second); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %+v, %v, want %q", got, err, want)
			}
		}
	})

	t.Run("a_probe_of_a_slow_node_times_out", func(t *testing.T) {
		for name, answer := range map[string]http.HandlerFunc{
			"header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"body": func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "{")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
		} {
			began := time.Now()
			_, err := ask(t, answer, 100*time.Millisecond)
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
				t.Errorf("%s: got %v after %v", name, err, time.Since(began))
			}
		}
	})

	t.Run("a_closed_port_and_an_invalid_address_are_errors_without_a_URL", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		addr := server.Listener.Addr().String()
		server.Close()
		_, err := HTTPProbe(nil, "http")(t.Context(), regent.MemberView{ID: "b", Addr: addr})
		if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "/v1/status") {
			t.Errorf("got %v", err)
		}
		for _, addr := range []string{"nowhere", "host:1/../x?y", "[::1", "a b:1", "http://host:1"} {
			if _, err := HTTPProbe(nil, "http")(t.Context(), regent.MemberView{ID: "b", Addr: addr}); err == nil {
				t.Errorf("%q was asked", addr)
			}
		}
	})

	t.Run("TLS_is_verified_with_the_client_given", func(t *testing.T) {
		server := httptest.NewUnstartedServer(body(goodStatus))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that are to fail
		server.StartTLS()
		defer server.Close()
		b := regent.MemberView{ID: "b", Addr: server.Listener.Addr().String()}
		if got, err := HTTPProbe(server.Client(), "https")(t.Context(), b); err != nil || !got.Healthy {
			t.Errorf("got %+v, %v", got, err)
		}
		var unknown *tls.CertificateVerificationError
		if _, err := HTTPProbe(nil, "https")(t.Context(), b); !errors.As(err, &unknown) {
			t.Errorf("an unknown certificate: %v", err)
		}
		if _, err := HTTPProbe(nil, "http")(t.Context(), b); err == nil {
			t.Error("an answer without TLS")
		}
	})
}

// FuzzParseStatus shows that whatever a node answers, its report is short, printable and consistent.
func FuzzParseStatus(f *testing.F) {
	for _, s := range []string{
		goodStatus,
		"",
		"{}",
		`{"node":"b","role":"x","checks":{"a":"no","b":"` + "\x00\xff" + `"}}`,
		`{"node":"b","role":"x","store":{},"epoch":18446744073709551615}`,
		`{"node":"b","role":"x","epoch":-1}`,
		`{"node":"b","role":"x","store":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseStatus(body, "b")
		if err != nil {
			if r.Role != "" || r.Healthy {
				t.Errorf("an error and %+v", r)
			}
			return
		}
		if r.Healthy != (len(r.Problems) == 0) || len(r.Problems) > maxProblems+1 || r.Role == "" {
			t.Errorf("got %+v", r)
		}
		for _, s := range append(r.Problems, r.Role, r.Version) {
			control := strings.ContainsAny(s, "\n\r\x00\x1b")
			if !utf8.ValidString(s) || control || utf8.RuneCountInString(s) > 2*maxText+4 {
				t.Errorf("kept %q", s)
			}
		}
	})
}
