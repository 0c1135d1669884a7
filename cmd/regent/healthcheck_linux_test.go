package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/node"
)

// checked is a node with a health check: a script that looks at the file named after the node, and says what the file
// says. The script hangs, with a child, if the file says so.
type checked struct {
	*daemon
	dir    string
	config string
}

// script passes if the file $1 is empty. It notes the environment, and the processes that hang.
const script = `
env >"$1.env"
case "$(cat "$1")" in
"") exit 0 ;;
hang) sleep 1000 & echo "$$ $!" >>"$1.pids"; wait ;;
*) cat "$1"; exit 3 ;;
esac
`

func (c *checked) file() string { return filepath.Join(c.dir, c.name) }

// says sets what the check finds.
func (c *checked) says(what string) {
	c.t.Helper()
	writeFile(c.t, c.file(), what)
}

// startChecked starts a node whose check finds what says. Two failures in a row make it unhealthy. On a busy machine a
// script may take seconds to start.
func startChecked(t *testing.T, name, store, says string, args ...string) *checked {
	t.Helper()
	c := &checked{dir: inMemory(t)}
	c.config = filepath.Join(c.dir, "regent.yaml")
	file := filepath.Join(c.dir, name)
	writeFile(t, file, says)
	writeFile(t, c.config, fmt.Sprintf("healthCheck: {command: [sh, -c, %q, check, %q], interval: 4s, timeout: 4s}\n",
		script, file))
	c.daemon = start(t, name, store, []string{"REGENT_TOKEN=hidden"}, append(args, "--config", c.config)...)

	return c
}

// unhealthy waits until the node says that its check fails, and returns why.
func (c *checked) unhealthy(pattern string) {
	c.t.Helper()
	type answer struct {
		Checks      map[string]string
		HealthCheck *node.CheckHealth
	}
	match := regexp.MustCompile(pattern)
	for _, path := range []string{"/readyz", "/v1/status"} {
		seen(c.daemon, path, func(a answer) bool {
			return a.HealthCheck != nil && !a.HealthCheck.OK && match.MatchString(a.Checks["healthCheck"])
		})
	}

	c.until("/readyz", http.StatusServiceUnavailable)
	c.await(`level=WARN msg=member:health_changed .*healthy=false`)
	if !strings.Contains(c.text("/metrics"), "regent_health_check_ok 0") {
		c.t.Error("the metric says that the check passes")
	}
}

// TestHealthCheck runs nodes whose configuration has a health check.
func TestHealthCheck(t *testing.T) {
	t.Run("N01_a_leader_whose_check_fails_hands_over_and_leads_again_once_it_passes", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := startChecked(t, "a", store, "")
		a.until("/leader", 200)
		a.until("/readyz", 200)
		b := startChecked(t, "b", store, "")
		b.until("/standby", 200)

		a.says("disk full")
		b.until("/leader", 200)
		a.unhealthy(`health check \(command sh\) has failed \d+ times in a row: disk full`)
		a.await(`msg="lost leadership" .*reason=unhealthy`)
		if env, _ := os.ReadFile(a.file() + ".env"); strings.Contains(string(env), "hidden") || len(env) == 0 {
			t.Errorf("the environment of the check: %s", env)
		}

		a.says("")
		a.until("/readyz", 200)
		b.says("disk full")
		a.until("/leader", 200)
		b.unhealthy("disk full")
		if got := a.text("/metrics"); !strings.Contains(got, "regent_health_check_ok 1") ||
			strings.Contains(got, "regent_health_check_failures_total 0\n") {
			t.Error("the metrics are wrong")
		}

		a.stop()
		b.stop()
	})

	t.Run("N01_a_command_that_hangs_is_killed_with_its_children", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := startChecked(t, "a", store, "")
		a.until("/leader", 200)
		b := startChecked(t, "b", store, "")
		b.until("/standby", 200)

		a.says("hang")
		b.until("/leader", 200)
		a.unhealthy("killed, because it did not end in time")
		a.says("")
		a.until("/readyz", 200) // the last one that hung has been killed
		a.stop()
		b.stop()

		pids, _ := os.ReadFile(a.file() + ".pids")
		if len(pids) == 0 {
			t.Fatal("nothing hung")
		}
		for pid := range strings.FieldsSeq(string(pids)) {
			stat, err := os.ReadFile("/proc/" + pid + "/cmdline")
			if err == nil && strings.Contains(string(stat), "sleep\x001000") {
				t.Errorf("process %s is left: %q", pid, stat)
			}
		}
	})

	t.Run("N01_a_command_that_is_missing_keeps_a_node_from_leading_until_a_reload", func(t *testing.T) {
		t.Parallel()
		a := &checked{dir: inMemory(t)}
		a.config = writeFile(t, filepath.Join(a.dir, "regent.yaml"),
			"healthCheck: {command: [no-such-program], interval: 1s}\n")
		a.daemon = start(t, "a", sqliteStore(t), nil, "--config", a.config)
		a.unhealthy("command no-such-program.* cannot be run here")
		if got, _ := a.get("/leader"); got != 503 {
			t.Errorf("/leader is %d", got)
		}

		writeFile(t, a.config, "healthCheck: {command: [sh, -c, '>&2 echo later; exit 1'], interval: 1s}\n")
		a.signal(syscall.SIGHUP)
		a.unhealthy("later")

		writeFile(t, a.config, "healthCheck: {command: 'a b'}\n")
		a.signal(syscall.SIGHUP)
		a.await(`level=WARN msg="configuration cannot be reloaded.*healthCheck.command .* there is no shell`)

		writeFile(t, a.config, "")
		a.signal(syscall.SIGHUP)
		a.until("/leader", 200)
		if _, body := a.get("/readyz"); body["healthCheck"] != nil {
			t.Errorf("%v", body)
		}
		a.stop()
	})

	t.Run("N01_while_all_checks_fail_the_leader_goes_on_and_after_its_death_nobody_leads", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		a := startChecked(t, "a", store, "")
		a.until("/leader", 200)
		b := startChecked(t, "b", store, "")
		b.until("/standby", 200)

		b.says("down")
		b.unhealthy("down")
		a.says("down")
		a.unhealthy("down")
		settled := len(a.said(`msg="became leader"`))
		a.until("/leader", 200)

		a.signal(syscall.SIGKILL)
		<-a.gone
		for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); <-time.After(100 * time.Millisecond) {
			if got, _ := b.get("/leader"); got == 200 {
				t.Fatal("a node leads whose check fails")
			}
		}

		b.says("")
		b.until("/leader", 200)
		if settled != 1 {
			t.Errorf("a began %d terms", settled)
		}
		b.stop()
	})

	t.Run("N01_a_URL_that_answers_503_or_nothing_fails", func(t *testing.T) {
		t.Parallel()
		var status atomic.Int32
		release := make(chan struct{})
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			code := int(status.Load())
			if code == 0 {
				<-release
				return
			}
			w.WriteHeader(code)
		}))
		defer target.Close()
		defer close(release)

		status.Store(200)
		store := sqliteStore(t)
		dir := inMemory(t)
		config := writeFile(t, filepath.Join(dir, "regent.yaml"),
			fmt.Sprintf("healthCheck: {url: %s, interval: 3s, timeout: 3s}\n", target.URL))
		a := &checked{daemon: start(t, "a", store, nil, "--config", config)}
		a.until("/leader", 200)
		b := start(t, "b", store, nil)
		b.until("/standby", 200)

		status.Store(503)
		b.until("/leader", 200)
		a.unhealthy(`health check \(url http://127.*\) has failed .*: status 503`)
		status.Store(200)
		a.until("/readyz", 200)
		status.Store(0)
		a.unhealthy("no answer in time")
		a.stop()
		b.stop()
	})

	t.Run("N01_a_program_of_run_is_started_where_the_check_passes", func(t *testing.T) {
		t.Parallel()
		dir := inMemory(t)
		file := writeFile(t, filepath.Join(dir, "file"), "down")
		config := writeFile(t, filepath.Join(dir, "regent.yaml"), fmt.Sprintf(
			"healthCheck: {command: [sh, -c, %q, check, %q], interval: 1s}\n", script, file))
		cmd := command(t, nil, "run", "job", "--store", sqliteStore(t), "--config", config, "--", "true")
		d := launch(t, "run", cmd, nil)
		d.await(`level=WARN msg=member:health_changed .*healthy=false`) // a busy machine may say that it took too long
		if len(d.said("became leader")) > 0 {
			t.Error("it leads")
		}

		writeFile(t, file, "")
		d.await("became leader")
		select {
		case <-d.gone:
		case <-time.After(60 * time.Second):
			t.Error("it has not ended")
		}
	})
}
