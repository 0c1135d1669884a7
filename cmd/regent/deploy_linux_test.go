package main

import (
	"debug/elf"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDeployImage does what the Dockerfile says, without docker: it runs the build command, lays out the files of the
// last stage, and runs the node in there as the first process of a pid namespace and as the user of the image.
func TestDeployImage(t *testing.T) {
	if imageLine(t, "FROM") != "scratch" {
		t.Errorf("the image is built on %s", imageLine(t, "FROM"))
	}
	if out, err := exec.Command("unshare", "--pid", "--fork", "true").CombinedOutput(); err != nil || os.Getuid() != 0 {
		t.Skipf("no pid namespace can be made here: %v: %s", err, out)
	}

	root := inMemory(t)
	check(t, os.Chmod(root, 0o755))
	out := filepath.Join(root, "out")
	build := exec.Command("sh", "-ec", strings.ReplaceAll(imageLine(t, "RUN"), "/out", out))
	build.Dir = "../.."
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}

	image := filepath.Join(root, "image")
	for _, line := range strings.Split(deployed(t, "Dockerfile"), "\n") {
		words := strings.Fields(line)
		if len(words) < 4 || words[0] != "COPY" || words[1] != "--from=build" {
			continue
		}

		from, to := words[len(words)-2], filepath.Join(image, words[len(words)-1])
		from = strings.Replace(from, "/out", out, 1)
		if !strings.HasPrefix(from, root) {
			continue // it is of the image that builds: the certificates of authorities
		}
		check(t, os.MkdirAll(filepath.Dir(to), 0o755))
		check(t, os.Rename(from, to))
		if strings.Contains(line, "--chown=") {
			check(t, os.Chown(to, imageUser(t), imageUser(t)))
		}
	}

	binary := filepath.Join(image, words(t, "ENTRYPOINT")[0])
	f, err := elf.Open(binary)
	check(t, err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the binary is not static")
		}
	}

	check(t, os.Mkdir(filepath.Join(image, "proc"), 0o555))
	script := fmt.Sprintf(`mount -t proc proc %s/proc && exec chroot --userspec=%s %s "$@"`, image,
		imageLine(t, "USER"), image)
	node := append(words(t, "ENTRYPOINT"), words(t, "CMD")...)
	node = append(node, "--listen", "127.0.0.1:0", "--node", "a", "--store", "sqlite:"+imageLine(t, "WORKDIR")+"/db",
		"--data-dir", imageLine(t, "WORKDIR"))
	namespace := []string{"--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script, "sh"}
	cmd := exec.Command("unshare", append(namespace, node...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	a := launch(t, "a", cmd, nil)
	a.serves()
	a.until("/leader", http.StatusOK)

	inner := innermost(t, a, "serve")
	info, err := os.Stat(fmt.Sprintf("/proc/%d", inner))
	check(t, err)
	if uid := info.Sys().(*syscall.Stat_t).Uid; int(uid) != imageUser(t) {
		t.Errorf("the node runs as %d", uid)
	}

	check(t, syscall.Kill(inner, syscall.SIGTERM))
	<-a.gone
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
