package compare

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNothingIsLeft kills the bench while servers, nodes and their reapers run, and checks that no process outlives it.
// A reaper whose store has died as well retries until the lease has expired, as it should: the test ends those itself.
func TestNothingIsLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers")
	}

	t.Parallel()
	bin, err := command()
	if err != nil {
		t.Fatal(err)
	}

	dir, err := os.MkdirTemp("", "killed-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)

	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}

	var said bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "-quick", "-regent", bin, "processes")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	dieWithUs(cmd, syscall.SIGKILL)

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	until(t, "a reaper runs", func() bool {
		select {
		case <-ended:
			t.Fatalf("it ended first: %s", &said)
		default:
		}

		all, reapers := processesOf(dir)
		return len(reapers) > 0 && len(all) > 0
	})

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	<-ended
	until(t, "all but reapers are gone", func() bool {
		all, _ := processesOf(dir)
		return len(all) == 0
	})
	until(t, "reapers are gone", func() bool {
		_, reapers := processesOf(dir)
		for _, pid := range reapers {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(reapers) == 0
	})
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(waitLimit); !f(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("not after %v: %s", waitLimit, what)
		}
	}
}

// processesOf returns the processes that have a directory as working directory, in their executable or in their
// arguments, and the reapers among them.
func processesOf(dir string) (others, reapers []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		cwd, _ := os.Readlink(proc + "/cwd")
		exe, _ := os.Readlink(proc + "/exe")
		env, _ := os.ReadFile(proc + "/environ")
		if !strings.HasPrefix(cwd, dir) && !strings.HasPrefix(exe, dir) && !bytes.Contains(env, []byte("TMPDIR="+dir)) {
			continue
		}

		pid, _ := strconv.Atoi(filepath.Base(proc))
		if line, _ := os.ReadFile(proc + "/cmdline"); bytes.Contains(line, []byte("reaper-process")) {
			reapers = append(reapers, pid)
		} else {
			others = append(others, pid)
		}
	}

	return others, reapers
}
