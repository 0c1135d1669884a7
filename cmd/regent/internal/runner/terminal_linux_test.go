package runner

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty opens a pseudo-terminal: the user's side and the program's side.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}

	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}

	if err != nil {
		t.Skip("no terminals here:", err)
	}
	return master, slave
}

// onTerminal runs a script under a process that has a terminal, as a shell would start it.
func onTerminal(t *testing.T, script string) (user *os.File, out *bufio.Scanner) {
	t.Helper()
	master, slave := pty(t)
	run := exec.Command("/proc/self/exe", "run", script)
	run.Stdin = slave
	run.Stdout = slave
	run.Stderr = slave
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}

	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
	})
	stuck := time.AfterFunc(within, func() { _ = run.Process.Kill() })
	t.Cleanup(func() { stuck.Stop() })

	return master, bufio.NewScanner(master)
}

// reads waits for a line that ends so.
func reads(t *testing.T, out *bufio.Scanner, want string) {
	t.Helper()
	var seen []string

	for out.Scan() {
		seen = append(seen, out.Text())
		if strings.HasSuffix(strings.TrimSpace(out.Text()), want) {
			return
		}
	}

	t.Fatalf("%q did not come, only %q", want, seen)
}

func TestTerminal(t *testing.T) {
	press := func(t *testing.T, user *os.File, keys string) {
		t.Helper()
		if _, err := user.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("a_command_reads_from_the_terminal", func(t *testing.T) {
		user, out := onTerminal(t, `echo ready; read x; echo "got $x"; exit 3`)
		reads(t, out, "ready")
		press(t, user, "hello\n")
		reads(t, out, "got hello")
		reads(t, out, "ran: 3 false <nil>")
	})

	t.Run("ctrl_c_goes_to_the_command_alone", func(t *testing.T) {
		user, out := onTerminal(t, `trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.01; done`)
		reads(t, out, "ready")
		press(t, user, "\x03")
		reads(t, out, "interrupted")
		reads(t, out, "ran: 4 false <nil>")
	})

	t.Run("ctrl_z_does_not_leave_a_leader_stopped", func(t *testing.T) {
		user, out := onTerminal(t, `echo ready; read x; echo "got $x"`)
		reads(t, out, "ready")

		// The first ones may come while the program gets the terminal and CONT: those are not reported.
		reported := make(chan struct{})
		pressed := make(chan struct{})
		go func() {
			defer close(pressed)
			for tick := time.Tick(100 * time.Millisecond); ; <-tick {
				_, _ = user.WriteString("\x1a")
				select {
				case <-reported:
					return
				case <-t.Context().Done():
					return
				default:
				}
			}
		}()

		reads(t, out, "not stopped")
		close(reported)
		<-pressed
		press(t, user, "hello\n")
		reads(t, out, "got hello")
	})

	t.Run("the_foreground_is_taken_back", func(t *testing.T) {
		_, out := onTerminal(t, `stty tostop; echo ready`)
		reads(t, out, "ran: 0 false <nil>") // from the background this would stop it
	})
}

// TestSuspend sends a process what Ctrl-Z sends it where its program does not have the terminal.
func TestSuspend(t *testing.T) {
	t.Run("a_leader_goes_on", func(t *testing.T) {
		run, out := apart(t, `echo ready; exec sleep 1000`)
		line(t, out)

		if err := run.Process.Signal(syscall.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		if got := line(t, out); got != "not stopped" {
			t.Error(got)
		}
	})

	t.Run("a_standby_is_suspended_and_goes_on_after_CONT", func(t *testing.T) {
		run, out := apart(t, "")
		line(t, out)

		if err := run.Process.Signal(syscall.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		awaitStop(t, run.Process.Pid)

		for _, sig := range []syscall.Signal{syscall.SIGCONT, syscall.SIGTERM} {
			if err := run.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
		}

		if err := run.Wait(); run.ProcessState.ExitCode() != 128+15 {
			t.Error(err)
		}
	})
}

// awaitStop waits until a child of this process is stopped.
func awaitStop(t *testing.T, pid int) {
	t.Helper()

	for limit := time.Now().Add(within); !stopped(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it is not stopped")
		}
	}
}
