package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: the user's side and the program's side.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	t.Cleanup(func() { user.Close() })

	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip("no terminals here:", err)
	}

	return user, program
}

// onTerminal runs a command on a terminal, answers its first question, and returns all that it showed and its exit
// code.
func onTerminal(t *testing.T, cmd *exec.Cmd, answer string) (shown string, code int) {
	t.Helper()
	user, program := terminal(t)
	cmd.Stdin = program
	cmd.Stdout = program
	cmd.Stderr = program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()

	if answer != "" {
		if _, err := io.WriteString(user, answer); err != nil { // the terminal keeps it until it is read
			t.Fatal(err)
		}
	}

	all, _ := io.ReadAll(user) // it ends with an error when the program has ended
	_ = cmd.Wait()
	return string(all), cmd.ProcessState.ExitCode()
}

// TestTerminal checks what is different on a terminal: colour, and questions.
func TestTerminal(t *testing.T) {
	store := sqliteStore(t)
	a := start(t, "node-a", store, nil)
	a.until("/leader", 200)
	at := []string{"--addr", a.url}

	t.Run("colour_on_a_terminal_only", func(t *testing.T) {
		const escape = "\x1b["
		if out, code := onTerminal(t, command(t, nil, append([]string{"status"}, at...)...), ""); code != 0 ||
			!strings.Contains(out, escape+"32mnode-a leads") {
			t.Errorf("%d %q", code, out)
		}
		cmd := command(t, []string{"NO_COLOR=1"}, append([]string{"status"}, at...)...)
		if out, code := onTerminal(t, cmd, ""); code != 0 || strings.Contains(out, escape) {
			t.Errorf("with NO_COLOR: %d %q", code, out)
		}
		out, err := command(t, nil, append([]string{"status"}, at...)...).Output()
		if err != nil || strings.Contains(string(out), escape) {
			t.Errorf("in a pipe: %v %q", err, out)
		}
	})

	t.Run("a_dangerous_verb_asks_with_the_epoch_and_what_will_happen", func(t *testing.T) {
		out, code := onTerminal(t, command(t, nil, append([]string{"step-down"}, at...)...), "no\n")
		if code != exitFailure || !strings.Contains(out, "node-a leads since ") || !strings.Contains(out, "epoch 1.") ||
			!strings.Contains(out, "No other candidate can lead") || !strings.Contains(out, "Go on? [y/N]") ||
			!strings.Contains(out, "not confirmed: nothing was changed") {
			t.Errorf("%d %s", code, out)
		}
		if _, status := a.get("/v1/status"); status["epoch"] != 1.0 {
			t.Errorf("it was done: %v", status)
		}
	})

	t.Run("a_yes_is_enough", func(t *testing.T) {
		out, code := onTerminal(t, command(t, nil, append([]string{"pause"}, at...)...), "y\n")
		if code != 0 || !strings.Contains(out, "not even if its leader dies") || !strings.Contains(out, "is paused") {
			t.Errorf("%d %s", code, out)
		}
		if out, err := command(t, nil, append([]string{"resume"}, at...)...).CombinedOutput(); err != nil {
			t.Errorf("resume: %v %s", err, out)
		}
	})
}

// TestStillRunning makes a leader step down whose duty does not stop: the command says what it waits for.
func TestStillRunning(t *testing.T) {
	config := writeFile(t, filepath.Join(t.TempDir(), "regent.yaml"), `
duties:
  deaf: {command: [sh, -c, "trap '' TERM; while :; do sleep 0.1; done"]}
`)
	store := sqliteStore(t)
	args := []string{"--config", config, "--stop-timeout", "8s", "--lease-duration", "20s"}
	a := start(t, "node-a", store, nil, args...)
	a.until("/leader", 200)
	seen(a, "/v1/metrics", func(m struct {
		Duties []struct {
			Name    string
			Running bool
		}
	}) bool {
		return slices.ContainsFunc(m.Duties, func(d struct {
			Name    string
			Running bool
		}) bool {
			return d.Name == "deaf" && d.Running
		})
	})

	for name, where := range map[string][]string{"node": {"--addr", a.url}, "store": {"--store", store}} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, nil, append([]string{"step-down", "--yes", "--timeout", "1s", "-o", "json"}, where...)...)
			var errs strings.Builder
			cmd.Stderr = &errs
			out, _ := cmd.Output()

			var o struct{ Outcome, Text string }
			if err := json.Unmarshal(out, &o); err != nil || o.Outcome != "running" {
				t.Errorf("%v %s", err, out)
			}
			if code := cmd.ProcessState.ExitCode(); code != 75 || !strings.Contains(errs.String(),
				"it waits for its duties to stop, or for its lease of 20.0 s to expire") {
				t.Errorf("exit code %d: %s", code, errs.String())
			}
		})
	}
}

// TestWatchAndFollow follows a change of leader, until it is interrupted.
func TestWatchAndFollow(t *testing.T) {
	store := sqliteStore(t)
	a := start(t, "node-a", store, nil)
	a.until("/leader", 200)
	b := start(t, "node-b", store, nil)
	b.until("/standby", 200)

	// follow starts a command, and returns a function that waits for a line.
	follow := func(args ...string) (*exec.Cmd, func(want string)) {
		cmd := command(t, []string{"REGENT_ADDR=" + b.url}, args...)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
		t.Cleanup(func() { stuck.Stop() })

		in := bufio.NewScanner(pipe)
		return cmd, func(want string) {
			t.Helper()
			var seen []string
			for in.Scan() {
				if seen = append(seen, in.Text()); strings.Contains(in.Text(), want) {
					return
				}
			}
			t.Fatalf("%q: no line %q, but\n%s", args, want, strings.Join(seen, "\n"))
		}
	}

	watch, watched := follow("watch", "--interval", "200ms")
	changes, changed := follow("watch", "coordinator", "-o", "json", "--interval", "200ms")
	events, happened := follow("events", "--follow", "--kind", "coordinator:")
	status, shown := follow("status", "--watch", "--interval", "200ms")
	watched("coordinator: node-a leads, epoch 1: nobody has led before")
	changed(`"leader":"node-a"`)
	happened("coordinator:leader_changed")
	shown("Election coordinator: node-a leads, epoch 1")

	a.signal(syscall.SIGKILL)
	watched("coordinator: node-b leads, epoch 2: the process of node-a died")
	changed(`"leader":"node-b"`)
	happened("coordinator:became_leader  node-b coordinator epoch 2 previous_leader=node-a previous_reason=died")
	shown("Election coordinator: node-b leads, epoch 2")

	for _, cmd := range []*exec.Cmd{watch, changes, events, status} {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%q ends with %d", cmd.Args[1:], code)
		}
	}
}

// TestCompletion asks for the names that a shell completes.
func TestCompletion(t *testing.T) {
	store := sqliteStore(t)
	config := writeFile(t, filepath.Join(t.TempDir(), "regent.yaml"),
		"polls:\n  home: {kind: tcp, target: '127.0.0.1:1', interval: 1h}\n")
	a := start(t, "node-a", store, nil, "--config", config)
	a.until("/leader", 200)
	seen(a, "/v1/polls", func(p struct{ Polls []struct{ Name string } }) bool { return len(p.Polls) == 1 })
	addr := strings.TrimPrefix(a.url, "http://")

	for want, args := range map[string][]string{
		"coordinator\n":      {"status", ""},
		"node-a\n":           {"handoff", "--to", ""},
		"home\n":             {"polls", "run", ""},
		addr + "\tnode-a\n":  {"status", "--addr", ""},
		"leaseDuration\n":    {"config", "explain", ""},
		"step-down\t":        {"step"},
		"yaml\n":             {"members", "-o", ""},
		"fish\n":             {"completion", ""},
		"check\t":            {"config", ""},
		"--lease-duration\t": {"serve", "--lease"},
	} {
		out, err := command(t, []string{"REGENT_ADDR=" + a.url}, append([]string{"__complete"}, args...)...).Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %v, %s, no %q", args, err, out, want)
		}
	}

	code, out := ends(t, command(t, []string{"REGENT_ADDR=127.0.0.1:1"}, "__complete", "status", ""))
	if code != 0 || !strings.HasPrefix(out, ":4") {
		t.Errorf("without a node: exit code %d, %s", code, out)
	}

	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, err := command(t, nil, "completion", shell).Output(); err != nil || len(out) < 1000 {
			t.Errorf("%s: %v, %d bytes", shell, err, len(out))
		}
	}
}

// TestDoctor runs 'regent doctor' against stores that are fine, refused, and away.
func TestDoctor(t *testing.T) {
	store := sqliteStore(t)
	a := start(t, "node-a", store, nil)
	a.until("/leader", 200)

	type report struct {
		Healthy bool
		Checks  []struct{ Name, Verdict, Text string }

		Takeover *struct{ ReleasedMs, SilentMs, MarginMs, LeaseMs, DelayMs float64 }
	}
	diagnose := func(t *testing.T, want int, args ...string) (report, map[string]string) {
		t.Helper()
		cmd := command(t, []string{"REGENT_ADDR=" + a.url}, append([]string{"doctor", "-o", "json"}, args...)...)
		out, _ := cmd.Output()
		var r report
		if err := json.Unmarshal(out, &r); err != nil || cmd.ProcessState.ExitCode() != want {
			t.Fatalf("exit code %d, %v: %s", cmd.ProcessState.ExitCode(), err, out)
		}

		verdicts := map[string]string{}
		for _, c := range r.Checks {
			verdicts[c.Name] += c.Verdict
		}
		return r, verdicts
	}

	t.Run("a_store_that_is_fine", func(t *testing.T) {
		r, verdicts := diagnose(t, 0, "--store", store)
		for _, name := range []string{"store", "latency", "atomic writes", "lease", "node", "takeover", "clocks"} {
			if verdicts[name] != "ok" {
				t.Errorf("%s is %q: %+v", name, verdicts[name], r.Checks)
			}
		}
		if !r.Healthy || r.Takeover == nil || r.Takeover.SilentMs < 9000 || r.Takeover.SilentMs > 60_000 ||
			r.Takeover.MarginMs <= 0 {
			t.Errorf("%+v", r.Takeover)
		}
		if !strings.Contains(verdicts["members"], "warning") {
			t.Errorf("one member alone is no warning: %+v", r.Checks)
		}
	})

	t.Run("without_a_store_that_of_the_node_is_checked", func(t *testing.T) {
		if r, verdicts := diagnose(t, 0); verdicts["atomic writes"] != "ok" {
			t.Errorf("%+v", r.Checks)
		}
	})

	t.Run("a_store_that_is_away_is_69", func(t *testing.T) {
		r, verdicts := diagnose(t, 69, "--store", "redis://127.0.0.1:1")
		if verdicts["store"] != "wrong" || r.Healthy || r.Takeover != nil {
			t.Errorf("%+v", r)
		}
	})

	t.Run("a_store_that_is_refused_is_wrong", func(t *testing.T) {
		if r, verdicts := diagnose(t, 1, "--store", "sqlite:/no/such/dir/x.db"); verdicts["store"] != "wrong" {
			t.Errorf("%+v", r)
		}
	})

	t.Run("a_database_that_no_node_has_used_is_no_fault", func(t *testing.T) {
		if r, verdicts := diagnose(t, 0, "--store", sqliteStore(t)); verdicts["store"] != "warning" {
			t.Errorf("%+v", r)
		}
	})

	t.Run("the_lease_and_the_takeover_delay_are_those_of_the_node", func(t *testing.T) {
		other := sqliteStore(t)
		b := start(t, "node-b", other, nil, "--takeover-delay", "8s", "--lease-duration", "9s")
		b.until("/leader", 200)
		r, _ := diagnose(t, 0, "--store", other, "--addr", b.url)
		if r.Takeover.LeaseMs != 9000 || r.Takeover.DelayMs != 8000 || r.Takeover.SilentMs < 20_000 {
			t.Errorf("%+v", r.Takeover)
		}
	})

	t.Run("asked_through_a_standby_the_longest_lease_of_a_third_member_counts", func(t *testing.T) {
		shared := sqliteStore(t)
		leader := start(t, "leads", shared, nil)
		leader.until("/leader", 200)
		standby := start(t, "stands-by", shared, nil)
		standby.until("/standby", 200)
		third := start(t, "third", shared, nil, "--lease-duration", "1m")
		third.until("/standby", 200)

		r, verdicts := diagnose(t, 1, "--store", shared, "--addr", standby.url)
		if r.Takeover.LeaseMs != 60_000 || !strings.Contains(verdicts["members"], "wrong") {
			t.Errorf("%+v, %+v", r.Takeover, r.Checks)
		}
	})

	t.Run("a_redis_that_evicts_registers_is_wrong", func(t *testing.T) {
		r := newRedis(t)
		r.start()
		r.cli("CONFIG", "SET", "appendonly", "no")
		r.cli("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		found, verdicts := diagnose(t, 1, "--store", r.address())
		if verdicts["persistence"] != "wrong" || verdicts["eviction"] != "wrong" ||
			verdicts["atomic writes"] != "ok" || verdicts["permissions"] != "ok" {
			t.Errorf("%+v", found.Checks)
		}
	})

	t.Run("a_lease_that_is_too_short_for_the_configuration_is_78", func(t *testing.T) {
		cmd := command(t, nil, "doctor", "--lease-duration", "1s")
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitConfig {
			t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
		}
	})
}
