package work

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFailedOpen opens a journal that cannot be written, and then one that can. It is not parallel, because the limit
// holds for the whole process.
func TestFailedOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	begun := `{"begin":"x","kind":"k","epoch":1}` + "\n"
	check(t, os.WriteFile(path, []byte(begun), 0o600))
	var limit syscall.Rlimit
	check(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)

	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(len(begun)), Max: limit.Max}))
	w := &Worker{Election: "seat", Journal: path}
	err := w.Open()
	check(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	if err == nil {
		t.Fatal("it is open")
	}

	if err := w.Close(); err == nil {
		t.Error("it was never open, and is closed without a word")
	}

	again := &Worker{Election: "seat", Journal: path}
	check(t, again.Open())
	check(t, again.Close())
}
