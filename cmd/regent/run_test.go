package main

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/health"
)

// TestStoreUnreachable runs 'regent run' against stores that are not there.
func TestStoreUnreachable(t *testing.T) {
	t.Run("a_store_that_is_never_reached_within_the_timeout_is_69_in_one_line", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections, and never answers
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _ = silent.Close() }) // when the parallel subtests are done
		for name, store := range map[string]string{
			"refused": "redis://:hunter2@127.0.0.1:" + newRedis(t).port,
			"silent":  "redis://:hunter2@" + silent.Addr().String(),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				marker := filepath.Join(t.TempDir(), "ran")
				cmd := command(t, nil, "run", "job", "--store", store, "--timeout", "1500ms", "--", "touch", marker)
				out, _ := cmd.CombinedOutput()

				var said []string
				for line := range strings.Lines(string(out)) {
					if strings.HasPrefix(line, "regent: ") {
						said = append(said, line)
					}
				}

				if code := cmd.ProcessState.ExitCode(); code != exitUnreachable || len(said) != 1 ||
					!strings.Contains(said[0], "was not reached within 1.5s") ||
					strings.Contains(string(out), "hunter2") {
					t.Errorf("exit code %d\n%s", code, out)
				}

				if found, _ := filepath.Glob(marker); len(found) != 0 {
					t.Error("the program ran")
				}
			})
		}
	})

	t.Run("without_a_timeout_it_is_waited_for", func(t *testing.T) {
		t.Parallel()
		r := newRedis(t)
		cmd := command(t, nil, "run", "job", "--store", r.address(), "--", "sh", "-c", "exit 3")
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}

		defer func() { _ = cmd.Process.Kill() }()

		tries := 0
		for in := bufio.NewScanner(pipe); in.Scan(); {
			if strings.Contains(in.Text(), "store unreachable") {
				if tries++; tries == 2 {
					r.start()
				}
			}
		}

		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 3 || tries < 2 {
			t.Errorf("exit code %d after %d tries", code, tries)
		}
	})
}

// TestRunBesideServe runs 'regent run' beside a node on one store, as the README does.
func TestRunBesideServe(t *testing.T) {
	store := sqliteStore(t)
	timing := []string{"--lease-duration", "6s", "--stop-timeout", "300ms", "--heartbeat-interval", "500ms",
		"--election-interval", "500ms", "--takeover-delay", "300ms"}
	a := start(t, "a", store, nil, timing...)
	a.until("/leader", 200)

	args := append([]string{"run", "jobs", "--node", "job", "--store", store}, timing...)
	run := launch(t, "job", command(t, nil, append(args, "--", "sleep", "1000")...), nil)
	got := seen(a, "/v1/members", func(c health.Cluster) bool {
		return slices.ContainsFunc(c.Members, func(m health.Member) bool {
			return m.ID == "job" && m.Status != health.Unknown
		})
	})
	if got.Status != health.Healthy || got.Counts.Healthy != 2 || len(got.Reasons) != 0 {
		t.Errorf("a answers %+v", got)
	}

	for _, m := range got.Members {
		if m.ID == "job" && m.Addr != "" {
			t.Errorf("the program publishes address %s, where nothing listens", m.Addr)
		}
	}

	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}

	second := launch(t, "job", command(t, nil, append(args, "--", "true")...), nil)
	line := second.await(`member:waiting.*`)
	for _, want := range []string{"host=" + host, "pid=" + strconv.Itoa(run.cmd.Process.Pid)} {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not say %s", line, want)
		}
	}

	if strings.Contains(line, "addr=") {
		t.Errorf("%q names an address that nobody serves", line)
	}

	second.signal(syscall.SIGTERM)
	run.signal(syscall.SIGTERM)
	<-second.gone
	<-run.gone
	a.stop()
}

func TestRunProgram(t *testing.T) {
	store := sqliteStore(t)

	t.Run("a_program_gets_its_election_epoch_term_and_node_and_its_exit_code_is_passed_on", func(t *testing.T) {
		cmd := command(t, []string{"REGENT_EPOCH=99", "REGENT_TERM=old"}, "run", "nightly", "--store", store, "--node",
			"me", "--", "sh", "-c", "echo $REGENT_ELECTION $REGENT_EPOCH $REGENT_NODE $REGENT_TERM; exit 3")
		out, _ := cmd.Output()
		got, term, _ := strings.Cut(strings.TrimSpace(string(out)), " me ")
		if got != "nightly 1" || !regexp.MustCompile(`^1\.[A-Z2-7]{26}$`).MatchString(term) ||
			cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("%q, exit code %d", out, cmd.ProcessState.ExitCode())
		}
	})

	t.Run("an_election_that_is_not_won_in_time_is_75", func(t *testing.T) {
		a := start(t, "a", store, nil, "--election", "busy")
		a.until("/leader", 200)
		cmd := command(t, nil, "run", "busy", "--store", store, "--timeout", "3s", "--", "true")
		out, _ := cmd.CombinedOutput()

		if cmd.ProcessState.ExitCode() != 75 {
			t.Errorf("exit code %d\n%s", cmd.ProcessState.ExitCode(), out)
		}
		a.stop()
	})

	t.Run("nonsense_is_64_and_a_program_that_is_not_there_127", func(t *testing.T) {
		for code, args := range map[int][]string{64: {"run", "x"},
			127: {"run", "x", "--store", store, "--", "no-such-program"}} {
			cmd := command(t, nil, args...)
			out, _ := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != code {
				t.Errorf("%q: exit code %d\n%s", args, cmd.ProcessState.ExitCode(), out)
			}
		}
	})
}
