package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// binary is the command as users have it, built once.
var binary = sync.OnceValues(func() (string, error) { return build("regent", ".") })

// build builds a program with flags of the Go tool, and returns its path.
func build(name, dir string, flags ...string) (string, error) {
	tmp, err := os.MkdirTemp("", "regent-test-")
	if err != nil {
		return "", err
	}

	bin := filepath.Join(tmp, name)
	args := append(append([]string{"build", "-o", bin}, flags...), dir)
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}

	return bin, nil
}

// sqliteStore returns the address of a database that is not there yet.
func sqliteStore(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(inMemory(t), "regent.db")
}

// inMemory returns a directory for a store. It is in memory where the system has a place for that: a disk that takes
// seconds to sync, because other tests use it, would cost leaders their leases.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "regent-test-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	return dir
}

// writeFile writes a file for its owner alone, and returns its path.
func writeFile(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command returns the built command with arguments. It does not inherit variables that would configure it.
func command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return commandOf(t, binary, env, args...)
}

// commandOf returns one of the built commands with arguments.
func commandOf(t testing.TB, built func() (string, error), env []string, args ...string) *exec.Cmd {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(bin, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "REGENT_") || strings.HasPrefix(v, "COORDINATOR_")
	})
	cmd.Env = append(cmd.Env, env...)

	return cmd
}
