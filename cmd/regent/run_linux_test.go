package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/reaper/proctree"
)

// runCommand starts a real 'regent run' of a script, and returns a reader of its output.
func runCommand(t *testing.T, name, store, script string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	args = append([]string{"run", "jobs", "--node", name, "--store", store}, args...)
	cmd := command(t, nil, append(args, "--", "sh", "-c", script)...)
	cmd.Stderr = os.Stderr

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	stuck := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		stuck.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	return cmd, bufio.NewReader(out)
}

func readLine(t *testing.T, out *bufio.Reader) string {
	t.Helper()
	text, err := out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", text, err)
	}

	return strings.TrimSpace(text)
}

// TestRunTerminated sends TERM to a real 'regent run' whose program ignores it.
func TestRunTerminated(t *testing.T) {
	store := sqliteStore(t)
	first, out := runCommand(t, "a", store, `trap '' TERM; echo $$; while :; do sleep 1000; done`)
	pid, err := strconv.Atoi(readLine(t, out))
	if err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}

	err = first.Wait()
	if took := time.Since(began); first.ProcessState.ExitCode() != 128+9 || took < time.Second || running(pid) {
		t.Errorf("%v after %v; the program lives: %v", err, took, running(pid))
	}

	_, out = runCommand(t, "b", store, "echo done")
	if got := readLine(t, out); got != "done" {
		t.Error(got)
	}
}

// TestRunKillIsLogged has programs that ignore TERM killed: after a TERM that was forwarded, and after the end of a
// term.
func TestRunKillIsLogged(t *testing.T) {
	const stubborn = `trap '' TERM; echo ready; while :; do sleep 1000; done`
	begin := func(t *testing.T, store string, args ...string) *daemon {
		ready := make(chan struct{}, 1)
		args = append([]string{"run", "jobs", "--node", "a", "--store", store, "--stop-timeout", "1s"}, args...)
		d := launch(t, "a", command(t, nil, append(args, "--", "sh", "-c", stubborn)...), func([]byte) {
			ready <- struct{}{}
		})

		select {
		case <-ready:
		case <-time.After(time.Minute):
			t.Fatal("the program does not run")
		}

		return d
	}

	t.Run("TERM_was_passed_on", func(t *testing.T) {
		t.Parallel()
		d := begin(t, sqliteStore(t))
		d.signal(syscall.SIGTERM)
		d.await(`level=WARN msg="program did not stop in time.* election=jobs reason="TERM was forwarded.* after=1s ` +
			`stopTimeout=1s`)
		<-d.gone
	})

	t.Run("the_term_has_ended", func(t *testing.T) {
		t.Parallel()
		store := sqliteStore(t)
		d := begin(t, store)
		b := start(t, "b", store, nil, "--election", "jobs")
		b.until("/standby", 200)

		if code, _, body := b.do("POST", "/v1/elections/jobs/step-down", `{"epoch": 1}`); code != 200 {
			t.Fatalf("%d %v", code, body)
		}
		d.await(`level=WARN msg="program did not stop in time.* reason="the term has ended: .* after=750ms ` +
			`stopTimeout=1s`)
		<-d.gone
		b.stop()
	})
}

// escapee leaves the program's group, session and process tree, with a clean environment, and writes its pid to a file.
const escapee = `(setsid env -i sh -c 'echo $$ > FILE; while :; do sleep 0.01; done' &)
	while ! [ -s FILE ]; do sleep 0.01; done; echo ready; exec sleep 1000`

// printState prints the state of a process, or "none".
const printState = `if [ -e /proc/PID/stat ]; then sed 's/.*) //' /proc/PID/stat; else echo none; fi; exit 3`

// TestEscapee kills a real 'regent run' whose program has left a process that is connected to nothing. The program of
// the next leader prints its state.
func TestEscapee(t *testing.T) {
	if err := proctree.Confinable(); err != nil {
		t.Skip("no cgroup can be made here:", err)
	}

	for name, sig := range map[string]syscall.Signal{
		"is_killed_after_a_kill_and_before_the_next_leader_begins":   syscall.SIGKILL,
		"is_ended_after_a_TERM_and_before_the_next_leader_begins":    syscall.SIGTERM,
		"is_killed_after_a_freeze_and_before_the_next_leader_begins": syscall.SIGSTOP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store, file := "sqlite:"+filepath.Join(dir, "regent.db"), filepath.Join(dir, "pid")
			run, out := runCommand(t, "a", store, strings.ReplaceAll(escapee, "FILE", file))
			readLine(t, out)

			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			pid := strings.TrimSpace(string(text))
			t.Cleanup(func() {
				if n, err := strconv.Atoi(pid); err == nil && t.Failed() {
					_ = syscall.Kill(n, syscall.SIGKILL)
				}
			})

			second, next := runCommand(t, "b", store, strings.ReplaceAll(printState, "PID", pid))
			if err := run.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if got := readLine(t, next); got != "none" && !strings.HasPrefix(got, "Z") && !strings.HasPrefix(got, "X") {
				t.Errorf("the next leader runs while %s lives: %s", pid, got)
			}
			if err := second.Wait(); second.ProcessState.ExitCode() != 3 {
				t.Error(err)
			}
		})
	}
}
