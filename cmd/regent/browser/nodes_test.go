package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// deadline is how long a test waits for what must come. A busy machine is slow.
const deadline = 60 * time.Second

var binary string // of the regent command, built once

// TestMain builds the command that all tests run.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := memoryDir()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)

		binary = filepath.Join(dir, "regent")
		build := exec.Command("go", "build", "-o", binary, "github.com/regentd/regent/cmd/regent")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		defer closeBrowser()

		return m.Run()
	}())
}

// memoryDir returns a new directory in memory where there is one: SQLite waits for the disk with every write.
func memoryDir() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "regent-test-"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "regent-test-")
}

// node is a real 'regent serve'. It can be started again with its name, port and data.
type node struct {
	t    *testing.T
	name string
	addr string
	args []string
	cmd  *exec.Cmd
	gone chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func (n *node) url() string { return "http://" + n.addr }

// Write implements [io.Writer]: it keeps what the node says.
func (n *node) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(b)
}

// start starts the node, and waits until it serves.
func (n *node) start() {
	n.t.Helper()
	n.cmd = exec.Command(binary, n.args...)
	n.cmd.Stderr = n
	n.gone = make(chan struct{})
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}

	go func(cmd *exec.Cmd, gone chan struct{}) {
		_ = cmd.Wait()
		close(gone)
	}(n.cmd, n.gone)

	wait(n.t, n.name+" serves", func() bool {
		resp, err := http.Get(n.url() + "/livez")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

// kill kills the node with signal 9.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.gone
}

// stop ends the node in order.
func (n *node) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.gone
}

// cluster is a cluster of real nodes on one SQLite file.
type cluster struct {
	t     *testing.T
	token string
	nodes map[string]*node
}

// newCluster starts nodes with three polls and a duty. A token is needed for writes unless it is empty.
func newCluster(t *testing.T, token string, names ...string) *cluster {
	t.Helper()
	dir, err := memoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(target.Close)

	// A busy machine takes its time to stop a duty.
	config := fmt.Sprintf(`leaseDuration: 12s
stopTimeout: 3s
heartbeatInterval: 500ms
renewInterval: 500ms
polls:
  shop: {kind: http, target: %q, interval: 1s}
  search: {kind: tcp, target: %q, interval: 2s}
  billing: {kind: tcp, target: "127.0.0.1:9", interval: 2s}
duties:
  replicate: {command: [sleep, "3600"]}
`, target.URL, target.Listener.Addr())
	file := filepath.Join(dir, "regent.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}

	c := &cluster{t: t, token: token, nodes: map[string]*node{}}
	for _, name := range names {
		c.nodes[name] = c.newNode(name, dir, file)
		c.nodes[name].start()
	}

	return c
}

func (c *cluster) newNode(name, dir, file string) *node {
	n := &node{t: c.t, name: name, addr: freePort()}
	n.args = []string{"serve", "--node", name, "--store", "sqlite:" + filepath.Join(dir, "regent.db"),
		"--listen", n.addr, "--data-dir", dir, "--config", file}
	if c.token != "" {
		n.args = append(n.args, "--token", c.token)
	}

	c.t.Cleanup(func() {
		n.kill()
		if c.t.Failed() {
			n.mu.Lock()
			defer n.mu.Unlock()
			c.t.Logf("%s said:\n%s", name, n.log.String())
		}
	})

	return n
}

// freePort returns an address below the ports that the system gives to connections, so that a node finds it free when
// it is started again.
func freePort() string {
	for {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10000+rand.IntN(20000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

// election is the part of /v1/elections that the tests need.
type election struct {
	Name   string
	Leader string
	Epoch  uint64
	Paused bool
}

// coordinator returns the election of the nodes, as one of them sees it.
func (c *cluster) coordinator(of *node) election { return c.election(of, "coordinator") }

// election returns an election, as a node sees it; the zero election if it does not.
func (c *cluster) election(of *node, name string) election {
	resp, err := http.Get(of.url() + "/v1/elections")
	if err != nil {
		return election{}
	}
	defer resp.Body.Close()

	var body struct{ Elections []election }
	_ = json.NewDecoder(resp.Body).Decode(&body)
	for _, e := range body.Elections {
		if e.Name == name {
			return e
		}
	}

	return election{}
}

// leader waits until a node other than not leads, and returns it with the epoch.
func (c *cluster) leader(not string) (*node, uint64) {
	c.t.Helper()
	var e election
	wait(c.t, "somebody leads", func() bool {
		for name, n := range c.nodes {
			if name == not {
				continue
			}
			if e = c.coordinator(n); e.Leader != "" && e.Leader != not {
				return true
			}
		}
		return false
	})

	return c.nodes[e.Leader], e.Epoch
}

// other returns a node that is none of those named.
func (c *cluster) other(not ...string) *node {
	for name, n := range c.nodes {
		if !strings.Contains(" "+strings.Join(not, " ")+" ", " "+name+" ") {
			return n
		}
	}

	c.t.Fatalf("there is no node but %v", not)
	return nil
}

// post sends a verb to a node, with the token.
func (c *cluster) post(to *node, path, body string) {
	c.t.Helper()
	r, err := http.NewRequest(http.MethodPost, to.url()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)

	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()

	if answer, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		c.t.Fatalf("POST %s %s: %d %s", path, body, resp.StatusCode, answer)
	}
}

// vacate makes the leader step down while the election is paused, so that nobody leads for a while. It returns who led,
// in which epoch, and who leads now.
func (c *cluster) vacate() (before *node, epoch uint64, now *node) {
	c.t.Helper()
	before, epoch = c.leader("")
	body := fmt.Sprintf(`{"epoch": %d}`, epoch)
	c.post(before, "/v1/elections/coordinator/pause", body)
	c.post(before, "/v1/elections/coordinator/step-down", body)
	c.post(before, "/v1/elections/coordinator/resume", body)

	wait(c.t, "somebody leads again", func() bool {
		e := c.coordinator(before)
		now = c.nodes[e.Leader]
		return e.Leader != "" && e.Epoch > epoch
	})

	return before, epoch, now
}

// wait waits until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for limit := time.Now().Add(deadline); time.Now().Before(limit); <-tick.C {
		if holds() {
			return
		}
	}

	t.Fatalf("waited %v in vain until %s", deadline, what)
}
