package sqlite

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent/driver"
)

// sideFiles are those that a Store in use has.
var sideFiles = []string{"", "-wal", "-shm", wakeSuffix}

func TestFileModes(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077, 0o777} {
		t.Run("new_files_are_their_owners_alone_whatever_the_umask", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "regent.db")
			old := syscall.Umask(umask)
			s, err := Open(t.Context(), path, Options{})
			if err == nil {
				_, err = s.Swap(t.Context(),
					driver.Record{Name: "x", Holder: driver.Identity{ID: "a", Incarnation: "1"},
						Epoch: 1, Nonce: 1, Duration: time.Minute})
			}

			syscall.Umask(old)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()

			for _, suffix := range sideFiles {
				if got := mode(t, path+suffix); got != 0o600 {
					t.Errorf("umask %04o: %s has mode %04o, want 0600", umask, filepath.Base(path+suffix), got)
				}
			}

			if w := s.Warnings(); len(w) > 0 {
				t.Errorf("umask %04o: %q", umask, w)
			}

			cannotBeReadByOthers(t, path)
		})
	}

	t.Run("an_existing_file_that_others_can_read_is_left_and_warned_about", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "regent.db")
		open(t, path).Close()
		chmod(t, path, 0o644)
		s := open(t, path)

		if got := mode(t, path); got != 0o644 {
			t.Errorf("it has mode %04o now: modes of files that were there are their owner's business", got)
		}

		warnings := strings.Join(s.Warnings(), "\n")
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if !strings.Contains(warnings, name+" has mode 0644") {
				t.Errorf("no warning names %s: %s", name, warnings)
			}
		}

		if !strings.Contains(warnings, "chmod 600") {
			t.Errorf("the warning does not say what to do: %s", warnings)
		}
	})

	t.Run("a_directory_that_others_can_write_is_warned_about", func(t *testing.T) {
		dir := t.TempDir()
		chmod(t, dir, 0o777)
		if w := strings.Join(open(t, filepath.Join(dir, "regent.db")).Warnings(), "\n"); !strings.Contains(w,
			"directory "+dir+" has mode 0777") {
			t.Errorf("got %q", w)
		}

		chmod(t, dir, 0o777|fs.ModeSticky) // as /tmp is
		if w := open(t, filepath.Join(dir, "regent.db")).Warnings(); len(w) > 0 {
			t.Errorf("got %q", w)
		}
	})
}

// cannotBeReadByOthers tries it as another user, where this one may become another.
func cannotBeReadByOthers(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}

	for dir := filepath.Dir(path); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		chmod(t, dir, 0o755)
	}

	for _, suffix := range sideFiles {
		cmd := exec.Command("/bin/cat", path+suffix)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "Permission denied") {
			t.Errorf("another user can read %s: %.200q, %v", filepath.Base(path+suffix), out, err)
		}
	}
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
