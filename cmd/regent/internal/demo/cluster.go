package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	api "github.com/regentd/regent/cmd/regent/internal/cli/cluster"
)

const (
	election = "coordinator"
	// restartPause is how long a killed node stays away.
	restartPause = 2 * time.Second
	// stopTimeout is how long a node may take to end.
	stopTimeout = 10 * time.Second
	// pausedTimeout is how long a node may take to say whether the election is paused.
	pausedTimeout = time.Second
)

// cluster is the processes of a demo.
type cluster struct {
	screen *screen
	dir    string
	self   string // this binary
	own    *part  // of the store; nil for a SQLite file
	lock   locker // how the store is made to hang
	web    *http.Server
	front  *front // serves the page with its buttons
	client *http.Client

	mu      sync.Mutex
	nodes   []*process
	leader  string
	epoch   uint64
	terms   int
	failed  error         // a process has ended before it joined
	changed chan struct{} // closed when somebody else leads, or nobody
	ending  bool
	waiting sync.WaitGroup // readers of processes, and restarts
}

// process is a node or a worker.
type process struct {
	name   string
	worker bool   // it does not lead
	addr   string // where it listens
	store  string // the address of the store, by its own way there
	cut    *proxy // its way to the store; nil if there is none

	cmd   *exec.Cmd
	gone  chan struct{} // closed when it has ended
	state string        // what the screen shows
}

// newCluster prepares the processes, and starts none. They use a part of a store, or a new SQLite file if it is nil.
func newCluster(dir string, own *part, s *screen) (*cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	c := &cluster{screen: s, dir: dir, self: self, own: own, changed: make(chan struct{}),
		client: &http.Client{Timeout: 5 * time.Second}}
	store := ""
	if own == nil {
		path := filepath.Join(dir, "regent.db")
		store = "sqlite:" + path
		c.lock = &fileLock{path: path}
	}

	for _, name := range []string{"node-a", "node-b", "node-c", "worker-1", "worker-2"} {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, &process{name: name, addr: addr, store: store, worker: name[0] == 'w',
			state: starts})
	}
	if own == nil {
		return c, nil
	}
	return c, c.throughProxies()
}

// freeAddr returns an address of the loopback interface that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// begin starts everything, and waits until every process has joined and somebody leads.
func (c *cluster) begin(ctx context.Context) error {
	target, err := c.serveWeb()
	if err != nil {
		return err
	}

	polls := fmt.Sprintf("polls:\n  shop:\n    kind: http\n    target: http://%s/\n    interval: 1s\n", target)
	if err := os.WriteFile(filepath.Join(c.dir, "regent.yaml"), []byte(polls), 0o600); err != nil {
		return err
	}

	if c.front, err = newFront(c.nodes[3].addr, c.faults(), c.screen.said); err != nil {
		return err
	}

	c.screen.say("Three nodes and two workers, each a process of its own, on %s.", c.where())
	for _, p := range c.nodes {
		if err := c.start(p); err != nil {
			return err
		}
	}
	begun := func() bool {
		return c.leader != "" && !slices.ContainsFunc(c.nodes, func(p *process) bool { return p.state == starts })
	}
	if err := c.await(ctx, "every process to join and a first leader", begun); err != nil {
		return err
	}
	if err := c.awaitPage(ctx); err != nil {
		return err
	}

	c.screen.say("%s leads, epoch %d. The page of the cluster: %s", c.leader, c.epoch, c.page())
	return nil
}

// awaitPage waits until the node of the page serves.
func (c *cluster) awaitPage(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("waited %v for the page", timeout))
	defer cancel()

	for {
		if _, err := c.at(c.nodes[3]).LocalStatus(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// page is the address of the page: that of a worker, which no fault of the demo ends, with a button for each fault.
func (c *cluster) page() string { return "http://" + c.front.addr + "/" }

// where names the store without what may be secret in its address.
func (c *cluster) where() string {
	if c.own == nil {
		return "an embedded SQLite file"
	}
	return fmt.Sprintf("%s://%s, in %s, which the demo removes at its end", c.own.address.Scheme, c.own.address.Host,
		c.own.name)
}

// serveWeb starts the web server that the cluster polls.
func (c *cluster) serveWeb() (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	c.web = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("open\n")) })}
	go func() { _ = c.web.Serve(l) }()
	return l.Addr().String(), nil
}

// start starts a process and reads what it logs.
func (c *cluster) start(p *process) error {
	args := []string{"serve", "--config", filepath.Join(c.dir, "regent.yaml"), "--store", p.store, "--node", p.name,
		"--listen", p.addr, "--data-dir", filepath.Join(c.dir, p.name), "--election", election, "--profile", "cluster",
		"--log-format", "json"}
	if p.worker {
		args = append(args, "--eligible=false", "--register")
	}

	cmd := exec.Command(c.self, args...)
	endWithParent(cmd)
	cmd.Dir = c.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { // they are for other nodes
		return strings.HasPrefix(pair, "REGENT_")
	})
	cmd.Env = append(cmd.Env, "DEMO_OF_REGENT="+strconv.Itoa(os.Getpid())) // to find what is left, if anything is
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}

	c.mu.Lock()
	p.cmd, p.gone = cmd, make(chan struct{})
	c.mu.Unlock()

	c.waiting.Go(func() {
		var last string
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			c.logged(p, lines.Bytes())
			last = lines.Text()
		}
		_ = cmd.Wait() // it was killed, or stopped
		c.mu.Lock()
		joined := p.state != starts
		p.state = "gone"
		if c.leader == p.name { // it was killed, and could not say that it leads no more
			c.leader = ""
			c.changedLocked()
		}
		close(p.gone)
		unasked := !c.ending && cmd.ProcessState.ExitCode() > 0
		if unasked && !joined {
			c.failed = fmt.Errorf("%s has ended before it joined: %s", p.name, last)
			c.changedLocked()
		}
		c.mu.Unlock()
		if unasked && joined {
			c.screen.say("%s has ended: %s", p.name, last)
		}
	})
	return nil
}

// logged takes in a line of a node's log, or of its reaper's.
func (c *cluster) logged(p *process, text []byte) {
	var l line
	if json.Unmarshal(text, &l) != nil {
		return
	}
	if event := l.event(p.name); event != "" {
		c.screen.event(event)
	}
	if l.Node != p.name {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	switch l.Msg {
	case "member:joined":
		p.state = "standby"
		if p.worker {
			p.state = "works"
		}
		c.changedLocked()
	case "became leader":
		if l.Epoch <= c.epoch {
			return
		}
		for _, other := range c.nodes {
			if other.state == "leads" {
				other.state = "standby"
			}
		}
		p.state = "leads"
		c.leader, c.epoch = p.name, l.Epoch
		c.terms++
		c.changedLocked()
	case "lost leadership":
		if c.leader == p.name && c.epoch == l.Epoch {
			c.leader = ""
			p.state = "standby"
			c.changedLocked()
		}
	}
}

// restart starts a process again once it has ended, and a little later.
func (c *cluster) restart(ctx context.Context, p *process) {
	c.waiting.Go(func() {
		select {
		case <-p.gone:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return
		}

		c.mu.Lock()
		ending := c.ending
		c.mu.Unlock()
		if ending {
			return
		}
		if err := c.start(p); err != nil {
			c.screen.say("%s does not start again: %v", p.name, err)
			return
		}
		c.screen.say("%s is started again, and stands by", p.name)
	})
}

// starts is the state of a process that has not joined yet.
const starts = "starts"

// at returns a client of a process.
func (c *cluster) at(p *process) *api.Node {
	return &api.Node{Base: &url.URL{Scheme: "http", Host: p.addr}, Client: c.client}
}

// summary says what happened.
func (c *cluster) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d terms, each with an epoch of its own, and never two at once.", c.terms)
}

// end ends every process, and waits until it is gone.
func (c *cluster) end() {
	c.mu.Lock()
	c.ending = true
	nodes := c.nodes
	c.mu.Unlock()
	if c.lock != nil {
		c.lock.release()
	}

	for _, p := range nodes {
		if p.cut != nil {
			p.cut.open()
		}
		if p.cmd != nil {
			_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may be frozen
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}
	}

	limit := time.After(stopTimeout)
	for _, p := range nodes {
		if p.cmd == nil {
			continue
		}
		select {
		case <-p.gone:
		case <-limit:
			if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				c.screen.say("%s: %v", p.name, err)
			}
			<-p.gone
		}
	}

	c.waiting.Wait()
	if c.web != nil {
		_ = c.web.Close()
	}
	if c.front != nil {
		c.front.close()
	}
	for _, p := range nodes {
		if p.cut != nil {
			p.cut.close()
		}
	}
}
