package proctree

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// start runs a shell in a group of its own, and returns the pids that it prints.
func start(t *testing.T, mark, shell string, count int) (*exec.Cmd, []int) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", shell)
	cmd.Env = append(os.Environ(), mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var pids []int
	for lines := bufio.NewScanner(out); len(pids) < count && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}

		pids = append(pids, pid)
		t.Cleanup(func() { // of this test's own making, if it still is
			if lives(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}

	go func() { _ = cmd.Wait() }()
	return cmd, pids
}

func lives(pid int) bool {
	p, ok := read(pid)
	return ok && !(p.zombie && p.dead())
}

func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// all kinds of children: in the group, out of it, in a session of its own, as a daemon whose parent is gone.
const all = `echo $$; sleep 1000 & echo $!; timeout 1000 sleep 1000 & echo $!; setsid sleep 1000 & echo $!; ` +
	`(setsid sh -c 'echo $$; exec sleep 1000' &); wait`

func TestTree(t *testing.T) {
	gone := func(t *testing.T, pids []int) {
		t.Helper()
		for _, pid := range pids {
			if lives(pid) {
				t.Errorf("%d of %v lives", pid, pids)
			}
		}
	}

	t.Run("everything_is_killed_in_the_group_and_out_of_it", func(t *testing.T) {
		b := New()
		cmd, pids := start(t, b.Mark, all, 5)
		if err := b.Started(cmd.Process.Pid).Kill(limit(t)); err != nil {
			t.Error(err)
		}
		gone(t, pids)
	})

	t.Run("everything_is_found_by_its_mark_before_the_pid_is_known", func(t *testing.T) {
		b := New()
		_, pids := start(t, b.Mark, all, 5)
		if err := b.Kill(limit(t)); err != nil {
			t.Error(err)
		}
		gone(t, pids)
	})

	t.Run("a_descendant_without_the_mark_is_found_by_its_parent", func(t *testing.T) {
		b := New()
		cmd, pids := start(t, b.Mark, `env -u REGENT_RUN setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' & wait`, 2)
		if err := b.Started(cmd.Process.Pid).Kill(limit(t)); err != nil {
			t.Error(err)
		}
		gone(t, pids[:1])
	})

	t.Run("those_who_hear_TERM_end_by_it_and_the_others_by_KILL", func(t *testing.T) {
		b := New()
		cmd, pids := start(t, b.Mark, `trap 'exit 7' TERM; `+
			`(trap '' TERM; sh -c 'echo $$; exec sleep 1000') & sleep 1000 & echo $!; wait`, 2)
		b.Started(cmd.Process.Pid).Stop(50*time.Millisecond, func() {})
		gone(t, pids)
	})

	t.Run("a_stopped_process_hears_TERM", func(t *testing.T) {
		b := New()
		cmd, pids := start(t, b.Mark, `echo $$; kill -STOP $$; sleep 1000`, 1)
		began := time.Now()
		b.Started(cmd.Process.Pid).Stop(10*time.Second, func() {})
		gone(t, pids)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})

	t.Run("a_pid_that_was_given_to_another_process_is_left_alone", func(t *testing.T) {
		cmd, pids := start(t, "OTHER=1", `echo $$; exec sleep 1000`, 1)
		b := New()
		b.Leader, b.Start = cmd.Process.Pid, startTime(cmd.Process.Pid)-1
		if err := b.Kill(limit(t)); err != nil {
			t.Error(err)
		}

		if err := b.Signal(syscall.SIGKILL); err != syscall.ESRCH {
			t.Error(err)
		}

		if !lives(pids[0]) {
			t.Error("an innocent process was killed")
		}
	})

	t.Run("killing_gives_up_when_its_context_ends", func(t *testing.T) {
		b := New()
		cmd, _ := start(t, b.Mark, `echo $$; exec sleep 1000`, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Started(cmd.Process.Pid).until(ctx, func([]int) {}); err == nil {
			t.Error("it said that nothing lives")
		}
	})
}
