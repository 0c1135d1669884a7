package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/memstore"
)

// TestDurationsAreMilliseconds asks every path that docs/HTTP.md lists, and looks for durations in the answers.
func TestDurationsAreMilliseconds(t *testing.T) {
	a := serve(t, memstore.New(), "a", "")
	a.until("/leader", 200)
	if got, body := a.ask("PUT", "/v1/polls/p", `{"kind":"tcp","target":"127.0.0.1:1","intervalMs":90000,`+
		`"timeout":"2s"}`); got != 201 {
		t.Fatal(got, body)
	}

	eventually(t, "the poll has run", func() bool {
		got, body := a.ask("POST", "/v1/polls/p/run", `{"epoch": 1}`)
		return got == 200 && body["latencyMs"] != nil
	})

	answers := map[string]map[string]any{}
	for _, route := range documentedRoutes(t) {
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{election}", "seat", "{name}", "p").Replace(path)
		switch {
		case path == "/metrics" || strings.HasPrefix(path, "/v1/tasks") || method == "DELETE",
			strings.HasPrefix(path, "/page") || path == "/{$}":
			continue // Prometheus; between nodes; without a body; the page
		case path == "/v1/events":
			answers[route] = a.firstEvent()
			continue
		}

		body := `{"epoch": 1}`
		if method == "PUT" {
			body = `{"kind":"tcp","target":"127.0.0.1:1","intervalMs":90000,"timeout":"2s"}`
		}
		if strings.HasSuffix(path, "/step-down") || strings.HasSuffix(path, "/handoff") {
			body = `{}` // the answer of the other verbs is the same
		}
		_, answers[route] = a.ask(method, path, body)
	}

	for route, body := range answers {
		t.Run("N04_"+strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(route, "_"), "_"),
			func(t *testing.T) {
				if len(body) == 0 {
					t.Fatal("no answer")
				}
				noDuration(t, "", body)
			})
	}

	t.Run("N04_the_numbers_are_milliseconds", func(t *testing.T) {
		poll := answers["GET /v1/polls/{name}"]
		if poll["intervalMs"] != 90000.0 || poll["timeoutMs"] != 2000.0 {
			t.Errorf("%v", poll)
		}
		if e := answers["GET /v1/elections/{election}"]; e["leaseDurationMs"] != 6000.0 {
			t.Errorf("%v", e)
		}

		if e := answers["GET /v1/events"]; e["measurements"].(map[string]any)["time"].(float64) < 1e12 {
			t.Errorf("%v", e)
		}
		if len(poll["results"].([]any)) == 0 || poll["latency"].([]any)[0].(map[string]any)["atMostMs"] != 1.0 {
			t.Errorf("%v", poll)
		}
	})

	t.Run("N04_a_poll_is_put_with_either_form_and_not_with_both", func(t *testing.T) {
		for body, want := range map[string]string{
			`{"kind":"tcp","target":"h:1","intervalMs":"soon"}`: `polls.p.intervalMs "soon": polls.p.intervalMs ` +
				"must be a number of milliseconds, such as 30000",
			`{"kind":"tcp","target":"h:1","intervalMs":5000,"interval":"5s"}`: "polls.p.interval (set): " +
				"polls.p.interval must be set only once",
			`{"kind":"tcp","target":"h:1","intervalMs":5000,"timeoutMs":[1]}`: "polls.p.timeoutMs",
			`{"kind":"tcp","target":"h:1","intervalMs":5000,"timeoutMs":{}}`:  "polls.p.timeoutMs {…}: ",
			`{"kind":"tcp","target":"h:1","intervalMs":null}`:                 "polls.p.intervalMs null: ",
			`{"kind":"tcp","target":"h:1","intervalMs":"NaN"}`:                `polls.p.intervalMs "NaN": `,
		} {
			got, answer := a.ask("PUT", "/v1/polls/p", body)
			if got != 422 || !strings.Contains(fmt.Sprint(answer["error"]), want) {
				t.Errorf("%s: %d %v, want %s", body, got, answer, want)
			}
		}
	})
}

// documentedRoutes returns the routes that docs/HTTP.md lists. A house test compares that list with the code.
func documentedRoutes(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/HTTP.md")
	if err != nil {
		t.Fatal(err)
	}

	var routes []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		routes = append(routes, m[1])
	}
	if len(routes) < 20 {
		t.Fatalf("docs/HTTP.md lists %d routes", len(routes))
	}

	return routes
}

// firstEvent returns the first event of the stream: that of the start.
func (f *testNode) firstEvent() map[string]any {
	f.t.Helper()
	resp := f.stream(f.t.Context())
	defer resp.Body.Close()

	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			var event map[string]any
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				f.t.Fatal(err)
			}
			return event
		}
	}

	f.t.Fatal("no event")
	return nil
}

var (
	durationName = regexp.MustCompile(`(?i)(time|duration|latency|interval|timeout|age|lag|delay|remaining|lease|ttl|` +
		`took|waited|vacant|expected|offset|elapsed|uptime|p50|p95|p99)$`)
	fixedName = regexp.MustCompile(`^heartbeatLatencyP(50|95|99)$`)
)

// noDuration reports texts that are durations, and numbers with the name of a duration that does not end in Ms.
func noDuration(t *testing.T, name string, value any) {
	t.Helper()

	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			noDuration(t, strings.TrimPrefix(name+"."+key, "."), inner)
		}
	case []any:
		for _, inner := range v {
			noDuration(t, name, inner)
		}
	case string:
		if _, err := time.ParseDuration(v); err == nil && strings.Trim(v, "0123456789.+-") != "" {
			t.Errorf("%s is %q: a duration must be a number of milliseconds", name, v)
		}
	case float64:
		last := name[strings.LastIndex(name, ".")+1:]
		if durationName.MatchString(last) && !fixedName.MatchString(last) && name != "measurements.time" {
			t.Errorf("%s is %v: the name of a duration must end in Ms", name, v)
		}
	}
}
