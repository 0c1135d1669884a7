package work

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent/internal/virtual"
)

// TestUnwritableJournal has a worker whose disk is full for a while: its tasks must go to others.
func TestUnwritableJournal(t *testing.T) {
	virtual.Test(t, func(t *testing.T) {
		w := &Worker{
			Journal: filepath.Join(t.TempDir(), "journal"), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		w.Handle("do", func(context.Context, Task) (json.RawMessage, error) { return nil, nil })
		if code := deliver(w, "first"); code != http.StatusOK {
			t.Fatal(code)
		}
		settled(t, w)

		good := w.journal.file
		full, err := os.Open(w.Journal) // not for writing: it fails as a full disk does
		if err != nil {
			t.Fatal(err)
		}
		w.journal.mu.Lock()
		w.journal.file = full
		w.journal.mu.Unlock()
		if code := deliver(w, "second"); code != http.StatusOK {
			t.Errorf("the task that meets the failure: %d", code)
		}
		settled(t, w)
		if err := w.Unwritable(); err == nil || !strings.Contains(err.Error(), "write journal") {
			t.Errorf("the worker says %v", err)
		}
		if code := deliver(w, "third"); code != http.StatusTooManyRequests {
			t.Errorf("the next task: %d", code)
		}

		block := w.Journal + ".new"
		if err := os.MkdirAll(filepath.Join(block, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*journalBackoff + time.Second)
		if err := w.Unwritable(); err == nil || deliver(w, "still") != http.StatusTooManyRequests {
			t.Errorf("the disk is still full: %v", err)
		}

		w.journal.mu.Lock()
		_ = w.journal.file.Close()
		w.journal.file = good
		w.journal.mu.Unlock()
		if err := os.RemoveAll(block); err != nil {
			t.Fatal(err)
		}
		time.Sleep(journalBackoff)
		if err := w.Unwritable(); err != nil {
			t.Errorf("the disk has room again: %v", err)
		}
		if code := deliver(w, "fourth"); code != http.StatusOK {
			t.Errorf("a task when the disk has room again: %d", code)
		}
		settled(t, w)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}
