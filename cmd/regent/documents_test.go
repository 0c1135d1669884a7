package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// shown is a block of commands of a document, and the output that it shows.
type shown struct{ commands, output string }

// documented returns the block of a document whose commands contain a text.
func documented(t *testing.T, path, contains string) shown {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}

	blocks := regexp.MustCompile("(?s)```sh\n([^`]*)```(?:\n\n```text\n([^`]*)```)?")
	for _, m := range blocks.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], contains) {
			return shown{m[1], m[2]}
		}
	}

	t.Fatalf("%s shows no command with %q", path, contains)
	return shown{}
}

// sh runs commands of a document, with the built regent, and returns what they print.
func (s shown) sh(t *testing.T, replace ...string) (string, error) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}

	replace = append(replace, ".bin/regent ", bin+" ", "/tmp/", t.TempDir()+"/")
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.NewReplacer(replace...).Replace(s.commands))
	cmd.Env = command(t, nil).Env
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()

	return string(out), err
}

// lines returns the commands that match, as the server reports them.
func (l *serverLog) lines(pattern string) (found []string) {
	l.catchUp()
	re := regexp.MustCompile(pattern)
	l.mu.Lock()
	defer l.mu.Unlock()

	for _, s := range l.all {
		if re.MatchString(s.line) {
			found = append(found, s.line)
		}
	}

	return found
}

// TestDocumentedCommands runs commands of documents that the tests of internal/house do not run.
func TestDocumentedCommands(t *testing.T) {
	t.Run("N06_the_lock_on_Redis_is_one_command", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		log := r.monitor()
		block := documented(t, "README.md", "redis://")
		if n := strings.Count(strings.TrimSpace(block.commands), "\n"); n != 0 {
			t.Errorf("it takes %d lines", n+1)
		}

		out, err := block.sh(t, "localhost:6379", "127.0.0.1:"+r.port)
		if err != nil || out == "" || out != block.output {
			t.Errorf("%v, it prints %q, and the README shows %q", err, out, block.output)
		}
		if taken := log.lines(`(?i)"set" "stargate:leader" .*"px" "30000"`); len(taken) == 0 {
			t.Errorf("the key was never taken:\n%s", strings.Join(log.lines("stargate"), ""))
		}
		if got := r.cli("EXISTS", "stargate:leader"); got != "0" {
			t.Errorf("the key is left: %s", got)
		}
	})

	t.Run("N06_a_load_balancer_asks_leader_and_a_probe_asks_readyz", func(t *testing.T) {
		t.Parallel()
		r := startRedis(t)
		a := start(t, "a", r.address(), nil, "--profile", "lock")
		a.until("/leader", 200)
		b := start(t, "b", r.address(), nil, "--profile", "lock")
		b.until("/readyz", 200)
		a.until("/readyz", 200)
		if got, _ := b.get("/leader"); got != 503 {
			t.Errorf("/leader of a standby is %d", got)
		}

		text, _ := os.ReadFile("../../docs/OPERATIONS.md")
		for _, want := range []string{"| a load balancer that sends writes to the leader | `/leader`",
			"| a readiness probe | `/readyz`"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("docs/OPERATIONS.md does not have %q", want)
			}
		}
		a.stop()
		b.stop()
	})

	t.Run("N05_a_queue_of_any_language_runs_under_regent_run", func(t *testing.T) {
		t.Parallel()
		out, err := documented(t, "docs/SCHEDULERS.md", "regent run").sh(t)
		if err != nil || out != "the queue runs, epoch 1\n" {
			t.Errorf("%v, it prints %q", err, out)
		}
	})
}
