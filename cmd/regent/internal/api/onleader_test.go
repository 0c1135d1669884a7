package api_test

import (
	"context"
	"fmt"
	"io"
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
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func TestLeaderWhoseAddressIsMoreThanAHostAndAPort(t *testing.T) {
	var asked atomic.Int64
	attacker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(attacker.Close)
	store := memstore.New()
	lead(t, store, "evil", attacker.Listener.Addr().String()+"/v1/elections/seat/pause?")
	a := serve(t, store, "a", "")
	a.becomes("/v1/status", func(s map[string]any) bool { return s["leader"] == "evil" })

	if got, body := a.ask("POST", "/v1/polls/x/run", `{"epoch":1}`); got != 503 ||
		!strings.Contains(fmt.Sprint(body), "is no host:port") {
		t.Errorf("%d %v", got, body)
	}

	a.ask("GET", "/v1/members", "")
	if n := asked.Load(); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestForwardingToAnAttacker has a member lead whose address is an attacker's: whoever can write the store can do that.
func TestForwardingToAnAttacker(t *testing.T) {
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
			got, body := a.ask("POST", path, seen.body, "Authorization", seen.r.Header.Get("Authorization"),
				"Regent-Forwarded", "a")
			if got != 401 {
				t.Errorf("%s replayed to %s: %d %v", seen.r.RequestURI, path, got, body)
			}
		}
	}

	if signatures != 2 {
		t.Errorf("%d requests were signed", signatures)
	}
}

func TestWithoutALeader(t *testing.T) {
	store := memstore.New()
	a := serve(t, store, "a", "")
	a.until("/leader", 200)

	if got, body := a.ask("POST", "/v1/elections/seat/pause", `{"epoch": 1}`); got != 200 {
		t.Fatalf("%d %v", got, body)
	}
	if got, body := a.ask("POST", "/v1/elections/seat/step-down", `{"epoch": 1}`); got != 200 {
		t.Fatalf("%d %v", got, body)
	}

	a.until("/standby", 200)
	if got, body := a.ask("GET", "/v1/polls", ""); got != 503 ||
		!strings.Contains(fmt.Sprint(body), "no leader can be asked") {
		t.Errorf("%d %v", got, body)
	}

	if got, body := a.ask("GET", "/v1/members", ""); got != 200 || body["status"] != "critical" ||
		!strings.Contains(fmt.Sprint(body), "nobody checks the members") {
		t.Errorf("%d %v", got, body)
	}

	if _, body := a.ask("GET", "/v1/status", ""); body["cluster"].(map[string]any)["status"] != "critical" {
		t.Errorf("%v", body["cluster"])
	}
}
