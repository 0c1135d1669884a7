package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemoKeys runs the demo on a terminal: keys end the tour and play faults, and nothing is left behind.
func TestDemoKeys(t *testing.T) {
	t.Parallel()
	user, program := terminal(t)
	cmd := command(t, nil, "demo")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	stuck := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()

	var shown strings.Builder
	from := 0 // where the text that was waited for last ends
	buf := make([]byte, 4096)
	until := func(text string) {
		t.Helper()
		for {
			if i := strings.Index(shown.String()[from:], text); i >= 0 {
				from += i + len(text)
				return
			}
			n, err := user.Read(buf)
			shown.Write(buf[:n])
			if err != nil {
				t.Fatalf("it ended before it showed %q: %v\n%s", text, err, shown.String())
			}
		}
	}
	press := func(key string) {
		t.Helper()
		if _, err := io.WriteString(user, key); err != nil {
			t.Fatal(err)
		}
	}

	until("k kill -9") // the keys are shown, so the cluster runs
	press("k")
	until("its button on the page")
	until("kill -9 node-")
	until("becomes leader, epoch 2, after node-") // as the node has logged it
	press("p")
	until("paused")
	press("r")
	until("resumed")
	press("q")

	_, _ = io.Copy(&shown, user) // it ends with an error when the program has ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, shown.String())
	}
	leavesNothing(t, cmd.Process.Pid)
}

// TestDemoEnds ends the demo by its time and by a signal, in the middle of the tour.
func TestDemoEnds(t *testing.T) {
	t.Parallel()
	// The variables of this shell are for other nodes.
	env := []string{"REGENT_TOKEN=of-another-cluster", "REGENT_STROE=mistyped"}
	timed := command(t, env, "demo", "--for", "3s")
	code, out := ends(t, timed)
	if code != 0 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	leavesNothing(t, timed.Process.Pid)
	demoUntil(t, env, "leads, epoch 1", "demo")
}

// demoUntil runs a demo until it has shown a text, interrupts it, and returns what it has shown.
func demoUntil(t *testing.T, env []string, text string, args ...string) string {
	t.Helper()
	cmd := command(t, env, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()

	shown := readUntil(t, out, text)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("regent %s: after Ctrl-C: %v", strings.Join(args, " "), err)
	}
	leavesNothing(t, cmd.Process.Pid)
	return shown + string(rest)
}

// leavesNothing fails if a process of a demo lives on: each of them has the demo's pid in its environment.
func leavesNothing(t *testing.T, demo int) {
	t.Helper()
	mark := "DEMO_OF_REGENT=" + strconv.Itoa(demo) + "\x00"
	left := func() (found []string) {
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range all {
			env, _ := os.ReadFile(path)
			if strings.Contains(string(env), mark) {
				found = append(found, filepath.Dir(path))
			}
		}
		return found
	}
	waitFor(t, "nothing of the demo runs", func() bool { return len(left()) == 0 })
}
