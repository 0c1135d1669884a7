package main

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
		_, err := run("help", "nosuch")
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), `"nosuch"`) ||
			!strings.Contains(err.Error(), "config, run, serve") {
			t.Errorf("%v", err)
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

	t.Run("version_says_something", func(t *testing.T) {
		if out, err := run("version"); err != nil || !strings.HasPrefix(out, "regent ") {
			t.Errorf("%q, %v", out, err)
		}
	})

	t.Run("nonsense_is_refused_by_name", func(t *testing.T) {
		for _, args := range [][]string{{"rule"}, {"demo", "now"}} {
			if _, err := run(args...); !errors.Is(err, errUsage) || !strings.Contains(err.Error(), args[len(args)-1]) {
				t.Errorf("%v: %v", args, err)
			}
		}
	})
}

// TestDemo runs what 'make demo' runs: real processes, real signals.
func TestDemo(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "regent")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	out, err := exec.CommandContext(t.Context(), bin, "demo").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	t.Logf("\n%s", out)
	if got := regexp.MustCompile(`leads, epoch \d: [\d.]+ ms later`).FindAll(out, -1); len(got) != 3 {
		t.Errorf("%d takeovers in\n%s", len(got), out)
	}

	t.Run("a_wrong_command_exits_with_64", func(t *testing.T) {
		err := exec.CommandContext(t.Context(), bin, "rule").Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
			t.Errorf("got %v", err)
		}
	})
}
