package check_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

// shell returns the options that make sh run a script.
func shell(script string) []string { return []string{"args", `["-c", ` + strconv.Quote(script) + `]`} }

func TestExec(t *testing.T) {
	settles(t)
	for _, c := range []struct {
		name, target string
		options      []string
		ok           bool
		message      string
		code         string
	}{
		{"a_program_that_succeeds", "true", nil, true, "exit code 0", "0"},
		{"a_program_by_its_path", "/bin/sh", shell("echo fine; echo more"), true, "fine", "0"},
		{"a_program_that_fails", "sh", shell("echo why >&2; exit 3"), false, "why", "3"},
		{"a_program_that_fails_without_a_word", "sh", shell("exit 3"), false, "exit code 3", "3"},
		{"a_program_that_dies_of_a_signal", "sh", shell("echo oh; kill -SEGV $$"), false,
			"ended by signal 11 (segmentation fault): oh", "139"},
		{"arguments_are_not_split_nor_expanded", "printf", []string{"args", `["%s.", "a b", "$HOME", "*"]`}, true,
			"a b.$HOME.*.", "0"},
		{"output_without_end_is_read_and_dropped", "sh", shell("head -c 10000000 /dev/zero | tr '\\0' x"), true, "xxxx",
			"0"},
		{"input_is_empty", "sh", shell("cat; echo done"), true, "done", "0"},
		{"it_leads_a_process_group_of_its_own", "sh", shell("read _ _ _ _ group _ </proc/$$/stat; [ $group = $$ ]"),
			true, "", "0"},
		{"the_directory_is_the_root", "pwd", nil, true, "/", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := run(t, "exec", c.target, c.options...)
			found(t, o, c.ok, c.message)
			if o.Detail["exitCode"] != c.code {
				t.Error(o.Detail)
			}
		})
	}

	t.Run("nothing_of_the_environment_is_passed_on", func(t *testing.T) {
		t.Setenv("REGENT_TOKEN", "hush")
		o := run(t, "exec", "sh", append(shell("env | sort | tr '\\n' ' '"), "env.MINE", "yes")...)
		for _, part := range []string{"HOME=/ ", "LC_ALL=C ", "MINE=yes ", "PATH=/usr/local/sbin:"} {
			if !strings.Contains(o.Message, part) {
				t.Errorf("%s is not in %s", part, o.Message)
			}
		}

		if strings.Contains(o.Message, "hush") {
			t.Error(o.Message)
		}
	})

	t.Run("it_is_refused_unless_allowed", func(t *testing.T) {
		_, err := new(check.Checker).Run(t.Context(), "exec", "true", nil)
		if !errors.Is(err, check.ErrNotPermitted) || !strings.Contains(err.Error(), "execPolls") {
			t.Error(err)
		}
	})

	t.Run("a_program_that_there_is_not_says_nothing_of_a_target", func(t *testing.T) {
		for target, want := range map[string]string{"no-such-program": "it is not in /usr/local/sbin",
			"/no/such/program": "no such file", "/etc/passwd": "permission denied", "/": ""} {
			if o, err := checker().Run(t.Context(), "exec", target, nil); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v %v", target, o, err)
			}
		}
	})
}

func TestExecEnds(t *testing.T) {
	settles(t)

	// started runs a script that writes pids to a file named $1, and returns them.
	started := func(t *testing.T, limit time.Duration, script string) (check.Outcome, []int) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "pids")
		o := runFor(t, limit, "exec", "sh", "args", `["-c", `+strconv.Quote(script)+`, "sh", `+strconv.Quote(file)+`]`)

		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		var pids []int
		for word := range strings.FieldsSeq(string(data)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}

		return o, pids
	}
	gone := func(t *testing.T, pids []int, count int) {
		t.Helper()

		if len(pids) != count {
			t.Fatalf("%v, want %d of them", pids, count)
		}
		for _, pid := range pids {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			if err == nil && !strings.Contains(string(stat), ") Z ") { // a grandchild is reaped by its new parent
				t.Errorf("%d lives: %s", pid, stat)
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}

	t.Run("one_that_ignores_TERM_is_killed_with_its_children_and_theirs", func(t *testing.T) {
		o, pids := started(t, 3*time.Second,
			`trap '' TERM; (sleep 1000 & echo $! >>$1; wait) & echo $! $$ >>$1; echo begun; wait`)
		found(t, o, false, "killed, because it did not end in time: begun")
		gone(t, pids, 3)

		if o.Latency > 15*time.Second {
			t.Error(o.Latency)
		}
	})

	t.Run("one_that_left_its_group_is_killed_too", func(t *testing.T) {
		o, pids := started(t, 3*time.Second, `setsid sleep 1000 & echo $! $$ >>$1; sleep 1000`)
		found(t, o, false, "killed, because it did not end in time")
		gone(t, pids, 2)
	})

	t.Run("what_a_program_leaves_behind_ends_with_it", func(t *testing.T) {
		o, pids := started(t, 10*time.Second, `sleep 1000 & echo $! >>$1; echo left`)
		found(t, o, true, "left")
		gone(t, pids, 1)

		if o.Latency > 15*time.Second {
			t.Error("it waited for what held the output open:", o.Latency)
		}
	})

	t.Run("cancelling_kills_it_and_is_no_finding", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // when the program has begun
			for ctx.Err() == nil {
				if data, _ := os.ReadFile(file); strings.HasSuffix(string(data), "\n") {
					cancel()
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()

		_, err := checker().Run(ctx, "exec", "sh",
			options("args", `["-c", "echo $$ >$1; exec sleep 1000", "sh", `+strconv.Quote(file)+`]`))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}

		data, _ := os.ReadFile(file)
		pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
		gone(t, []int{pid}, 1)
	})

	t.Run("no_child_is_left_to_be_waited_for", func(t *testing.T) {
		for range 5 {
			run(t, "exec", "true")
		}
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err != syscall.ECHILD {
			t.Errorf("%d %v", pid, err)
		}
	})
}
