package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/reaper"
)

// inNamespace runs the real command in a pid namespace of its own, as a container does: as its first process, or as the
// child of one that ends when the node does, as tini: a shell with this script.
func inNamespace(t *testing.T, name, init string, args ...string) *daemon {
	t.Helper()

	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no pid namespace can be made here: %v: %s", err, out)
	}
	cmd := command(t, nil, args...)
	words := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}

	if init != "" {
		words = append(words, "sh", "-c", init, "init")
	}
	outer := exec.Command("unshare", slices.Concat(words, cmd.Args)...)
	outer.Env = slices.DeleteFunc(cmd.Env, func(v string) bool {
		return strings.HasPrefix(v, "INVOCATION_ID=") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})

	return launch(t, name, outer, nil)
}

// below returns the descendants of a process whose command line has a word, by their pids outside of the namespace.
func below(t *testing.T, pid int, word string) (found []int) {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}

			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			if slices.Contains(strings.Split(string(line), "\x00"), word) {
				found = append(found, child)
			}

			found = append(found, below(t, child, word)...)
		}
	}

	return found
}

// innermost returns the process that runs the node: the innermost one with its command line.
func innermost(t *testing.T, d *daemon, command string) int {
	t.Helper()
	all := below(t, d.cmd.Process.Pid, command)
	all = slices.DeleteFunc(all, func(pid int) bool { return len(below(t, pid, command)) > 0 })
	if len(all) != 1 {
		t.Fatalf("%v are %s", all, command)
	}

	return all[0]
}

// zombies counts the processes below one that have ended and were not reaped.
func zombies(t *testing.T, pid int) int {
	t.Helper()
	count := 0
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			child, _ := strconv.Atoi(field)
			if state(child) == "Z" {
				count++
			}
			count += zombies(t, child)
		}
	}

	return count
}

const (
	likeTini  = `"$@"; exit $?`
	noCgroups = `mount -t tmpfs none /sys/fs/cgroup && "$@"; exit $?` // then no cgroup can be made
)

func places() map[string]string { return map[string]string{"as_pid_1": "", "below_an_init": likeTini} }

// TestContainerCrash kills the node in a container. Its reaper must release before the container ends: the lease is far
// longer.
func TestContainerCrash(t *testing.T) {
	for place, under := range places() {
		t.Run(place, func(t *testing.T) {
			store := sqliteStore(t)
			long := []string{"--lease-duration", "10m", "--takeover-delay", "0", "--election-interval", "1m"}
			a := inNamespace(t, "a", under, serveArgs(t, "a", store, long...)...)
			a.serves()
			a.await("level=WARN.*this is a container, which the reaper cannot outlive")
			a.until("/leader", http.StatusOK)
			b := start(t, "b", store, nil, long...)
			b.until("/standby", http.StatusOK)
			killSlowly(t, a)
			b.until("/leader", http.StatusOK)

			select {
			case <-a.gone:
			case <-time.After(60 * time.Second):
				t.Fatal("the container goes on")
			}

			if code := a.cmd.ProcessState.ExitCode(); code != 128+9 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// killSlowly kills the node of a container while its reaper is suspended, and resumes the reaper once the node was
// reaped.
func killSlowly(t *testing.T, d *daemon) {
	t.Helper()
	node, keepers := innermost(t, d, "serve"), below(t, d.cmd.Process.Pid, reaper.Command)
	if len(keepers) != 1 {
		t.Fatalf("%v are reapers", keepers)
	}

	for _, s := range []struct {
		pid int
		sig syscall.Signal
	}{{keepers[0], syscall.SIGSTOP}, {node, syscall.SIGKILL}} {
		if err := syscall.Kill(s.pid, s.sig); err != nil {
			t.Fatal(err)
		}
	}

	for limit := time.Now().Add(30 * time.Second); state(node) != ""; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nobody reaps the node")
		}
	}

	select {
	case <-d.gone:
		t.Fatal("the container has ended before its reaper")
	case <-time.After(300 * time.Millisecond): // a process that does not wait is gone by then
	}

	if err := syscall.Kill(keepers[0], syscall.SIGCONT); err != nil {
		t.Fatalf("the reaper has ended with the node: %v", err)
	}
}

// TestContainerStop ends a node in a container as docker stop does.
func TestContainerStop(t *testing.T) {
	for place, under := range places() {
		t.Run(place, func(t *testing.T) {
			store := sqliteStore(t)
			a := inNamespace(t, "a", under, serveArgs(t, "a", store)...)
			a.serves()
			a.until("/leader", http.StatusOK)
			first := below(t, a.cmd.Process.Pid, "serve")[0]

			if under != "" {
				first = below(t, first, "serve")[0] // a shell forwards no signal
			}
			if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}

			select {
			case <-a.gone:
			case <-time.After(60 * time.Second):
				t.Fatal("it did not stop")
			}

			if code := a.cmd.ProcessState.ExitCode(); code != 0 || len(a.said("msg=stopped")) != 1 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestContainerZombies runs a program and a duty that leave orphans. When those end they must be reaped.
func TestContainerZombies(t *testing.T) {
	const orphans = `i=0; while [ $i -lt 40 ]; do (sh -c 'exit 0' &) ; i=$((i+1)); done; echo made >&2; exec sleep 1000`
	for place, under := range places() {
		for command, args := range map[string][]string{
			"serve": nil,
			"run":   {"run", "jobs", "--node", "a"},
		} {
			t.Run(command+"_"+place, func(t *testing.T) {
				dir := inMemory(t)
				store := "sqlite:" + filepath.Join(dir, "regent.db")

				if command == "serve" {
					file := filepath.Join(dir, "regent.yaml")
					text := "duties:\n  orphans:\n    command: [sh, -c, \"" + strings.ReplaceAll(orphans, `"`, `\"`) +
						"\"]\n"
					writeFile(t, file, text)
					args = serveArgs(t, "a", store, "--config", file)
				} else {
					args = append(args, "--store", store, "--", "sh", "-c", orphans)
				}

				a := inNamespace(t, "a", under, args...)
				a.await("^made")
				left := 0

				for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(
					20 * time.Millisecond) {
					if left = zombies(t, a.cmd.Process.Pid); left == 0 {
						break
					}
				}

				if left > 0 {
					t.Errorf("%d zombies are left", left)
				}
				if len(below(t, a.cmd.Process.Pid, reaper.Command)) != 1 {
					t.Error("there is no reaper")
				}
			})
		}
	}
}

// TestContainerEscapee kills 'regent run' in a container whose program has left a process that is connected to nothing.
// In a container it is found without cgroups: it is a child of the process that adopts orphans.
func TestContainerEscapee(t *testing.T) {
	dir := inMemory(t)
	store, file := "sqlite:"+filepath.Join(dir, "regent.db"), filepath.Join(dir, "pid")
	a := inNamespace(t, "a", noCgroups, "run", "jobs", "--node", "a", "--store", store, "--", "sh", "-c",
		strings.ReplaceAll(strings.ReplaceAll(escapee, "FILE", file), "echo ready", "echo ready >&2"))
	a.await("^ready")

	var lost int
	for _, pid := range below(t, a.cmd.Process.Pid, "-c") {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); len(line) == 0 ||
			!strings.Contains(string(line), "PATH=") {
			lost = pid
		}
	}

	if lost == 0 {
		t.Fatal("the escapee is not there")
	}

	second, next := runCommand(t, "b", store, strings.ReplaceAll(printState, "PID", strconv.Itoa(lost)))
	if err := syscall.Kill(innermost(t, a, "run"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, next); got != "none" && !strings.HasPrefix(got, "Z") && !strings.HasPrefix(got, "X") {
		t.Errorf("the next leader runs while %d lives: %s", lost, got)
	}
	if err := second.Wait(); second.ProcessState.ExitCode() != 3 {
		t.Error(err)
	}
}
