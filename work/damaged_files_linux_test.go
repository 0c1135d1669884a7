package work_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/memstore"
	"github.com/regentd/regent/work"
)

func TestJournalThatIsNoFile(t *testing.T) {
	for what, make := range map[string]func(path string) error{
		"a named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"a symbolic link": func(path string) error { return os.Symlink(path+".elsewhere", path) },
	} {
		for _, suffix := range []string{"", ".lock"} {
			t.Run(strings.ReplaceAll(what, " ", "_")+suffix+"_is_an_error_at_the_start", func(t *testing.T) {
				journal := filepath.Join(t.TempDir(), "journal")
				check(t, make(journal+suffix))
				w := &work.Worker{Election: "seat", Journal: journal}
				err := w.Open()
				if err == nil || !strings.Contains(err.Error(), journal+suffix+" is "+what+
					": it must be a regular file") {
					t.Errorf("got %v", err)
				}

				if _, err := os.Lstat(journal + suffix + ".elsewhere"); err == nil {
					t.Error("the link was followed")
				}
			})
		}
	}
}

func TestFenceThatIsNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "epoch")
	check(t, syscall.Mkfifo(path, 0o600))
	if _, err := (&regent.Fence{Path: path}).Highest(); err == nil ||
		!strings.Contains(err.Error(), "is a named pipe") {
		t.Errorf("got %v", err)
	}
}

// TestImpossibleEpoch has a worker whose epoch file holds a number that no election reaches.
func TestImpossibleEpoch(t *testing.T) {
	leaks(t)
	path := filepath.Join(t.TempDir(), "epoch")
	check(t, os.WriteFile(path, []byte("2305843009213693952\n"), 0o600)) // 2^61
	w := worker(newRan())
	w.Fence = &regent.Fence{Path: path}
	addr := strings.TrimSuffix(serve(t, w), "/v1/tasks")

	h := lead(t, memstore.New(), "a")
	p := h.pool(t, work.Options{})
	p.Add("w", addr)

	for _, id := range []string{"a", "b", "c"} {
		e := next(t, send(t, p, "w", id))
		if !errors.Is(e.err, work.ErrUnreachable) ||
			!strings.Contains(e.err.Error(), "epoch 2305843009213693952, which no term can have reached") {
			t.Fatalf("%s ended %v", id, e.err)
		}
	}

	if !h.Term.Valid() || h.m.Stats().Transitions != 1 {
		t.Errorf("the term is valid: %v, %d terms", h.Term.Valid(), h.m.Stats().Transitions)
	}

	if v := p.Workers()[0]; v.Err == nil || !strings.Contains(v.Err.Error(), "damaged") {
		t.Errorf("the worker is seen as %+v", v)
	}
}
