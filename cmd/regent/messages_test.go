package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMessages checks what a node says to an operator who has made a mistake.
func TestMessages(t *testing.T) {
	t.Run("a_poll_of_a_kind_that_there_is_not_is_refused_by_key_value_and_kinds", func(t *testing.T) {
		t.Parallel()
		config := filepath.Join(t.TempDir(), "regent.yaml")
		writeFile(t, config, "polls:\n  web: {kind: htpp, target: 'http://localhost', interval: 2s}\n")

		says := []string{`polls.web.kind "htpp"`, "must be one of dns, exec, http, icmp, tcp", "did you mean http?"}
		for _, args := range [][]string{{"serve", "--check-config", "--config", config},
			{"serve", "--store", "memory:", "--config", config}} {
			cmd := command(t, nil, args...)
			out, _ := cmd.CombinedOutput()

			if code := cmd.ProcessState.ExitCode(); code != exitConfig {
				t.Errorf("%q: exit code %d", args, code)
			}
			for _, words := range says {
				if !strings.Contains(string(out), words) {
					t.Errorf("%q does not say %q, but\n%s", args, words, out)
				}
			}
		}

		a := start(t, "a", "memory:", nil)
		a.until("/leader", 200)
		code, _, answer := a.do("PUT", "/v1/polls/web", `{"kind":"htpp","target":"http://localhost","interval":"2s"}`)
		text, _ := answer["error"].(string)

		if code != 422 {
			t.Errorf("PUT: %d", code)
		}

		for _, words := range says {
			if !strings.Contains(text, words) {
				t.Errorf("PUT does not say %q, but %q", words, text)
			}
		}

		a.stop()
	})

	t.Run("a_leader_that_was_killed_has_died_and_not_expired", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := start(t, "a", store, nil)
		a.until("/leader", 200)

		if _, status := a.get("/v1/status"); status["why"].(map[string]any)["reason"] != "first" {
			t.Errorf("the first term: %v", status["why"])
		}
		b := start(t, "b", store, nil)
		b.until("/standby", 200)
		a.signal(syscall.SIGKILL)
		b.until("/leader", 200)
		_, status := b.get("/v1/status")
		why := status["why"].(map[string]any)
		if why["previous"] != "a" || why["reason"] != "died" ||
			!strings.Contains(why["text"].(string), "the process of a died; nobody led for ") {
			t.Errorf("%v", why)
		}

		if len(b.said(`became leader.*previous_reason=died`)) != 1 {
			t.Error("the log does not say it")
		}
		b.stop()
	})

	t.Run("nodes_with_different_tokens_warn_on_both_sides", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := start(t, "a", store, []string{"REGENT_TOKEN=one"})
		a.until("/leader", 200)

		b := start(t, "b", store, []string{"REGENT_TOKEN=two"}, "--lease-duration", "9s")
		for d, other := range map[*daemon]string{a: "b", b: "a"} {
			for _, key := range []string{"token", "leaseDuration"} {
				d.await(`level=WARN.*member:config_differs.*key=` + key + `.*member=` + other +
					`|level=WARN.*member:config_differs.*member=` + other + `.*key=` + key)
			}
		}

		type status struct {
			Differs []struct{ Member, Key, Text string }
			Checks  map[string]string
		}
		seen(b, "/v1/status?local=1", func(s status) bool { return len(s.Differs) == 2 && s.Checks["config"] != "ok" })

		for _, d := range []*daemon{a, b} {
			for _, line := range d.said("config_differs") {
				if strings.Contains(line, "one") && !strings.Contains(line, "another one") ||
					strings.Contains(line, "two") {
					t.Errorf("a token shows: %s", line)
				}
			}
		}

		b.stop()
		a.stop()
	})

	t.Run("nodes_whose_tokens_are_made_the_same_differ_no_more", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		store := "sqlite:" + filepath.Join(dir, "x.db")
		give := func(name, token string) string {
			path := filepath.Join(dir, name)
			writeFile(t, path, token)
			return path
		}
		a := start(t, "a", store, nil, "--token-file", give("a", "first"))
		a.until("/leader", 200)
		b := start(t, "b", store, nil, "--token-file", give("b", "second"))
		type status struct {
			Differs []struct{ Member, Key string }
		}
		seen(b, "/v1/status?local=1", func(s status) bool { return len(s.Differs) == 1 })
		give("b", "first")
		b.signal(syscall.SIGHUP)

		for _, d := range []*daemon{a, b} {
			seen(d, "/v1/status?local=1", func(s status) bool { return len(s.Differs) == 0 })
		}
		b.stop()
		a.stop()
	})

	t.Run("a_second_process_with_the_same_name_says_where_the_first_one_is", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := start(t, "twin", store, nil)
		a.until("/leader", 200)
		b := start(t, "twin", store, nil)
		line := b.await(`member:waiting.*alive=true.*`)
		for _, words := range []string{strings.TrimPrefix(a.url, "http://"), "pid=", "host=",
			"is alive: stop it, or give this one another ID"} {
			if !strings.Contains(line, words) {
				t.Errorf("it does not say %q: %s", words, line)
			}
		}

		b.until("/readyz", 503)
		a.stop()
		b.until("/leader", 200)
		b.stop()
	})
}
