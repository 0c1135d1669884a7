package regular_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/internal/regular"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}

	file := at("file", os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
	paths := map[string]string{
		"a directory":     dir,
		"a symbolic link": at("link", os.Symlink(file, filepath.Join(dir, "link"))),
		"a named pipe":    at("pipe", syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600)),
		"a device":        "/dev/zero",
	}

	nowhere := at("nowhere", os.Symlink(filepath.Join(dir, "made"), filepath.Join(dir, "nowhere")))

	for what, path := range paths {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR | os.O_CREATE | os.O_APPEND} {
			t.Run(strings.ReplaceAll(what, " ", "_")+"_is_refused_at_once", func(t *testing.T) {
				done := make(chan error, 1)
				go func() {
					f, err := regular.Open(path, flag, 0o600)
					if err == nil {
						f.Close()
					}
					done <- err
				}()

				select {
				case err := <-done:
					if err == nil || err.Error() != path+" is "+what+": it must be a regular file" {
						t.Errorf("got %v", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it waits")
				}
			})
		}
	}

	t.Run("links_are_followed_to_files_only_where_that_is_allowed", func(t *testing.T) {
		f, err := regular.OpenLinked(paths["a symbolic link"])
		if err != nil {
			t.Fatal(err)
		}

		f.Close()
		toPipe := at("to-pipe", os.Symlink(paths["a named pipe"], filepath.Join(dir, "to-pipe")))
		if f, err := regular.OpenLinked(toPipe); err == nil || err.Error() != toPipe+
			" is a named pipe: it must be a regular file" {
			t.Errorf("got %v, %v", f, err)
		}
	})

	t.Run("a_link_that_leads_nowhere_makes_no_file", func(t *testing.T) {
		if _, err := regular.Open(nowhere, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			t.Error("was opened")
		}
		if _, err := os.Lstat(filepath.Join(dir, "made")); err == nil {
			t.Error("a file was made where the link leads")
		}
	})

	t.Run("a_file_is_opened_and_made", func(t *testing.T) {
		for _, path := range []string{file, filepath.Join(dir, "new")} {
			f, err := regular.Open(path, os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
	})
}
