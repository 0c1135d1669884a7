package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestInheritanceAndSignals(t *testing.T) {
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
		c.Env = []string{"COLOUR=red", "REGENT_EPOCH=1"}
		c.Dir = "/"

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

	t.Run("signals_are_forwarded_to_the_whole_group", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
			syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH} {
			n := int(sig)
			c, out := shell(t, fmt.Sprintf(
				`trap 'exit %d' %d; sh -c 'trap "echo child; exit" %d; echo ready; while :; do sleep 0.01; done'; `+
					`exit 1`, n, n, n))
			c.Stderr = nil // a shell reports children that died
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

	t.Run("a_signal_to_this_process_is_forwarded_or_ends_it_if_no_program_runs", func(t *testing.T) {
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
