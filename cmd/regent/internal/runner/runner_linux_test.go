package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/reaper/proctree"
	"golang.org/x/sys/unix"
)

// The test binary is also a process that runs a command: to be one with a terminal, or one that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "run" {
		c := &Command{Path: "/bin/sh", Args: []string{"-c", os.Args[2]}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, StopTimeout: time.Second,
			OnSuspend: func() { fmt.Println("not stopped") }}
		ctx, stop := Forward(context.Background(), c)
		if os.Args[2] == "" { // nothing to run yet
			fmt.Println("ready")
			<-ctx.Done()
			os.Exit(interrupted(ctx))
		}
		r, err := c.Run(ctx, term)
		stop()
		fmt.Println("ran:", r.Code, r.Lost, err)
		os.Exit(r.Code)
	}
	os.Exit(m.Run())
}

var term = regent.Term{Election: "jobs", Epoch: 7, Incarnation: "ada1"}

const within = 20 * time.Second

// shell is a command with its output in a pipe.
func shell(t *testing.T, script string) (*Command, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if err := r.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	return &Command{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: w, Stderr: os.Stderr, Node: "ada", StopTimeout: 2 * time.Second}, bufio.NewReader(r)
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

func number(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	n, err := strconv.Atoi(line(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func lives(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}

// apart runs a script under a process of its own, and reads what both say. It ends with the test.
func apart(t *testing.T, script string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	run := exec.Command("/proc/self/exe", "run", script)
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(within, func() { _ = run.Process.Kill() })
	t.Cleanup(func() {
		stuck.Stop()
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	return run, bufio.NewReader(out)
}

// started runs a command in the background.
func started(ctx context.Context, c *Command) <-chan Result {
	done := make(chan Result, 1)
	go func() {
		r, err := c.Run(ctx, term)
		if err != nil {
			r.Cause = err
		}
		done <- r
	}()
	return done
}

func result(t *testing.T, done <-chan Result) Result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(within):
		t.Fatal("the command did not end")
		return Result{}
	}
}

func send(t *testing.T, c *Command, sig syscall.Signal) {
	t.Helper()
	if err := c.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		code   int
		signal syscall.Signal
	}{
		"success_is_0":                         {"exit 0", 0, 0},
		"a_failure_is_its_own_code":            {"exit 42", 42, 0},
		"a_death_by_signal_n_is_128_plus_n":    {"kill -KILL $$", 137, syscall.SIGKILL},
		"the_code_is_of_the_command_itself":    {"(exit 3) & exit 4", 4, 0},
		"what_it_left_running_changes_no_code": {"sleep 1000 & exit 5", 5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, _ := shell(t, c.script)
			r, err := cmd.Run(t.Context(), term)
			if err != nil || r.Code != c.code || r.Signal != c.signal || r.Lost {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	t.Run("a_command_that_is_not_there_is_127_and_one_that_cannot_be_run_126", func(t *testing.T) {
		plain := filepath.Join(t.TempDir(), "plain")
		if err := os.WriteFile(plain, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for path, code := range map[string]int{"no-such-command": 127, "/no/such": 127, plain: 126} {
			if r, err := (&Command{Path: path}).Run(t.Context(), term); err == nil || r.Code != code {
				t.Errorf("%s: %+v, %v", path, r, err)
			}
		}
	})
	t.Run("nothing_is_started_in_a_term_that_has_ended", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(regent.ErrLost)
		c, _ := shell(t, "exit 0")
		c.OnStart = func(proctree.Tree) { t.Error("started") }
		if r, err := c.Run(ctx, term); err != nil || !r.Lost || r.Cause != regent.ErrLost {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestStop(t *testing.T) {
	t.Run("all_that_it_started_is_stopped_when_the_term_ends", func(t *testing.T) {
		c, out := shell(t, `sleep 1000 & echo $!; timeout 1000 sleep 1000 & echo $!; setsid sleep 1000 & echo $!; echo $$; wait`)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := started(ctx, c)
		var pids []int
		for range 4 {
			pids = append(pids, number(t, out))
		}
		cancel(regent.ErrLost)
		r := result(t, done)
		if !r.Lost || r.Code != 128+15 || !errors.Is(r.Cause, regent.ErrLost) {
			t.Errorf("%+v", r)
		}
		for _, pid := range pids {
			if lives(pid) {
				t.Errorf("%d of %v lives", pid, pids)
			}
		}
	})
	t.Run("who_ignores_TERM_gets_KILL_within_the_stop_timeout", func(t *testing.T) {
		c, out := shell(t, `trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1000; done`)
		c.StopTimeout = 20 * time.Second
		if got := c.killAfter(); got != 15*time.Second {
			t.Errorf("it would get KILL after %v", got)
		}
		c.KillAfter = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := started(ctx, c)
		child := number(t, out)
		began := time.Now()
		cancel()
		r := result(t, done)
		if took := time.Since(began); r.Code != 128+9 || took < c.KillAfter || took > c.StopTimeout || lives(child) {
			t.Errorf("%+v after %v", r, took)
		}
	})
	t.Run("who_ignores_a_TERM_that_was_passed_on_gets_KILL_after_the_stop_timeout", func(t *testing.T) {
		c, out := shell(t, `trap '' TERM; setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' & while :; do sleep 1000; done`)
		c.StopTimeout = time.Second
		done := started(t.Context(), c)
		child := number(t, out)
		began := time.Now()
		send(t, c, syscall.SIGTERM)
		send(t, c, syscall.SIGTERM) // which gives it no more time
		r := result(t, done)
		if took := time.Since(began); r.Code != 128+9 || r.Lost || !r.Ended() || took < c.StopTimeout || lives(child) {
			t.Errorf("%+v after %v, and its child lives: %v", r, took, lives(child))
		}
	})
	t.Run("who_is_stopped_hears_a_TERM_that_was_passed_on", func(t *testing.T) {
		c, out := shell(t, `trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done`)
		c.StopTimeout = within
		done := started(t.Context(), c)
		line(t, out)
		send(t, c, syscall.SIGSTOP)
		send(t, c, syscall.SIGTERM)
		if r := result(t, done); r.Code != 7 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an_interrupt_kills_nobody", func(t *testing.T) {
		c, out := shell(t, `trap 'echo interrupted' INT; echo ready; sleep 1; sleep 1; exit 3`)
		c.StopTimeout = 100 * time.Millisecond
		done := started(t.Context(), c)
		line(t, out)
		send(t, c, syscall.SIGINT)
		if r := result(t, done); r.Code != 3 {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a_code_of_0_does_not_hide_a_loss", func(t *testing.T) {
		c, out := shell(t, `trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done`)
		ctx, cancel := context.WithCancel(t.Context())
		done := started(ctx, c)
		line(t, out)
		cancel()
		if r := result(t, done); r.Code != 0 || !r.Lost {
			t.Errorf("%+v", r)
		}
	})
	t.Run("what_it_left_running_is_stopped_before_it_counts_as_ended", func(t *testing.T) {
		c, out := shell(t, `sleep 1000 & echo $!; setsid sleep 1000 & echo $!; exit 0`)
		done := started(t.Context(), c)
		a, b := number(t, out), number(t, out)
		if r := result(t, done); r.Code != 0 || r.Lost || lives(a) || lives(b) {
			t.Errorf("%+v, %v, %v", r, lives(a), lives(b))
		}
	})
	t.Run("its_process_tree_is_told_before_it_starts_and_when_it_has_and_when_nothing_is_left", func(t *testing.T) {
		c, _ := shell(t, "exit 0")
		var told []proctree.Tree
		c.OnStart = func(b proctree.Tree) { told = append(told, b) }
		c.OnEnd = c.OnStart
		if _, err := c.Run(t.Context(), term); err != nil {
			t.Fatal(err)
		}
		if len(told) != 3 || told[0].Leader != 0 || told[1].Leader == 0 || told[1] != told[2] || told[0].Mark != told[1].Mark {
			t.Errorf("%+v", told)
		}
	})
	t.Run("the_command_dies_with_this_process_even_without_a_reaper", func(t *testing.T) {
		run, lines := apart(t, "echo $$; exec sleep 1000")
		fd, err := unix.PidfdOpen(number(t, lines), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := run.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(within.Milliseconds())); n != 1 && err != unix.EINTR {
			t.Errorf("%d, %v", n, err)
		}
	})
}

func TestPassingOn(t *testing.T) {
	t.Run("the_term_is_in_the_environment_over_what_was_inherited", func(t *testing.T) {
		for _, v := range []string{"REGENT_ELECTION", "REGENT_EPOCH", "REGENT_TERM", "REGENT_NODE"} {
			t.Setenv(v, "of another run")
		}
		c, out := shell(t, `echo "$REGENT_ELECTION $REGENT_EPOCH $REGENT_TERM $REGENT_NODE"; env | grep -c '^REGENT_'`)
		if _, err := c.Run(t.Context(), term); err != nil {
			t.Fatal(err)
		}
		if got := line(t, out); got != "jobs 7 "+term.Incarnation+" ada" {
			t.Error(got)
		}
		if got := line(t, out); got != "5" {
			t.Errorf("%s variables", got)
		}
	})
	t.Run("a_given_environment_and_directory_are_used", func(t *testing.T) {
		c, out := shell(t, `echo "$COLOUR $REGENT_EPOCH $(pwd)"`)
		c.Env, c.Dir = []string{"COLOUR=red", "REGENT_EPOCH=1"}, "/"
		if _, err := c.Run(t.Context(), term); err != nil {
			t.Fatal(err)
		}
		if got := line(t, out); got != "red 7 /" {
			t.Error(got)
		}
	})
	t.Run("stdin_is_passed_through", func(t *testing.T) {
		in, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		c, out := shell(t, "cat")
		c.Stdin = in
		done := started(t.Context(), c)
		fmt.Fprintln(w, "hello")
		w.Close()
		if got := line(t, out); got != "hello" {
			t.Error(got)
		}
		result(t, done)
	})
	t.Run("signals_are_passed_on_to_the_whole_group", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH} {
			n := int(sig)
			c, out := shell(t, fmt.Sprintf(`trap 'exit %d' %d; sh -c 'trap "echo child; exit" %d; echo ready; while :; do sleep 0.01; done'; exit 1`, n, n, n))
			c.Stderr = nil // a shell tells of children that died
			done := started(t.Context(), c)
			line(t, out)
			send(t, c, sig)
			if got := line(t, out); got != "child" {
				t.Errorf("%v: %s", sig, got)
			}
			if r := result(t, done); r.Code != n || r.Lost {
				t.Errorf("%v: %+v", sig, r)
			}
		}
	})
	t.Run("a_signal_to_nobody_is_an_error", func(t *testing.T) {
		if err := new(Command).Signal(syscall.SIGTERM); !errors.Is(err, ErrNotRunning) {
			t.Error(err)
		}
	})
	t.Run("what_this_process_gets_is_passed_on_and_ends_it_if_there_is_no_command", func(t *testing.T) {
		run, lines := apart(t, `trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done`)
		line(t, lines)
		if err := run.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(lines)
		if err := run.Wait(); run.ProcessState.ExitCode() != 9 {
			t.Errorf("%v: %s", err, rest)
		}
		ctx, stop := Forward(t.Context(), new(Command))
		defer stop()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(within):
			t.Fatal("it goes on")
		}
		if interrupted(ctx) != 129 {
			t.Error(context.Cause(ctx))
		}
	})
}
