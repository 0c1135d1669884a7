package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/cmd/regent/internal/cli"
)

func TestCommands(t *testing.T) {
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(t.Context(), args, nil, &out, io.Discard)
		return out.String(), err
	}

	t.Run("help_names_every_command", func(t *testing.T) {
		for _, args := range [][]string{nil, {"help"}, {"--help"}} {
			out, err := run(args...)
			if err != nil || !strings.Contains(out, "regent demo") || !strings.Contains(out, "regent version") {
				t.Errorf("%v: %q, %v", args, out, err)
			}
		}
	})

	t.Run("help_names_the_flags_of_run_and_serve", func(t *testing.T) {
		for want, all := range map[string][][]string{
			"--timeout": {{"help"}, {"help", "run"}, {"run", "--help"}, {"run", "x", "-h"},
				{"run", "x", "--help", "--", "true"}},
			"--check-config": {{"help"}, {"help", "serve"}, {"serve", "--help"}},
			"at most one":    {{"help"}},
			"--store":        {{"run", "--help"}, {"serve", "--help"}, {"help", "config"}},
		} {
			for _, args := range all {
				if out, err := run(args...); err != nil || !strings.Contains(out, want) {
					t.Errorf("%q does not name %s, %v:\n%.300s", args, want, err, out)
				}
			}
		}
	})

	t.Run("a_topic_that_is_not_there_is_refused_with_those_that_are", func(t *testing.T) {
		for _, c := range [][3]string{
			{"nosuch", `"nosuch"`, "resume, run, serve, slots, status"}, {"serv", `"serv"`, `did you mean "serve"?`},
		} {
			_, err := run("help", c[0])
			if exitCode(err) != exitUsage || !strings.Contains(err.Error(), c[1]) ||
				!strings.Contains(err.Error(), c[2]) {
				t.Errorf("%v", err)
			}
		}
	})

	t.Run("a_mistyped_command_or_flag_gets_the_nearest", func(t *testing.T) {
		for want, args := range map[string][]string{
			`did you mean "serve"?`:      {"sevre"},
			`did you mean --restart?`:    {"run", "x", "--restrat", "--", "true"},
			`did you mean --no-wait?`:    {"run", "x", "--nowait", "--", "true"},
			`did you mean --store?`:      {"serve", "-store", "memory:"},
			"--once":                     {"run", "x", "--once", "--", "true"}, // it was removed
			"see 'regent run --help'":    {"run", "x"},
			"--eligible=false":           {"serve", "--eligible", "false"},
			`"y" is no flag`:             {"run", "x", "y", "--", "true"},
			"--no-wait and --restart":    {"run", "x", "--no-wait", "--restart", "--", "true"},
			`serve takes flags only`:     {"serve", "now"},
			`version takes no argument`:  {"version", "now"},
			"run needs an election":      {"run", "--", "true"},
			"slots needs the journals":   {"slots"},
			`output format "xml": must`:  {"slots", "-o", "xml", "j"},
			"flag --timeout needs a val": {"run", "x", "--timeout"},
		} {
			_, err := run(args...)
			if exitCode(err) != exitUsage || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", args, err)
			}
		}
	})

	t.Run("a_timeout_that_is_no_duration_is_refused_with_the_rule", func(t *testing.T) {
		for _, value := range []string{"abc", "5", "-1s", ""} {
			_, err := run("run", "x", "--timeout", value, "--", "true")
			if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "timeout: must be a duration such as") {
				t.Errorf("%q: %v", value, err)
			}
		}
	})

	t.Run("a_value_of_a_flag_that_is_no_duration_or_number_is_refused_in_plain_words", func(t *testing.T) {
		for want, args := range map[string][]string{
			`invalid value "5" for flag --timeout: must be a duration such as 500ms, 30s or 5m: see`: {
				"status", "--timeout", "5"},
			`invalid value "x" for flag --members: must be a whole number: see`: {"doctor", "--members", "x"},
		} {
			if _, err := run(args...); exitCode(err) != exitUsage || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v", args, err)
			}
		}
	})

	t.Run("an_address_of_a_node_is_refused_as_it_was_given_and_without_its_password", func(t *testing.T) {
		for given, shown := range map[string]string{
			"": "", "localhost": "localhost", "127.0.0.1:99999": "127.0.0.1:99999", "ftp://h:1": "ftp://h:1",
			"http://ada:hush@h:1": "http://ada:***@h:1", "ada:hush@h:1": "ada:***@h:1",
			"h:1?token=hush": "h:1?token=***",
		} {
			_, err := run("status", "--addr", given)
			if exitCode(err) != exitUsage || !strings.HasPrefix(err.Error(), fmt.Sprintf("--addr %q: must be", shown)) {
				t.Errorf("%q: %v", given, err)
			}
		}
	})

	t.Run("version_says_something", func(t *testing.T) {
		if out, err := run("version"); err != nil || !strings.HasPrefix(out, "regent ") {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("an_output_that_cannot_be_written_is_no_success", func(t *testing.T) {
		for _, args := range [][]string{{"help"}, {"status", "--help"}, {"version"}, {"config", "explain"}} {
			err := onFullDisk(t, args...)
			if exitCode(err) != exitFailure || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%q: %v", args, err)
			}
		}
	})

	t.Run("nonsense_is_refused_by_name", func(t *testing.T) {
		for _, args := range [][]string{{"rule"}, {"demo", "now"}} {
			_, err := run(args...)
			if !errors.Is(err, cli.ErrUsage) || !strings.Contains(err.Error(), args[len(args)-1]) {
				t.Errorf("%v: %v", args, err)
			}
		}
	})
}

// fullDisk is a stream on a disk that is full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// onFullDisk runs a command whose standard output is on a disk that is full.
func onFullDisk(t *testing.T, args ...string) error {
	return run(t.Context(), args, nil, fullDisk{}, io.Discard)
}

// TestDemo runs what 'make demo' runs: real processes, real signals.
func TestDemo(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}

	out, err := exec.CommandContext(t.Context(), bin, "demo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	t.Logf("\n%s", out)
	if got := regexp.MustCompile(`leads, epoch \d+: [\d.]+ m?s later`).FindAll(out, -1); len(got) != 4 {
		t.Errorf("%d takeovers in\n%s", len(got), out)
	}
	for _, part := range []string{"kill -9", "handoff", "kill -STOP", "takes no writes", "http://127.0.0.1:"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("it does not say %q:\n%s", part, out)
		}
	}

	t.Run("a_wrong_command_exits_with_64", func(t *testing.T) {
		err := exec.CommandContext(t.Context(), bin, "rule").Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
			t.Errorf("got %v", err)
		}
	})
}
