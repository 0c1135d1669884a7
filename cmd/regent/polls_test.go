package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/orchestrate"
)

// TestPolls uses the API of polls at any node.
func TestPolls(t *testing.T) {
	// pair starts a leader and a standby, which are workers as well.
	pair := func(t *testing.T, config string, args ...string) (c *cluster, leader, standby *daemon) {
		t.Helper()
		c = newCluster(t, sqliteStore(t), config)
		leader = c.start("a", args...)
		leader.until("/leader", 200)
		standby = c.start("b", args...)
		seen(standby, "/readyz", func(h struct{ Leader string }) bool { return h.Leader == "a" })

		return c, leader, standby
	}
	text := func(answer map[string]any) string { return fmt.Sprint(answer["error"]) }

	t.Run("a_poll_is_made_changed_run_listed_and_removed_at_any_node", func(t *testing.T) {
		t.Parallel()
		target := webTarget(t)
		_, leader, standby := pair(t, "")

		define := func(interval string) string {
			return fmt.Sprintf(`{"kind":"http","target":%q,"interval":%q}`, target, interval)
		}
		for i, d := range []*daemon{leader, standby} {
			path := fmt.Sprintf("/v1/polls/site-%d", i)
			if code, _, answer := d.do("PUT", path, define("1s")); code != http.StatusCreated ||
				answer["target"] != target {
				t.Errorf("%s: %d %v", d.name, code, answer)
			}

			if code, _, answer := d.do("PUT", path, define("2s")); code != http.StatusOK ||
				answer["intervalMs"] != 2000.0 {
				t.Errorf("%s: %d %v", d.name, code, answer)
			}

			p := seen(d, path, func(p pollSeen) bool { return p.State == "up" && len(p.Results) > 0 })
			if r := p.Results[0]; p.Source != "store" || p.IntervalMs != 2000 || p.Counts["ok"] == 0 ||
				r.Outcome != "ok" || r.Worker == "" || r.Epoch != 1 || r.LatencyMs <= 0 {
				t.Errorf("%s: %+v", d.name, p)
			}

			waitFor(t, "a run that is asked for is ok", func() bool { // on a slow machine the target is late
				code, _, answer := d.do("POST", path+"/run", `{"epoch":1}`)
				if code != http.StatusOK || !strings.Contains(fmt.Sprint(answer["slot"]), "/now-") {
					t.Errorf("%s: %d %v", d.name, code, answer)
				}
				return answer["outcome"] == "ok"
			})

			if code, _, answer := d.do("POST", path+"/run", `{"epoch":2}`); code != http.StatusConflict ||
				answer["epoch"] != 1.0 {
				t.Errorf("%s: %d %v", d.name, code, answer)
			}

			if code, _, answer := d.do("POST", path+"/run", ``); code != http.StatusBadRequest {
				t.Errorf("%s: %d %v", d.name, code, answer)
			}

			if code, _, answer := d.do("PUT", path, define("3s"), "Regent-Epoch", "2"); code != http.StatusConflict ||
				answer["epoch"] != 1.0 {
				t.Errorf("%s: %d %v", d.name, code, answer)
			}
		}

		for _, d := range []*daemon{leader, standby} {
			got := seen(d, "/v1/polls", func(l struct{ Polls []pollSeen }) bool { return len(l.Polls) == 2 })
			if got.Polls[0].Name != "site-0" || got.Polls[1].Name != "site-1" {
				t.Errorf("%s lists %+v", d.name, got)
			}
		}

		for i, d := range []*daemon{standby, leader} {
			path := fmt.Sprintf("/v1/polls/site-%d", i)
			if code, _, answer := d.do("DELETE", path, ""); code != http.StatusNoContent {
				t.Errorf("%s: %d %v", d.name, code, answer)
			}

			for _, r := range []struct{ method, path, body string }{{"DELETE", path, ""}, {"GET", path, ""},
				{"POST", path + "/run", `{"epoch":1}`}} {
				if code, _, answer := d.do(r.method, r.path, r.body); code != http.StatusNotFound ||
					!strings.Contains(text(answer), "no such poll") {
					t.Errorf("%s %s: %d %v", d.name, r.method, code, answer)
				}
			}
		}

		standby.stop()
		leader.stop()
	})

	t.Run("what_makes_no_sense_is_refused_by_key_value_and_rule", func(t *testing.T) {
		t.Parallel()
		_, leader, standby := pair(t, "")
		for _, c := range []struct{ name, body, key, value, rule string }{
			{"p", `{"kind":"http","target":"http://localhost","interval":"10ms"}`, "polls.p.interval", "10ms",
				"must be 1s"},
			{"p", `{"kind":"http","target":"ftp://localhost","interval":"1s"}`, "polls.p.target", "ftp://localhost",
				"must be a URL"},
			{"p", `{"kind":"tcp","target":"localhost:1","interval":"1s","retries":"some"}`, "polls.p.retries", `"some"`,
				"must be a whole number"},
			{"p", `{"kind":"tcp","target":"localhost:1","intervall":"1s"}`, "polls.p.intervall", "(set)",
				"did you mean interval?"},
			{"p", `{"kind":"tcp","target":"localhost:1","cron":"61 * * * *"}`, "polls.p.cron", "61", "0"},
			{"p", `{"kind":"tcp","target":"localhost:1","interval":"1s","assign":"somebody"}`, "polls.p.assign",
				"somebody", "must be any, node:NAME"},
			{"p", `[]`, "polls.p", "{…}", "must be a JSON object"},
			{"a%20b", `{"kind":"tcp","target":"localhost:1","interval":"1s"}`, "name", "a b", "must be 1 to 100 of"},
		} {
			for _, d := range []*daemon{leader, standby} {
				code, _, answer := d.do("PUT", "/v1/polls/"+c.name, c.body)
				if got := text(answer); code != http.StatusUnprocessableEntity || !strings.Contains(got, c.key) ||
					!strings.Contains(got, c.value) || !strings.Contains(got, c.rule) {
					t.Errorf("%s: %s: %d %v", d.name, c.body, code, answer)
				}
			}
		}

		standby.stop()
		leader.stop()
	})

	t.Run("a_poll_outlives_its_leader_and_one_of_the_file_is_not_changed", func(t *testing.T) {
		t.Parallel()
		target := webTarget(t)
		_, leader, standby := pair(t, everySecond(1, target))
		if code, _, answer := standby.do("PUT", "/v1/polls/mine",
			fmt.Sprintf(`{"kind":"http","target":%q,"interval":"1s"}`, target)); code != http.StatusCreated {
			t.Fatalf("%d %v", code, answer)
		}

		leader.signal(syscall.SIGKILL) // before it can have saved anything else
		standby.until("/leader", 200)
		p := seen(standby, "/v1/polls/mine", func(p pollSeen) bool {
			return len(p.Results) > 0 && p.Results[0].Epoch == 2
		})
		if r := p.Results[0]; p.Source != "store" || p.Target != target || r.Worker != "b" {
			t.Errorf("%+v", p)
		}

		if p := seen(standby, "/v1/polls/p0", func(pollSeen) bool { return true }); p.Source != "file" {
			t.Errorf("%+v", p)
		}

		for _, method := range []string{"PUT", "DELETE"} {
			code, _, answer := standby.do(method, "/v1/polls/p0",
				fmt.Sprintf(`{"kind":"http","target":%q,"interval":"5s"}`, target))
			if code != http.StatusConflict || !strings.Contains(text(answer), "configuration file") {
				t.Errorf("%s: %d %v", method, code, answer)
			}
		}

		standby.stop()
	})

	t.Run("a_write_needs_the_token_where_there_is_one_and_polls_go_on_with_it", func(t *testing.T) {
		t.Parallel()
		secret := filepath.Join(t.TempDir(), "token")
		writeFile(t, secret, "hunter2\n")
		target := webTarget(t)
		_, leader, standby := pair(t, "", "--token-file", secret)

		define := fmt.Sprintf(`{"kind":"http","target":%q,"interval":"1s","assign":"node:b"}`, target)
		for _, d := range []*daemon{leader, standby} {
			for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "hunter2"},
				{"Regent-Forwarded", "b"}} {
				for _, r := range []struct{ method, path, body string }{
					{"PUT", "/v1/polls/p", define},
					{"DELETE", "/v1/polls/p", ""},
					{"POST", "/v1/polls/p/run", `{"epoch":1}`},
					{"POST", "/v1/tasks", `{"election":"coordinator","epoch":1,"tasks":[{"id":"x","kind":"tcp"}]}`},
					{"POST", "/v1/tasks/results", `{"election":"coordinator","epoch":1}`},
				} {
					if code, h, answer := d.do(r.method, r.path, r.body, header...); code != http.StatusUnauthorized ||
						h.Get("WWW-Authenticate") == "" {
						t.Errorf("%s: %s %s with %q: %d %v", d.name, r.method, r.path, header, code, answer)
					}
				}
			}
		}

		if code, _, answer := standby.do("PUT", "/v1/polls/p", define, "Authorization",
			"Bearer hunter2"); code != http.StatusCreated {
			t.Errorf("%d %v", code, answer)
		}

		if p := seen(standby, "/v1/polls/p", func(p pollSeen) bool {
			return len(p.Results) > 0
		}); p.Results[0].Worker != "b" || p.Results[0].Outcome != "ok" {
			t.Errorf("%+v", p)
		}

		standby.stop()
		leader.stop()
	})

	t.Run("programs_are_run_only_where_that_is_allowed", func(t *testing.T) {
		t.Parallel()
		marker := filepath.Join(t.TempDir(), "ran")
		_, leader, standby := pair(t, everySecond(1, webTarget(t)))
		program := fmt.Sprintf(`{"kind":"exec","target":"touch","options":{"args":[%q]},"interval":"1s"}`, marker)
		code, _, answer := leader.do("PUT", "/v1/polls/program", program)
		if code != http.StatusCreated {
			t.Fatalf("%d %v", code, answer)
		}

		seen(leader, "/v1/polls/program", func(p pollSeen) bool { return p.Waiting >= 2 })
		code, _, answer = standby.do("POST", "/v1/tasks", fmt.Sprintf(
			`{"election":"coordinator","epoch":1,"term":%q,"tasks":[{"id":"x","kind":"exec",`+
				`"payload":{"target":"touch","options":{"args":"[\"%s\"]"}}}]}`, standby.learned(1), marker))
		if code != http.StatusUnprocessableEntity || !strings.Contains(text(answer), "no handler") {
			t.Errorf("%d %v", code, answer)
		}
		if found, _ := filepath.Glob(marker); len(found) != 0 {
			t.Error("it was run")
		}

		standby.stop()
		leader.stop()

		c := newCluster(t, sqliteStore(t), "token: correct-horse-battery\n")
		leader = c.start("a")
		leader.until("/leader", 200)
		c.start("w", "--eligible=false", "--exec-polls")

		code, _, answer = leader.do("PUT", "/v1/polls/program", program, "Authorization",
			"Bearer correct-horse-battery")
		if code != http.StatusCreated {
			t.Fatalf("%d %v", code, answer)
		}

		p := seen(leader, "/v1/polls/program", func(p pollSeen) bool { return len(p.Results) > 0 })
		if r := p.Results[0]; r.Worker != "w" || r.Outcome != "ok" {
			t.Errorf("%+v", p)
		}
		if found, _ := filepath.Glob(marker); len(found) != 1 {
			t.Error("it was not run")
		}

		c.nodes["w"].stop()
		leader.stop()
	})

	t.Run("a_target_that_goes_down_and_up_again_is_reported_and_stays_down_over_a_failover", func(t *testing.T) {
		t.Parallel()
		var down atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if down.Load() {
				w.WriteHeader(http.StatusTeapot)
			}
		}))
		t.Cleanup(server.Close)
		_, leader, standby := pair(t, everySecond(1, server.URL))
		seen(leader, "/v1/polls/p0", func(p pollSeen) bool { return p.State == "up" })
		down.Store(true)
		to := func(state orchestrate.State) func(regent.Event) bool {
			return func(e regent.Event) bool { return e.Metadata["poll"] == "p0" && e.Metadata["to"] == string(state) }
		}
		e := leader.happens(orchestrate.EventChanged, to(orchestrate.Down))
		if e.Metadata["from"] != "up" || !strings.Contains(e.Metadata["message"], "418") ||
			e.Metadata["worker"] == "" || e.Epoch != 1 || e.Time.After(time.Now()) {
			t.Errorf("%+v", e)
		}

		leader.await("level=WARN msg=poll:changed")
		if p := seen(standby, "/v1/polls/p0", func(p pollSeen) bool {
			return p.State == "down"
		}); p.Counts["failed"] == 0 {
			t.Errorf("%+v", p)
		}

		if code := leader.stop(); code != 0 {
			t.Errorf("exit code %d", code)
		}

		standby.until("/leader", 200)
		seen(standby, "/v1/polls/p0", func(p pollSeen) bool { return p.State == "down" })
		down.Store(false)

		if e := standby.happens(orchestrate.EventChanged, to(orchestrate.Up)); e.Metadata["from"] != "down" ||
			e.Epoch != 2 {
			t.Errorf("%+v", e)
		}

		standby.stop()
	})
}
