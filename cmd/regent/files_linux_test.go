package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFilesOfANode starts a real node with files that it cannot use, such as a named pipe. It must say so, and not
// hang.
func TestFilesOfANode(t *testing.T) {
	refused := func(t *testing.T, want string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		cmd := command(t, nil, args...)
		var out bytes.Buffer
		cmd.Stderr = &out

		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
		defer stop()

		err := cmd.Wait()
		if ctx.Err() != nil {
			t.Fatalf("it hangs: %s", out.String())
		}
		if err == nil || !strings.Contains(out.String(), want) {
			t.Errorf("%v, want %q: %s", err, want, out.String())
		}
	}

	serve := func(dir string, args ...string) []string {
		return append([]string{"serve", "--node", "a", "--store", "sqlite:" + filepath.Join(dir, "x.db"), "--listen",
			"127.0.0.1:0",
			"--data-dir", dir}, args...)
	}
	for what, make := range map[string]func(path string) error{
		"a named pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a symbolic link": func(path string) error { return os.Symlink("/dev/null", path) },
		"a directory":     func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, file := range []string{"journal", "epoch"} {
			t.Run(strings.ReplaceAll(what, " ", "_")+"_as_"+file, func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "a", file)
				if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := make(path); err != nil {
					t.Fatal(err)
				}

				refused(t, path+" is "+what+": it must be a regular file", serve(dir)...)
			})
		}
	}

	for _, content := range []string{"18446744073709551615", "garbage", ""} {
		t.Run("an_epoch_file_of_"+content, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
				t.Fatal(err)
			}
			refused(t, "read fence "+writeFile(t, filepath.Join(dir, "a", "epoch"), content), serve(dir)...)
		})
	}

	for _, name := range []string{"../../x", "..", "a/b", `a\b`, "."} {
		t.Run("a_node_named_"+name, func(t *testing.T) {
			refused(t, "must not hold / or \\", serve(t.TempDir(), "--node", name)...)
		})
	}

	t.Run("a_token_file", func(t *testing.T) {
		dir := t.TempDir()
		pipe := filepath.Join(dir, "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}

		refused(t, "/dev/zero is a device: it must be a regular file", serve(dir, "--token-file", "/dev/zero")...)
		refused(t, "is a named pipe", serve(dir, "--token-file", pipe)...)
		refused(t, "at most 4096 bytes",
			serve(dir, "--token-file", writeFile(t, filepath.Join(dir, "long"), strings.Repeat("x", 5000)))...)
		refused(t, "/dev/zero is a device: it must be a regular file", serve(dir, "--config", "/dev/zero")...)
		refused(t, "is a named pipe", serve(dir, "--config", pipe)...)
		refused(t, "more than 4194304 bytes",
			serve(dir, "--config", writeFile(t, filepath.Join(dir, "huge"), strings.Repeat("#", 4<<20+1)))...)
		refused(t, "tlsCert: /dev/zero is a device", serve(dir, "--tls-cert", "/dev/zero", "--tls-key", "/dev/zero")...)

		open := writeFile(t, filepath.Join(dir, "open"), "correct-horse-battery-staple\n")
		for mode, warns := range map[os.FileMode]string{0o666: "other users can write it",
			0o644: "other users can read it", 0o600: "", 0o640: ""} {
			if err := os.Chmod(open, mode); err != nil {
				t.Fatal(err)
			}
			out, err := command(t, nil, serve(dir, "--token-file", open, "--check-config")...).Output()
			if err != nil || strings.Contains(string(out), "warning: tokenFile") != (warns != "") ||
				!strings.Contains(string(out), warns) {
				t.Errorf("mode %04o: %v %s", mode, err, out)
			}
		}
	})

	t.Run("a_NUL_in_a_duty", func(t *testing.T) {
		dir := t.TempDir()
		config := writeFile(t, filepath.Join(dir, "regent.yaml"), "duties:\n  mine:\n    command: [\"e\\0cho\", x]\n")
		refused(t, `duties.mine.command "e\x00cho": duties.mine.command must not hold a NUL byte`,
			serve(dir, "--config", config)...)
	})
}

// TestAbsurdEpochFile starts a leader whose own worker refuses it: the file has an epoch that no election reaches.
func TestAbsurdEpochFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}

	writeFile(t, filepath.Join(dir, "a", "epoch"), "2305843009213693952\n") // 2^61
	config := writeFile(t, filepath.Join(dir, "regent.yaml"), onePoll(t))
	d := start(t, "a", "sqlite:"+filepath.Join(dir, "x.db"), nil, "--config", config, "--data-dir", dir)
	d.await("epoch file of this worker is damaged")
	<-time.After(3 * time.Second) // without a limit there would be thousands of terms

	if n := len(d.said("became leader")); n > 3 { // on a busy machine it may lose a term
		t.Errorf("%d terms", n)
	}
	if n := len(d.said("reason=fenced")); n > 0 {
		t.Errorf("%d terms ended as fenced", n)
	}
}

// TestModesOfANode starts a real node and its reaper with a umask of 0, and checks the modes of their files.
func TestModesOfANode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	args := serveArgs(t, "a", "sqlite:"+path)
	bare := command(t, nil, args...)
	cmd := exec.Command("sh", append([]string{"-c", `umask 0; exec "$0" "$@"`, bare.Path}, args...)...)
	cmd.Env = bare.Env
	d := launch(t, "a", cmd, nil)
	d.serves()
	d.until("/leader", 200)

	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 3 {
		t.Fatal(entries, err)
	}

	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", e.Name(), info.Mode(), err)
		}
	}

	d.stop()

	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}

	start(t, "b", "sqlite:"+path, nil).await(`level=WARN.*x.db has mode 0644: other users can read`)
}

func TestOwnersOfFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}

	dir := t.TempDir()
	db := writeFile(t, filepath.Join(dir, "x.db"), "")
	token := writeFile(t, filepath.Join(dir, "token"), "correct-horse-battery-staple\n")

	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, "a"), 0o700); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{db, token, data} {
		if err := os.Chown(path, 12345, 0); err != nil {
			t.Fatal(err)
		}
	}

	d := start(t, "a", "sqlite:"+db, nil, "--token-file", token, "--data-dir", data)
	d.await(`level=WARN.*x.db belongs to user 12345`)
	d.await(`level=WARN.*tokenFile .*/token belongs to user 12345`)
	d.await(`level=WARN.*dataDir belongs to another user.* dir=\S*/data owner="user 12345"`)

	if said := d.said(`dir=\S*/data/a owner=|directory \S+ belongs to`); len(said) != 0 { // these belong to root
		t.Errorf("%q", said)
	}
}
