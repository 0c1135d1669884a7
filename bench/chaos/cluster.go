package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/regentd/regent/bench/internal/port"
	"github.com/regentd/regent/bench/internal/process"
)

// cluster is a directory, a web server that polls check, and processes.
type cluster struct {
	plan   plan
	dir    string
	binary string
	web    *http.Server
	target string
	procs  []*node
	client *http.Client
}

// node is a 'regent serve', which can be started again.
type node struct {
	name   string
	addr   string
	worker bool
	cmd    *exec.Cmd
	gone   <-chan struct{}
}

func newCluster(p plan) (*cluster, error) {
	dir := p.keep
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "regent-chaos-"); err != nil {
			return nil, err
		}
	}

	c := &cluster{plan: p, dir: dir, binary: filepath.Join(dir, "regent"),
		client: &http.Client{Timeout: 5 * time.Second}}
	build := exec.Command("go", "build", "-o", c.binary, "github.com/regentd/regent/cmd/regent")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build regent: %w: %s", err, text)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}

	c.target = listener.Addr().String()
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }
	c.web = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(answer)}
	go func() { _ = c.web.Serve(listener) }()

	return c, c.configure()
}

// configure writes the configuration file, and chooses names and ports.
func (c *cluster) configure() error {
	target := c.target
	if c.plan.kind == "http" {
		target = "http://" + target + "/"
	}

	var b strings.Builder
	fmt.Fprintf(&b, "store: sqlite:%s\ndataDir: %s\npolls:\n", filepath.Join(c.dir, "regent.db"),
		filepath.Join(c.dir, "data"))

	for i := range c.plan.polls {
		fmt.Fprintf(&b, "  p%05d: {kind: %s, target: %q, interval: %v}\n", i, c.plan.kind, target, c.plan.interval)
	}
	for i := range c.plan.nodes + c.plan.workers {
		p := &node{name: fmt.Sprintf("n%02d", i), addr: port.Address(port.Free()), worker: i >= c.plan.nodes}
		if p.worker {
			p.name = fmt.Sprintf("w%02d", i-c.plan.nodes)
		}
		c.procs = append(c.procs, p)
	}

	return os.WriteFile(filepath.Join(c.dir, "regent.yaml"), []byte(b.String()), 0o600)
}

// launch starts a process, or starts it again.
func (c *cluster) launch(p *node) error {
	role := "--worker=" + strconv.FormatBool(c.plan.both)
	if p.worker {
		role = "--eligible=false"
	}

	cmd := exec.Command(c.binary, "serve", "--config", filepath.Join(c.dir, "regent.yaml"), "--node", p.name,
		"--listen", p.addr, role)
	log, err := os.OpenFile(filepath.Join(c.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	cmd.Stderr = log
	cmd.Stdout = log

	gone, err := process.Start(cmd)
	if err != nil {
		return err
	}

	p.cmd = cmd
	p.gone = gone
	return nil
}

func (c *cluster) start(ctx context.Context) error {
	for _, p := range c.procs {
		if err := c.launch(p); err != nil {
			return err
		}
	}

	for _, p := range c.procs {
		if err := c.await(ctx, func() bool { return c.get(p, "/readyz") == http.StatusOK }); err != nil {
			return fmt.Errorf("%s is not ready: %w", p.name, err)
		}
	}

	_, err := c.leader(ctx, nil)
	return err
}

// leader waits until a process leads, other than not, and returns it.
func (c *cluster) leader(ctx context.Context, not *node) (*node, error) {
	var found *node
	err := c.await(ctx, func() bool {
		for _, p := range c.procs {
			if p != not && !p.worker && c.get(p, "/leader") == http.StatusOK {
				found = p
				return true
			}
		}

		return false
	})
	if err != nil {
		err = fmt.Errorf("nobody leads: %w", err)
	}

	return found, err
}

func (c *cluster) await(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()

	limit := time.After(60 * time.Second)
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			return errors.New("not within a minute")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}

	return nil
}

func (c *cluster) get(p *node, path string) int {
	resp, err := c.client.Get("http://" + p.addr + path)
	if err != nil {
		return 0
	}

	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// end sends a signal to a process, and returns when it has ended.
func (p *node) end(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.gone:
		return nil
	case <-time.After(30 * time.Second):
		return fmt.Errorf("%s does not end", p.name)
	}
}

// stop ends all processes with TERM.
func (c *cluster) stop() error {
	var wg sync.WaitGroup
	errs := make([]error, len(c.procs))
	for i, p := range c.procs {
		wg.Go(func() { errs[i] = p.end(syscall.SIGTERM) })
	}

	wg.Wait()
	return errors.Join(errs...)
}

func (c *cluster) close() {
	for _, p := range c.procs {
		if p.cmd != nil {
			_ = p.cmd.Process.Kill()
			<-p.gone
		}
	}

	_ = c.web.Close()
	if c.plan.keep == "" {
		_ = os.RemoveAll(c.dir)
	}
}

// disturb lets the cluster run, and ends its leader, or one process after the other, as the plan says. It returns how
// long nobody led each time.
func (c *cluster) disturb(ctx context.Context, out io.Writer) ([]time.Duration, error) {
	end := time.NewTimer(c.plan.length)
	defer end.Stop()

	if c.plan.killEvery == 0 {
		select {
		case <-end.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}

	tick := time.NewTicker(c.plan.killEvery)
	defer tick.Stop()

	var gaps []time.Duration
	for turn := 0; ; turn++ {
		select {
		case <-end.C:
			return gaps, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}

		victim, err := c.leader(ctx, nil)
		if err != nil {
			return nil, err
		}
		if c.plan.rolling {
			victim = c.procs[turn%len(c.procs)]
		}

		sig := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM}[c.plan.signal]
		began := time.Now()

		if err := victim.end(sig); err != nil {
			return nil, err
		}

		next, err := c.leader(ctx, victim)
		if err != nil {
			return nil, err
		}

		gaps = append(gaps, time.Since(began))
		if c.plan.verbose {
			fmt.Fprintf(out, "%s ended, %s leads after %v\n", victim.name, next.name,
				gaps[len(gaps)-1].Round(time.Millisecond))
		}
		if err := c.launch(victim); err != nil {
			return nil, err
		}
	}
}
