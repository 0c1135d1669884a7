package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/memstore"
)

func TestPolls(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "fine")
	}))
	defer target.Close()

	store := memstore.New()
	a := serve(t, store, "a", "secret")
	a.until("/leader", 200)
	b := serve(t, store, "b", "secret")
	b.until("/standby", 200)
	token := []string{"Authorization", "Bearer secret"}
	good := fmt.Sprintf(`{"kind":"http","target":%q,"interval":"1h","options":{"header.X-Key":"hidden"}}`, target.URL)

	t.Run("a_write_needs_the_token_on_every_node", func(t *testing.T) {
		for _, n := range []*testNode{a, b} {
			for _, verb := range []string{"PUT /v1/polls/x", "DELETE /v1/polls/x", "POST /v1/polls/x/run"} {
				method, path, _ := strings.Cut(verb, " ")
				if got, body := n.ask(method, path, good); got != 401 {
					t.Errorf("%s: %d %v", verb, got, body)
				}
			}
		}
	})

	t.Run("any_node_stores_shows_runs_and_removes_a_poll", func(t *testing.T) {
		if got, body := b.ask("PUT", "/v1/polls/home", good, token...); got != 201 || body["kind"] != "http" ||
			strings.Contains(fmt.Sprint(body), "hidden") {
			t.Fatalf("%d %v", got, body)
		}

		if got, body := a.ask("PUT", "/v1/polls/home", strings.Replace(good, "1h", "2h", 1), token...); got != 200 ||
			body["intervalMs"] != 7_200_000.0 {
			t.Errorf("%d %v", got, body)
		}

		if got, body := b.ask("GET", "/v1/polls", ""); got != 200 || len(body["polls"].([]any)) != 1 ||
			strings.Contains(fmt.Sprint(body), "hidden") {
			t.Errorf("%d %v", got, body)
		}

		got, body := b.ask("POST", "/v1/polls/home/run", `{"epoch": 1}`, token...)
		for limit := time.Now().Add(30 * time.Second); strings.Contains(fmt.Sprint(body), "no worker takes it") &&
			time.Now().Before(limit); { // none is known yet
			got, body = b.ask("POST", "/v1/polls/home/run", `{"epoch": 1}`, token...)
		}

		if got != 200 || body["outcome"] != "ok" || body["worker"] == "" {
			t.Errorf("%d %v", got, body)
		}

		if got, body := b.ask("GET", "/v1/polls/home", ""); got != 200 || body["state"] != "up" ||
			body["source"] != "store" || len(body["results"].([]any)) == 0 {
			t.Errorf("%d %v", got, body)
		}

		for path, want := range map[string]bool{"/v1/polls": false, "/v1/polls?results=1": true} {
			_, body := b.ask("GET", path, "")
			first := body["polls"].([]any)[0].(map[string]any)
			if runs, there := first["results"].([]any); there != want || want && len(runs) == 0 ||
				first["latency"] != nil {
				t.Errorf("%s: %v", path, first)
			}
		}

		if got, body := b.ask("DELETE", "/v1/polls/home", "", token...); got != 204 {
			t.Errorf("%d %v", got, body)
		}
		if got, body := a.ask("GET", "/v1/polls/home", ""); got != 404 || !strings.Contains(fmt.Sprint(body), "home") {
			t.Errorf("%d %v", got, body)
		}
	})

	t.Run("a_bad_poll_is_refused_with_key_value_and_rule", func(t *testing.T) {
		for _, c := range []struct {
			method, path, body string
			header             []string
			code               int
			want               string
		}{
			{"PUT", "/v1/polls/x", `{"kind":"http","target":"http://h/","interval":"10ms"}`, nil, 422,
				"polls.x.interval 10ms"},
			{"PUT", "/v1/polls/x", `{"kind":"http","target":"http://h/","intervall":"10s"}`, nil, 422, "intervall"},
			{"PUT", "/v1/polls/x", `not json`, nil, 422, ""},
			{"PUT", "/v1/polls/a%20b", good, nil, 422, "polls."},
			{"PUT", "/v1/polls/x", strings.Repeat("x", 70<<10), nil, 413, "bytes"},
			{"PUT", "/v1/polls/x", good, []string{"Regent-Epoch", "7"}, 409, "epoch 7 has passed: it is 1 now"},
			{"PUT", "/v1/polls/x", good, []string{"Regent-Epoch", "old"}, 400, "must be a number"},
			{"DELETE", "/v1/polls/none", "", nil, 404, "none"},
			{"POST", "/v1/polls/none/run", `{"epoch": 1}`, nil, 404, "none"},
			{"POST", "/v1/polls/none/run", `{"epoch": 2}`, nil, 409, "it is 1 now"},
			{"POST", "/v1/polls/none/run", `{}`, nil, 400, "epoch"},
		} {
			for _, n := range []*testNode{a, b} {
				got, body := n.ask(c.method, c.path, c.body, append(c.header, token...)...)
				if got != c.code || !strings.Contains(fmt.Sprint(body), c.want) {
					t.Errorf("%s %s %.60s: %d %v", c.method, c.path, c.body, got, body)
				}
			}
		}
	})

	t.Run("tasks_of_more_than_the_common_limit_are_read_and_must_be_signed", func(t *testing.T) {
		_, election := b.ask("GET", "/v1/elections/seat", "", token...)
		big := fmt.Sprintf(`{"election":"seat","leader":"a","epoch":1,"term":%q,"tasks":[{"id":"x","kind":"nothing",`+
			`"payload":%q}]}`, election["incarnation"], strings.Repeat("x", 100<<10))
		if got, body := b.ask("POST", "/v1/tasks", big,
			b.signature("secret", "POST", "/v1/tasks", big)...); got != 422 || !strings.Contains(
			fmt.Sprint(body), "handler") {
			t.Errorf("%d %v", got, body)
		}

		for _, header := range [][]string{nil, token, b.signature("another", "POST", "/v1/tasks", big)} {
			if got, body := b.ask("POST", "/v1/tasks", big, header...); got != 401 {
				t.Errorf("%q: %d %v", header, got, body)
			}
		}
	})
}

// slowPolls is a store whose reads of polls wait.
type slowPolls struct {
	*memstore.Store
	asked chan struct{} // receives when somebody waits
	open  chan struct{} // close it, and nobody does
}

func (s slowPolls) Get(ctx context.Context, name string) (driver.Record, error) {
	if strings.HasPrefix(name, "regent/polls/") {
		select {
		case s.asked <- struct{}{}:
		default:
		}

		select {
		case <-s.open:
		case <-ctx.Done():
			return driver.Record{}, ctx.Err()
		}
	}

	return s.Store.Get(ctx, name)
}

func TestRequestWaitsForPollsOfANewLeader(t *testing.T) {
	s := slowPolls{memstore.New(), make(chan struct{}, 1), make(chan struct{})}
	a := serve(t, s, "a", "")
	a.until("/leader", 200)
	<-s.asked
	answered := make(chan int, 1)
	began := time.Now()

	go func() {
		code, _ := a.ask("GET", "/v1/polls", "")
		answered <- code
	}()

	select {
	case code := <-answered:
		t.Fatalf("answered %d at once", code)
	case <-time.After(100 * time.Millisecond):
	}

	close(s.open)
	if code := <-answered; code != 200 && time.Since(began) < 2*time.Second {
		t.Errorf("answered %d", code)
	}
}
