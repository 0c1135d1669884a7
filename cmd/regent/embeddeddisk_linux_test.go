package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/etcd"
)

// smallDisk mounts a small file system in a mount namespace of its own. It returns a function that makes a command run
// there, and the path of the file system for this process.
func smallDisk(t *testing.T, at, size string) (within func(*exec.Cmd) *exec.Cmd, outside string) {
	t.Helper()
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	within, root := mounted(t, fmt.Sprintf("mount -t tmpfs -o size=%s none %s", size, at))
	return within, filepath.Join(root, at)
}

// mounted runs a script that mounts something in a mount namespace of its own. It returns a function that makes a
// command run there, and the path of its root directory for this process.
func mounted(t *testing.T, script string) (within func(*exec.Cmd) *exec.Cmd, root string) {
	t.Helper()
	holder := exec.Command("unshare", "--mount", "sh", "-c", script+" && echo mounted && exec sleep 1000")
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Skip("no mount namespace: ", err)
	}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	said := make([]byte, len("mounted"))
	if n, _ := out.Read(said); string(said[:n]) != "mounted" {
		t.Skip("this user cannot mount a file system in a namespace of its own")
	}

	pid := fmt.Sprint(holder.Process.Pid)
	within = func(cmd *exec.Cmd) *exec.Cmd {
		inner := exec.Command("nsenter", append([]string{"--mount", "--target", pid, cmd.Path}, cmd.Args[1:]...)...)
		inner.Env = cmd.Env
		return inner
	}
	return within, filepath.Join("/proc", pid, "root")
}

// TestEmbeddedDiskFull fills the disk of the member of the leader: its process ends, and another node leads.
func TestEmbeddedDiskFull(t *testing.T) {
	t.Parallel()
	c := newEmbedded(t, "&state=new", "--lease-duration", "10m")
	within, outside := smallDisk(t, c.data("a"), "180m")
	c.launch("a", within(c.command(c.serve("a")...)))
	c.start("b", "c")
	if first, _ := c.leader(); first != "a" {
		c.handOff(first, "a")
	}
	full := c.nodes["a"]

	ballast := filepath.Join(outside, "ballast")
	fill(t, ballast)
	ctx, cancel := context.WithCancel(t.Context())
	go writeMuch(ctx, c.clients())
	<-full.gone
	cancel()

	if code := full.cmd.ProcessState.ExitCode(); code != exitFailure ||
		len(full.said("level=ERROR.*no space left on device")) == 0 ||
		len(full.said("If its disk is full, free some space and start this node again")) == 0 {
		t.Errorf("exit code %d", code)
	}
	delete(c.nodes, "a")
	c.leader()

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	c.launch("a", within(c.command(c.serve("a")...)))
	c.nodes["a"].until("/standby", http.StatusOK)
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()

	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// clients returns the etcd address of the members.
func (c *embeddedCluster) clients() string {
	_, rest, _ := strings.Cut(c.query, "&clients=")
	list, _, _ := strings.Cut(rest, "&")
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		_, address, _ := strings.Cut(one, "=")
		all = append(all, address)
	}
	return "etcd://" + strings.Join(all, ",")
}

// writeMuch writes large registers until ctx ends.
func writeMuch(ctx context.Context, address string) {
	store, err := etcd.Open(ctx, address, etcd.Options{})
	if err != nil {
		return
	}
	defer store.Close()
	for i := 0; ctx.Err() == nil; i++ {
		_, _ = store.Swap(ctx, driver.Record{Name: fmt.Sprintf("much-%d", i%1000), Data: make([]byte, 60<<10)})
	}
}
