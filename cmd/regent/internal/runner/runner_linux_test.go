package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/reaper/proctree"
	"golang.org/x/sys/unix"
)

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
	t.Run("the_process_tree_is_stopped_when_the_term_ends", func(t *testing.T) {
		c, out := shell(t, `sleep 1000 & echo $!; timeout 1000 sleep 1000 & echo $!; `+
			`setsid sleep 1000 & echo $!; echo $$; wait`)
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

	t.Run("a_program_that_ignores_TERM_gets_KILL_within_the_stop_timeout", func(t *testing.T) {
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

	t.Run("a_program_that_ignores_a_forwarded_TERM_gets_KILL_after_the_stop_timeout", func(t *testing.T) {
		c, out := shell(t, `trap '' TERM; setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' & `+
			`while :; do sleep 1000; done`)
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

	t.Run("a_suspended_program_gets_a_forwarded_TERM", func(t *testing.T) {
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

	t.Run("an_interrupt_kills_nothing", func(t *testing.T) {
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

	t.Run("processes_left_behind_are_stopped_before_the_program_counts_as_ended", func(t *testing.T) {
		c, out := shell(t, `sleep 1000 & echo $!; setsid sleep 1000 & echo $!; exit 0`)
		done := started(t.Context(), c)
		a, b := number(t, out), number(t, out)
		if r := result(t, done); r.Code != 0 || r.Lost || lives(a) || lives(b) {
			t.Errorf("%+v, %v, %v", r, lives(a), lives(b))
		}
	})

	t.Run("OnStart_gets_the_process_tree_before_and_after_the_start_and_OnEnd_at_the_end", func(t *testing.T) {
		c, _ := shell(t, "exit 0")
		var seen []proctree.Tree
		c.OnStart = func(b proctree.Tree) { seen = append(seen, b) }
		c.OnEnd = c.OnStart

		if _, err := c.Run(t.Context(), term); err != nil {
			t.Fatal(err)
		}
		if len(seen) != 3 || seen[0].Leader != 0 || seen[1].Leader == 0 || seen[1] != seen[2] ||
			seen[0].Mark != seen[1].Mark {
			t.Errorf("%+v", seen)
		}
	})

	t.Run("the_program_dies_with_this_process_even_without_a_reaper", func(t *testing.T) {
		run, lines := apart(t, "echo $$; exec sleep 1000")
		fd, err := unix.PidfdOpen(number(t, lines), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)

		if err := run.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
			int(within.Milliseconds())); n != 1 && err != unix.EINTR {
			t.Errorf("%d, %v", n, err)
		}
	})
}
