package runner

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"golang.org/x/sys/unix"
)

// TestMain runs the tests or, as the command "run", a process that runs a program: one with a terminal, or one to be
// killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "run" {
		c := &Command{Path: "/bin/sh", Args: []string{"-c", os.Args[2]}, Stdin: os.Stdin, Stdout: os.Stdout,
			Stderr: os.Stderr, StopTimeout: time.Second,
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

	// These tests may run under nohup. A shell cannot trap a signal that was ignored when it was started.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

var term = regent.Term{Election: "jobs", Epoch: 7, Incarnation: "ada1"}

const within = 20 * time.Second

// shell returns a command that runs a script, and a reader of its output.
func shell(t *testing.T, script string) (*Command, *bufio.Reader) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	if err := r.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}

	return &Command{Path: "/bin/sh", Args: []string{"-c", script}, Stdout: w, Stderr: os.Stderr, Node: "ada",
		StopTimeout: 2 * time.Second}, bufio.NewReader(r)
}

// line reads a line.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	return strings.TrimSpace(s)
}

// number reads a line with a number.
func number(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	n, err := strconv.Atoi(line(t, r))
	if err != nil {
		t.Fatal(err)
	}

	return n
}

// lives reports whether a process lives.
func lives(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)

	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n == 0
}

// apart runs a script below a process of its own, and returns a reader of the output of both. It ends with the test.
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

// result waits until the program has ended.
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

// send sends a signal to the program.
func send(t *testing.T, c *Command, sig syscall.Signal) {
	t.Helper()
	if err := c.Signal(sig); err != nil {
		t.Fatal(err)
	}
}
